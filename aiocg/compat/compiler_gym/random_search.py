"""Random search by several threads, with the files that CompilerGym's search wrote."""

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable
from multiprocessing import cpu_count
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.compiler_gym.errors import ServiceError
from aiocg.compat.compiler_gym.util.runfiles_path import create_user_logs_dir
from aiocg.compat.compiler_gym.util.tabulate import tabulate
from aiocg.compat.compiler_gym.util.timer import humanize_duration

__all__ = [
    "RandomAgentWorker",
    "RandomSearchProgressLogEntry",
    "random_search",
    "replay_actions",
    "replay_actions_from_logs",
]

INTERVAL = 0.5  # seconds between looks at what the threads have found

METADATA = "random_search.json"
PROGRESS = "random_search_progress.csv"
BEST_ACTIONS = "random_search_best_actions.txt"
BEST_COMMANDLINE = "random_search_best_actions_commandline.txt"
BEST_PROGRESS = "random_search_best_actions_progress.csv"


class RandomSearchProgressLogEntry(NamedTuple):
    """How far a search was at some time.

    Attributes:
        runtime_seconds: since it began.
        total_episode_count: episodes so far.
        total_step_count: steps so far.
        num_passes: how many actions the best solution has.
        reward: of the best solution.
    """

    runtime_seconds: float
    total_episode_count: int
    total_step_count: int
    num_passes: int
    reward: float

    def to_csv(self) -> str:
        """Return a line of the log."""
        return f"{self.runtime_seconds:.3f},{','.join(str(value) for value in self[1:])}"

    @classmethod
    def from_csv(cls, line: str) -> "RandomSearchProgressLogEntry":
        """Read a line of the log."""
        seconds, episodes, steps, passes, reward = line.split(",")
        return cls(float(seconds), int(episodes), int(steps), int(passes), float(reward))


class RandomAgentWorker(Thread):
    """A thread with an agent that acts at random, in one episode after the other. Set `alive` to False to end it.

    Args:
        make_env: makes an environment.
        patience: steps without a better return before an episode is given up; as many as there are actions if 0.

    Attributes:
        total_environment_count, total_episode_count, total_step_count: what it has done so far.
        best_returns, best_actions, best_commandline, best_found_at_time: its best solution.
        error: what ended it, if it was not told to.
    """

    def __init__(self, make_env: Callable[[], Any], patience: int) -> None:
        super().__init__(daemon=True)
        self._make_env = make_env
        self._patience = patience
        self.total_environment_count = 0
        self.total_episode_count = 0
        self.total_step_count = 0
        self.best_returns = -float("inf")
        self.best_actions: list[Any] = []
        self.best_commandline = ""
        self.best_found_at_time = time.time()
        self.error: Exception | None = None
        self.alive = True

    @property
    def should_run_one_episode(self) -> bool:
        """Whether there is to be another episode; there always is a first one."""
        return self.alive or not self.total_episode_count

    def run(self) -> None:
        """Do episodes until it is told to end."""
        try:
            while self.should_run_one_episode:
                self.total_environment_count += 1
                with self._make_env() as env:
                    self._patience = self._patience or env.action_space.n
                    self.run_one_environment(env)
        except Exception as error:
            self.error = error

    def run_one_environment(self, env: Any) -> None:
        """Do episodes in one environment, until one ends by itself."""
        while self.should_run_one_episode:
            self.total_episode_count += 1
            if not self.run_one_episode(env):
                return

    def run_one_episode(self, env: Any) -> bool:
        """Do one episode; return whether the environment is still good."""
        env.reset()
        actions: list[Any] = []
        patience, total = self._patience, 0.0
        while patience >= 0 and self.should_go_on:
            patience -= 1
            self.total_step_count += 1
            action = env.action_space.sample()
            actions.append(action)
            _, reward, done, _ = env.step(action)
            if done:
                return False
            total += reward
            if total > self.best_returns:
                patience = self._patience
                self.best_found_at_time = time.time()
                self.best_commandline = _commandline(env)
                self.best_actions = actions.copy()
                self.best_returns = total
        return True

    @property
    def should_go_on(self) -> bool:
        """Whether the present episode is to go on; the first one is never cut short."""
        return self.alive or self.total_episode_count <= 1


