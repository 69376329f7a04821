"""Validate states in parallel: replay their actions, compare the rewards, and test the programs.

python -m aiocg.compat -m compiler_gym.bin.validate --env=<id> results.csv

The files are CSV as `CompilerEnvStateWriter` writes it, with the columns benchmark, reward, walltime and commandline.
`-` is standard input, and URLs of CSV files are fetched. A line is printed for each state, and a summary at the end.
The exit status is 1 if a state is not valid.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl.app import UsageError
from absl.flags import FLAGS

from aiocg.compat._states import CompilerEnvState, CompilerEnvStateReader, ValidationResult, validate_states
from aiocg.compat.programs._flags import define, define_shared, env_from_flags, run
from aiocg.compat.tools._text import arithmetic_mean, emph, geometric_mean, plural, stdev

define_shared("env_from_flags", "nproc")

define("boolean", "inorder", False, "Print the results in the order of the states.")
define("string", "reward_aggregation", "geomean", "How to aggregate rewards: geomean or mean.")
define("boolean", "debug_force_valid", False, "Skip validation and report all states as valid.")
define("boolean", "summary_only", False, "Print only the summary.")
define("string", "validation_logfile", "validation.log.json", "The file to write all results to, as JSON.")

WIDEST_NAME = 78  # characters
LOG_EVERY = 10  # results

_AGGREGATIONS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "geomean": ("Geometric mean", lambda rewards: geometric_mean(np.clip(rewards, 0, None))),
    "mean": ("Mean", arithmetic_mean),
}


def state_name(state: CompilerEnvState) -> str:
    """Return the name that a state is listed by."""
    return re.sub(r"^benchmark://", "", state.benchmark)


def to_string(result: ValidationResult, name_col_width: int) -> str:
    """Format a result as a line."""
    name = state_name(result.state)
    if not result.okay():
        return f"❌  {name}  {', '.join(result.error_details.strip().split(chr(10)))}"
    if result.state.reward is None:
        return f"✅  {name}"
    return f"✅  {name:<{name_col_width}}  {result.state.reward:9.4f}"


def main(argv: list[str]) -> None:
    """Run the program."""
    try:
        states = list(CompilerEnvStateReader.read_paths(argv[1:]))
        if not states:
            raise ValueError("No inputs to validate. Pass a CSV file path as an argument, or use - to read from stdin.")
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    if FLAGS.reward_aggregation not in _AGGREGATIONS:
        raise UsageError(f"Unknown aggregation type: '{FLAGS.reward_aggregation}'")
    title, aggregate = _AGGREGATIONS[FLAGS.reward_aggregation]
    with env_from_flags() as env:
        space = env.reward_space
        reward_name = f"{title} {getattr(space, 'name', space)}" if space else ""
    results: Iterator[ValidationResult]
    if FLAGS.debug_force_valid:
        results = (ValidationResult(state=state, reward_validated=True, walltime=0) for state in states)
    else:
        results = validate_states(env_from_flags, states, nproc=FLAGS.nproc, inorder=FLAGS.inorder)
    names = [*map(state_name, states), "Mean inference walltime", reward_name]
    width = min(max(map(len, names)) + 2, WIDEST_NAME)

    tell: Callable[..., Any] = (lambda *_, **__: None) if FLAGS.summary_only else print

    def tell_remaining(count: int) -> None:
        tell(f"{count} remaining {plural(count, 'state', 'states')} to validate ... ", end="", flush=True)

    failed, valid, log = 0, [], []
    tell_remaining(len(states))
    for number, result in enumerate(results, 1):
        tell("\r\033[K", to_string(result, width), sep="")
        tell_remaining(len(states) - number)
        log.append(result.dict())
        failed += not result.okay()
        if result.okay() and result.reward_validated:
            valid.append(result.state)
        if number % LOG_EVERY == 0 or number == len(states):
            with open(FLAGS.validation_logfile, "w") as file:
                json.dump(log, file, default=str)
    tell("\r\033[K----", "-" * width, "-----------", sep="")
    walltimes = [state.walltime for state in valid]
    rewards = [state.reward for state in valid if state.reward is not None]
    print(f"Number of validated results: {emph(len(valid))} of {len(states)}")
    mean, deviation = (emph(f"{function(walltimes):.3f}s") for function in (arithmetic_mean, stdev))
    print(f"Mean walltime per benchmark: {mean} (std: {deviation})")
    print(f"{reward_name}: {emph(f'{aggregate(rewards):.3f}')} (std: {emph(f'{stdev(rewards):.3f}')})")
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    run(main)
