"""Evaluating a policy by how many fewer instructions its programs have, on all of cBench.

A policy is a function that is given an LLVM environment after a reset, and does what it wants to do in it::

    def my_policy(env):
        for _ in range(10):
            env.step(env.action_space.sample())

    if __name__ == "__main__":
        eval_llvm_instcount_policy(my_policy)
"""

import itertools
import logging
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from typing import Any

from aiocg.compat.command_flags import FLAGS, UsageError, define, run
from aiocg.compat.compiler_gym.bin.validate import main as validate
from aiocg.compat.compiler_gym.compiler_env_state import (
    CompilerEnvState,
    CompilerEnvStateReader,
    CompilerEnvStateWriter,
)
from aiocg.compat.compiler_gym.util.registration import make
from aiocg.compat.compiler_gym.util.statistics import arithmetic_mean, geometric_mean
from aiocg.compat.compiler_gym.util.timer import Timer, humanize_duration_hms

__all__ = ["Policy", "eval_llvm_instcount_policy"]

define("string", "leaderboard_results", "llvm_instcount-results.csv", "The file that results are written to.")
define("string", "leaderboard_logfile", "llvm_instcount-results.log", "The file that logs are written to.")
define("integer", "max_benchmarks", 0, "Use only so many programs of the dataset, the first ones; 0 for all.")
define("integer", "n", 10, "How often the policy is run on each program.")
define("string", "test_dataset", "cbench-v1", "The dataset.")
define("boolean", "validate", True, "Validate the results.")
define("boolean", "resume", False, "Go on with the results that there are, rather than begin anew.")

ENVIRONMENT, REWARD = "llvm-ic-v0", "IrInstructionCountOz"
INTERVAL = 1.0  # seconds between looks at how far it is

Policy = Callable[[Any], Any]


class _Worker(Thread):
    """Runs the policy on one program after the other."""

    def __init__(self, env: Any, benchmarks: list[str], policy: Policy, states: list[CompilerEnvState]) -> None:
        super().__init__(daemon=True)
        self.env, self.benchmarks, self.policy, self.states = env, benchmarks, policy, states
        self.alive = True
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            path = Path(FLAGS.leaderboard_results)
            header = not path.is_file() or not os.stat(path).st_size
            with CompilerEnvStateWriter(open(path, "a"), header=header) as writer:
                for benchmark in self.benchmarks:
                    if not self.alive:
                        return
                    state = self._evaluate(benchmark)
                    writer.write_state(state, flush=True)
                    self.states.append(state)
        except BaseException as error:
            self.error = error

    def _evaluate(self, benchmark: str) -> CompilerEnvState:
        self.env.reset(benchmark=benchmark)
        with Timer() as timer:
            self.policy(self.env)
        reward = self.env.reward_space
        assert self.env.in_episode, "Environment is no longer in an episode"
        assert self.env.benchmark and self.env.benchmark == benchmark, "Policy changed environment benchmark"
        assert reward, "Policy unset environment reward space"
        assert getattr(reward, "name", reward) == REWARD, "Policy changed environment reward space"
        state: CompilerEnvState = self.env.state.copy()
        state.walltime = timer.time
        return state


def eval_llvm_instcount_policy(policy: Policy) -> None:
    """Run a policy on each program of a dataset, write the states it comes to as CSV, and validate them.

    It reads the flags of the command line; `--help` lists them. The results of each run are added to the file as they
    are there, and with `--resume` those that are in it are not computed again.

    Args:
        policy: a function of an environment of type `llvm-ic-v0` that was reset; it must change neither the benchmark
            nor the reward.
    """

    def main(argv: list[str]) -> None:
        if len(argv) != 1:
            raise UsageError(f"Unknown args: {argv[1:]}")
        assert FLAGS.n > 0, "n must be > 0"
        with make(ENVIRONMENT) as env:
            interrupted = _evaluate_all(env, policy)
        if FLAGS.validate and not interrupted:
            FLAGS.env = ENVIRONMENT
            validate(["argv0", FLAGS.leaderboard_results])

    run(main)


def _evaluate_all(env: Any, policy: Policy) -> bool:
    """Run the policy on all programs, show how far it is, and return whether it was interrupted."""
    _log_to_file()
    print(f"Writing results to {FLAGS.leaderboard_results}")
    print(f"Writing logs to {FLAGS.leaderboard_logfile}")
    uris = list(itertools.islice(env.datasets[FLAGS.test_dataset].benchmark_uris(), FLAGS.max_benchmarks or None))
    todo = uris * FLAGS.n
    total, states = len(todo), []
    if FLAGS.resume and Path(FLAGS.leaderboard_results).is_file():
        with CompilerEnvStateReader(open(FLAGS.leaderboard_results)) as reader:
            states = list(reader)
        names = {uri: str(env.datasets.benchmark(uri).uri) for uri in uris}  # of stand-ins the states have theirs
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


def _log_to_file() -> None:
    logger = logging.getLogger("compiler_gym")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(logging.FileHandler(FLAGS.leaderboard_logfile))
    logger.propagate = False
    logger.info("started %s", time.strftime("%Y-%m-%dT%H:%M:%S"))