def random_search(
    make_env: Callable[[], Any],
    outdir: str | Path | None = None,
    total_runtime: float | None = 600,
    patience: int = 0,
    nproc: int = cpu_count(),
    skip_done: bool = False,
) -> Any:
    """Search at random for the actions with the highest return, and write what is found to files.

    Args:
        make_env: makes an environment on the program in question; it is called in each thread.
        outdir: the folder of the files, a new one below `COMPILER_GYM_LOGS` if None.
        total_runtime: seconds; None to go on until Ctrl-C.
        patience: steps without a better return before an episode is given up; as many as there are actions if 0.
        nproc: how many threads search; each has an environment.
        skip_done: if there are the files of a search already, apply what it found instead.

    Returns:
        An environment in the best state that was found; to be closed by the caller.

    Raises:
        TypeError: when it is no environment of a compiler.
        ValueError: when it has no reward space.
    """
    with make_env() as env:
        if not isinstance(env.unwrapped, CompilerEnv):
            raise TypeError(f"random_search() requires CompilerEnv. Called with: {type(env).__name__}")
        env.reset()
        uri = env.benchmark.uri
        if not env.reward_space:
            raise ValueError("A reward space must be specified for random search")
        reward = _name(env.reward_space)
        names = list(env.action_space.names)
        metadata = {
            "env": env.spec.id if env.spec else "",
            "benchmark": str(uri),
            "reward": reward,
            "patience": patience,
        }
    folder = Path(outdir or create_user_logs_dir(os.path.normpath(f"random/{uri.scheme}/{uri.dataset}{uri.path}")))
    folder.mkdir(parents=True, exist_ok=True)
    if skip_done and (folder / METADATA).is_file() and (folder / BEST_ACTIONS).is_file():
        env = make_env()
        replay_actions_from_logs(env, folder)
        return env
    (folder / METADATA).write_text(json.dumps(metadata, sort_keys=True, indent=2))

    workers = [RandomAgentWorker(make_env, patience) for _ in range(nproc)]
    for worker in workers:
        worker.start()
    print(f"Started {len(workers)} worker threads for {uri} using reward {reward}.")
    print(f"Writing logs to {folder}")
    if total_runtime:
        print(f"=== Running for {humanize_duration(total_runtime)} ===\n")
    else:
        print("=== WARNING: This will loop forever! Use C-c to terminate. ===\n")
    best = _best_when_over(workers, total_runtime, folder)
    best_names = [names[action] for action in best.best_actions]
    (folder / BEST_ACTIONS).write_text("".join(f"{name}\n" for name in best_names))
    (folder / BEST_COMMANDLINE).write_text(f"{best.best_commandline}\n")

    print("Replaying actions from best solution found:")
    env = make_env()
    try:
        env.reset()
        replay_actions(env, best_names, folder)
    except BaseException:
        env.close()
        raise
    return env


def _best_when_over(workers: list[RandomAgentWorker], total_runtime: float | None, folder: Path) -> RandomAgentWorker:
    """Watch threads until their time is over or Ctrl-C, end them, and return the one that found the best.

    Raises:
        Exception: what the first one failed with, when none has found anything.
    """
    try:
        with open(folder / PROGRESS, "w") as log:
            _watch(workers, total_runtime, log)
    except KeyboardInterrupt:
        print("\nkeyboard interrupt", end="", flush=True)
    print("\nEnding worker threads ... ", end="", flush=True)
    for worker in workers:
        worker.alive = False
    for worker in workers:
        worker.join()
    print("done")
    best = max(workers, key=lambda worker: worker.best_returns)
    errors = [worker.error for worker in workers if worker.error is not None]
    if errors and best.best_returns == -float("inf"):
        raise errors[0]
    if errors:
        print(f"{len(errors)} of {len(workers)} threads have failed, the first with: {errors[0]}", file=sys.stderr)
    return best


