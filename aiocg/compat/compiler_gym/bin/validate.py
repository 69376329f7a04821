"""Validate states, several at a time: apply their actions again, compare rewards, and test what the programs do.

python -m aiocg.compat -m compiler_gym.bin.validate --env=<id> results.csv

Files are what `CompilerEnvStateWriter` writes: CSV with the columns benchmark, reward, walltime and commandline. `-` is
standard input, and addresses of CSV files on the web are fetched. A line is printed for each state, and a summary at
the end. The exit status is 1 if a state is not valid.
"""

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import aiocg.compat.compiler_gym.util.flags.nproc  # noqa: F401  its flag
from aiocg.compat.command_flags import FLAGS, UsageError, define, run
from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvState, CompilerEnvStateReader
from aiocg.compat.compiler_gym.util.flags.env_from_flags import env_from_flags
from aiocg.compat.compiler_gym.util.shell_format import emph, plural
from aiocg.compat.compiler_gym.util.statistics import arithmetic_mean, geometric_mean, stdev
from aiocg.compat.compiler_gym.validate import validate_states
from aiocg.compat.compiler_gym.validation_result import ValidationResult

__all__ = ["main", "state_name", "to_string"]

define("boolean", "inorder", False, "Print the results in the order of the states, not as they come.")
define("string", "reward_aggregation", "geomean", "How rewards are summed up: geomean or mean.")
define("boolean", "debug_force_valid", False, "Validate nothing, and print what is printed when all is valid.")
define("boolean", "summary_only", False, "Print only the summary.")
define("string", "validation_logfile", "validation.log.json", "The file that all results are written to, as JSON.")

WIDEST_NAME = 78  # characters
LOG_EVERY = 10  # results

_AGGREGATIONS: dict[str, tuple[str, Callable[[Any], float]]] = {
    "geomean": ("Geometric mean", lambda rewards: geometric_mean(np.clip(rewards, 0, None))),
    "mean": ("Mean", arithmetic_mean),
}


def state_name(state: CompilerEnvState) -> str:
    """Return what a state is listed as."""
    return re.sub(r"^benchmark://", "", state.benchmark)


def to_string(result: ValidationResult, name_col_width: int) -> str:
    """Return the line for a result.

    Args:
        result: of a state.
        name_col_width: characters for its name.
    """
    name = state_name(result.state)
    if not result.okay():
        return f"❌  {name}  {', '.join(result.error_details.strip().split(chr(10)))}"
    if result.state.reward is None:
        return f"✅  {name}"
    return f"✅  {name:<{name_col_width}}  {result.state.reward:9.4f}"


def main(argv: list[str]) -> None:
    """Do what the command line says."""
    try:
        states = list(CompilerEnvStateReader.read_paths(argv[1:]))
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        sys.exit(1)
    if not states:
        message = "No inputs to validate. Pass a CSV file path as an argument, or use - to read from stdin."
        print(message, file=sys.stderr)
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

    def tell(*words: Any, **options: Any) -> None:
        if not FLAGS.summary_only:
            print(*words, **options)

    def tell_remaining(count: int) -> None:
        tell(f"{count} remaining {plural(count, 'state', 'states')} to validate ... ", end="", flush=True)

    failed, valid, log = 0, [], []
    tell_remaining(len(states))
    for number, result in enumerate(results, 1):
        tell("\r\033[K", to_string(result, width), sep="")
        tell_remaining(len(states) - number)
        log.append(result.dict())
        if not result.okay():
            failed += 1
        elif result.reward_validated:
            valid.append(result.state)
        if number % LOG_EVERY == 0:
            _write(log)
    _write(log)
    tell("\r\033[K----", "-" * width, "-----------", sep="")
    walltimes = [state.walltime for state in valid]
    rewards = [state.reward for state in valid if state.reward is not None]
    print(f"Number of validated results: {emph(len(valid))} of {len(states)}")
    print(
        f"Mean walltime per benchmark: {emph(f'{arithmetic_mean(walltimes):.3f}s')} "
        f"(std: {emph(f'{stdev(walltimes):.3f}s')})"
    )
    print(f"{reward_name}: {emph(f'{aggregate(rewards):.3f}')} (std: {emph(f'{stdev(rewards):.3f}')})")
    if failed:
        sys.exit(1)


def _write(log: list[dict[str, Any]]) -> None:
    with open(FLAGS.validation_logfile, "w") as file:
        json.dump(log, file, default=str)


if __name__ == "__main__":
    run(main)
