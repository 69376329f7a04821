"""The leaderboard: evaluate a policy by the instructions that it saves on the programs of cBench.

A policy is a function that takes an LLVM environment after a reset, and steps it::

    def my_policy(env):
        for _ in range(10):
            env.step(env.action_space.sample())

    if __name__ == "__main__":
        eval_llvm_instcount_policy(my_policy)
"""

import itertools
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from absl.flags import FLAGS

from aiocg.compat._states import CompilerEnvState, CompilerEnvStateReader, CompilerEnvStateWriter
from aiocg.compat.envs._base import make
from aiocg.compat.programs._flags import define, no_arguments, run
from aiocg.compat.programs.validate import main as validate
from aiocg.compat.tools._text import Timer, arithmetic_mean, geometric_mean, humanize_duration_hms

define("string", "leaderboard_results", "llvm_instcount-results.csv", "The file to write results to.")
define("string", "leaderboard_logfile", "llvm_instcount-results.log", "The file to write logs to.")
define("integer", "max_benchmarks", 0, "Use only this many programs, from the first; 0 for all.")
define("integer", "n", 10, "The number of runs of the policy on each program.")
define("string", "test_dataset", "cbench-v1", "The dataset.")
define("boolean", "validate", True, "Validate the results.")
define("boolean", "resume", False, "Continue with the existing results instead of starting over.")

ENVIRONMENT, REWARD = "llvm-ic-v0", "IrInstructionCountOz"
INTERVAL = 1.0  # seconds between progress reports

Policy = Callable[[Any], Any]


class _Worker(Thread):
    """A thread that runs the policy on one program after the other."""

    def __init__(self, env: Any, benchmarks: list[str], policy: Policy, states: list[CompilerEnvState]) -> None:
        super().__init__(daemon=True)
        self.env, self.benchmarks, self.policy, self.states = env, benchmarks, policy, states
        self.alive = True
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with open(FLAGS.leaderboard_results, "a") as file:
                writer = CompilerEnvStateWriter(file, header=not file.tell())
                for benchmark in self.benchmarks:
                    if not self.alive:
                        return
                    self.states.append(self._evaluate(benchmark))
                    writer.write_state(self.states[-1], flush=True)
        except BaseException as error:
            self.error = error

    def _evaluate(self, benchmark: str) -> CompilerEnvState:
        self.env.reset(benchmark=benchmark)
        with Timer() as timer:
            self.policy(self.env)
        assert self.env.in_episode, "Environment is no longer in an episode"
        assert self.env.benchmark and self.env.benchmark == benchmark, "Policy changed environment benchmark"
        reward = self.env.reward_space
        assert reward, "Policy unset environment reward space"
        assert getattr(reward, "name", reward) == REWARD, "Policy changed environment reward space"
        state: CompilerEnvState = self.env.state.copy(update={"walltime": timer.time})
        return state


def eval_llvm_instcount_policy(policy: Policy) -> None:
    """Run a policy on each program of a dataset, write the resulting states as CSV, and validate them.

    The command line is parsed for flags, which `--help` lists. Each result is appended to the file immediately. With
    `--resume`, results that are already in the file are not computed again.
    """

    def main(argv: list[str]) -> None:
        no_arguments(argv)
        assert FLAGS.n > 0, "n must be > 0"
        with make(ENVIRONMENT) as env:
            interrupted = _evaluate_all(env, policy)
        if FLAGS.validate and not interrupted:
            FLAGS["env"].value = ENVIRONMENT
            validate(["argv0", FLAGS.leaderboard_results])

    run(main)


def _evaluate_all(env: Any, policy: Policy) -> bool:
    """Run the policy on all programs, showing progress; return whether it was interrupted."""
    logger = logging.getLogger("compiler_gym")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(logging.FileHandler(FLAGS.leaderboard_logfile))
    logger.propagate = False
    print(f"Writing results to {FLAGS.leaderboard_results}\nWriting logs to {FLAGS.leaderboard_logfile}")
    uris = list(itertools.islice(env.datasets[FLAGS.test_dataset].benchmark_uris(), FLAGS.max_benchmarks or None))
    todo = uris * FLAGS.n
    total, states = len(todo), []
    if FLAGS.resume and Path(FLAGS.leaderboard_results).is_file():
        with CompilerEnvStateReader(open(FLAGS.leaderboard_results)) as reader:
            states = list(reader)
        names = {uri: str(env.datasets.benchmark(uri).uri) for uri in uris}  # states name the stand-ins
        for state in states:
            done = next((uri for uri in todo if state.benchmark in (uri, names[uri])), None)
            if done is not None:
                todo.remove(done)
    worker = _Worker(env, todo, policy, states)
    worker.start()
    timer, live = Timer().reset(), sys.stdout.isatty()
    print(f"=== Evaluating policy on {total:,} {FLAGS.test_dataset} benchmarks ===\n\n")
    try:
        while worker.is_alive():
            worker.join(INTERVAL)
            if live:
                print(f"\r\033[2A\033[J{_progress(worker.states, total, timer.time)}", end="", flush=True)
    except KeyboardInterrupt:
        print("\nkeyboard interrupt", flush=True)
        worker.alive = False
        return True
    print("" if live else _progress(worker.states, total, timer.time))
    if worker.error is not None:
        raise worker.error
    return False


def _progress(states: list[CompilerEnvState], total: int, seconds: float) -> str:
    mean = arithmetic_mean([state.walltime for state in states]) or seconds
    return (
        f"Runtime: {humanize_duration_hms(seconds)}. "
        f"Estimated completion: {humanize_duration_hms(mean * (total - len(states)))}. "
        f"Completed: {len(states):,} / {total:,} ({len(states) / total:.1%}).\n"
        f"Current mean walltime: {mean:.3f}s / benchmark.\n"
        f"Current geomean reward: {geometric_mean([state.reward for state in states]):.4f}."
    )