def _watch(workers: list[RandomAgentWorker], total_runtime: float | None, log: Any) -> None:
    """Show and log how far the threads are, until the time is over or all of them have ended."""
    print(*RandomSearchProgressLogEntry._fields, sep=",", file=log, flush=True)
    started, reported = time.time(), -float("inf")
    live = sys.stdout.isatty()
    while any(worker.is_alive() for worker in workers):
        runtime = time.time() - started
        left = INTERVAL if not total_runtime else min(INTERVAL, total_runtime - runtime)
        if left <= 0:
            break
        time.sleep(left)
        runtime = time.time() - started
        best = max(workers, key=lambda worker: worker.best_returns)
        steps = sum(worker.total_step_count for worker in workers)
        episodes = sum(worker.total_episode_count for worker in workers)
        restarts = sum(worker.total_environment_count - 1 for worker in workers)
        if best.best_returns > reported:
            reported = best.best_returns
            entry = RandomSearchProgressLogEntry(runtime, episodes, steps, len(best.best_actions), reported)
            print(entry.to_csv(), file=log, flush=True)
        if live:
            print(f"\r\033[1A\033[J{_status(runtime, steps, episodes, restarts, best, started)}", end="", flush=True)
    if not live and reported > -float("inf"):
        print(_status(runtime, steps, episodes, restarts, best, started))


def _status(
    runtime: float, steps: int, episodes: int, restarts: int, best: RandomAgentWorker, started: float
) -> str:
    return (
        f"Runtime: {humanize_duration(runtime)}. Num steps: {steps:,} ({int(steps / runtime):,} / sec). "
        f"Num episodes: {episodes:,} ({int(episodes / runtime):,} / sec). Num restarts: {restarts:,}.\n"
        f"Best reward: {best.best_returns:.4f} ({len(best.best_actions)} passes, "
        f"found after {humanize_duration(best.best_found_at_time - started)})"
    )


def replay_actions(env: Any, action_names: list[str], outdir: Path) -> None:
    """Do actions one after the other, print and log what each earns, and write the program before and after.

    Args:
        env: an environment that has been reset.
        action_names: names of actions.
        outdir: the folder of the files.

    Raises:
        ServiceError: when an action fails that did not before.
    """
    writes = hasattr(env.unwrapped, "write_bitcode")
    if writes:
        env.unwrapped.write_bitcode(outdir / "unoptimized.bc")
    started, total, names = time.time(), 0.0, list(env.action_space.names)
    with open(outdir / BEST_PROGRESS, "w") as log:
        for number, name in enumerate(action_names, 1):
            _, reward, done, info = env.step(names.index(name))
            if done:
                raise ServiceError(f"{name}, action {number}, fails: {info.get('error_details', 'the episode ended')}")
            total += reward
            print(
                f"Step [{number:03d} / {len(action_names):03d}]: reward={reward:.4f}   \t"
                f"episode={total:.4f}   \taction={name}"
            )
            entry = RandomSearchProgressLogEntry(time.time() - started, 1, number, number, reward)
            print(entry.to_csv(), name, file=log, sep=",")
    if writes:
        env.unwrapped.write_bitcode(outdir / "optimized.bc")
        print(tabulate(_comparison(env), headers=("", "-O0", "-Oz", "final")))


def _comparison(env: Any) -> list[tuple[Any, ...]]:
    observe = env.observation
    rows = [("IR instruction count", *(observe[f"IrInstructionCount{level}"] for level in ("O0", "Oz", "")))]
    with contextlib.suppress(ServiceError, LookupError):  # a target that no machine code is generated for
        sizes = [observe[f"ObjectTextSize{level}"] for level in ("O0", "Oz", "Bytes")]
        rows.append(("Object .text size (bytes)", *sizes))
    return rows


def replay_actions_from_logs(env: Any, logdir: str | Path, benchmark: Any = None) -> None:
    """Apply the best solution of an earlier search.

    Args:
        env: the environment, which is reset.
        logdir: the folder of the files of that search.
        benchmark: the program; that of the search if None.

    Raises:
        FileNotFoundError: when the folder has no such files.
    """
    folder = Path(logdir)
    meta = json.loads((folder / METADATA).read_text())
    actions = [line.strip() for line in (folder / BEST_ACTIONS).read_text().splitlines() if line.strip()]
    env.reward_space = meta["reward"]
    env.reset(benchmark=benchmark or meta["benchmark"])
    replay_actions(env, actions, folder)


def _name(reward_space: Any) -> str:
    return str(getattr(reward_space, "name", reward_space))


def _commandline(env: Any) -> str:
    try:
        return str(env.action_space.to_string(env.actions))
    except (NotImplementedError, AttributeError):
        return ""
