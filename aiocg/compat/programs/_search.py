"""Multi-threaded random search, which writes the same files as CompilerGym's."""

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

from aiocg.compat._errors import ServiceError
from aiocg.compat.envs._base import CompilerEnv
from aiocg.compat.tools._files import create_user_logs_dir
from aiocg.compat.tools._text import humanize_duration, tabulate

INTERVAL = 0.5  # seconds between progress reports

METADATA = "random_search.json"
PROGRESS = "random_search_progress.csv"
BEST_ACTIONS = "random_search_best_actions.txt"
BEST_COMMANDLINE = "random_search_best_actions_commandline.txt"
BEST_PROGRESS = "random_search_best_actions_progress.csv"


class RandomSearchProgressLogEntry(NamedTuple):
    """The progress of a search at some time."""

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
        """Parse a line of the log."""
        seconds, episodes, steps, passes, reward = line.split(",")
        return cls(float(seconds), int(episodes), int(steps), int(passes), float(reward))


class RandomAgentWorker(Thread):
    """A thread that runs a random agent, one episode after the other. Set `alive` to False to stop it."""

    def __init__(self, make_env: Callable[[], Any], patience: int) -> None:
        super().__init__(daemon=True)
        self._make_env = make_env
        self._patience = patience
        self.total_environment_count = self.total_episode_count = self.total_step_count = 0
        self.best_returns = -float("inf")
        self.best_actions: list[Any] = []
        self.best_commandline = ""
        self.best_found_at_time = time.time()
        self.error: Exception | None = None
        self.alive = True

    def run(self) -> None:
        try:
            while self._goes_on(1):
                self.total_environment_count += 1
                with self._make_env() as env:
                    self._patience = self._patience or env.action_space.n
                    while self._goes_on(1):
                        self.total_episode_count += 1
                        if not self.run_one_episode(env):
                            break
        except Exception as error:
            self.error = error

    def _goes_on(self, episodes: int) -> bool:
        return self.alive or self.total_episode_count < episodes  # the first episode is always completed

    def run_one_episode(self, env: Any) -> bool:
        """Run one episode; return whether the environment can be used for another."""
        env.reset()
        actions: list[Any] = []
        patience, total = self._patience, 0.0
        while patience >= 0 and self._goes_on(2):
            patience -= 1
            self.total_step_count += 1
            actions.append(env.action_space.sample())
            _, reward, done, _ = env.step(actions[-1])
            if done:
                return False
            total += reward
            if total > self.best_returns:
                patience = self._patience
                self.best_found_at_time = time.time()
                with contextlib.suppress(NotImplementedError, AttributeError):
                    self.best_commandline = str(env.action_space.to_string(env.actions))
                self.best_actions, self.best_returns = actions.copy(), total
        return True


def random_search(
    make_env: Callable[[], Any],
    outdir: str | Path | None = None,
    total_runtime: float | None = 600,
    patience: int = 0,
    nproc: int = cpu_count(),
    skip_done: bool = False,
) -> Any:
    """Search at random for the actions with the highest return, and write the results to files."""
    with make_env() as env:
        if not isinstance(env.unwrapped, CompilerEnv):
            raise TypeError(f"random_search() requires CompilerEnv. Called with: {type(env).__name__}")
        env.reset()
        uri = env.benchmark.uri
        if not env.reward_space:
            raise ValueError("A reward space must be specified for random search")
        reward = str(getattr(env.reward_space, "name", env.reward_space))
        names = list(env.action_space.names)
        id = env.spec.id if env.spec else ""
        metadata = {"env": id, "benchmark": str(uri), "reward": reward, "patience": patience}
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
    print(f"Started {len(workers)} worker threads for {uri} using reward {reward}.\nWriting logs to {folder}")
    limit = f"Running for {humanize_duration(total_runtime)}" if total_runtime else ""
    print(f"=== {limit or 'WARNING: This will loop forever! Use C-c to terminate.'} ===\n")
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
    """Wait until the time is over or Ctrl-C is pressed, stop the threads, and return the most successful one."""
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
    """Show and log the progress of the threads until the time is over or all have ended."""
    print(*RandomSearchProgressLogEntry._fields, sep=",", file=log, flush=True)
    started, reported, status = time.time(), -float("inf"), ""
    live = sys.stdout.isatty()
    while any(worker.is_alive() for worker in workers):
        left = INTERVAL if not total_runtime else min(INTERVAL, total_runtime - (time.time() - started))
        if left <= 0:
            break
        time.sleep(left)
        runtime = time.time() - started
        best = max(workers, key=lambda worker: worker.best_returns)
        steps, episodes = (sum(getattr(one, f"total_{what}_count") for one in workers) for what in ("step", "episode"))
        restarts = sum(worker.total_environment_count - 1 for worker in workers)
        if best.best_returns > reported:
            reported = best.best_returns
            entry = RandomSearchProgressLogEntry(runtime, episodes, steps, len(best.best_actions), reported)
            print(entry.to_csv(), file=log, flush=True)
        status = (
            f"Runtime: {humanize_duration(runtime)}. Num steps: {steps:,} ({int(steps / runtime):,} / sec). "
            f"Num episodes: {episodes:,} ({int(episodes / runtime):,} / sec). Num restarts: {restarts:,}.\n"
            f"Best reward: {best.best_returns:.4f} ({len(best.best_actions)} passes, "
            f"found after {humanize_duration(best.best_found_at_time - started)})"
        )
        if live:
            print(f"\r\033[1A\033[J{status}", end="", flush=True)
    if not live and reported > -float("inf"):
        print(status)


def replay_actions(env: Any, action_names: list[str], outdir: Path) -> None:
    """Apply actions one by one, print and log the reward of each, and write the program before and after."""
    writes = hasattr(env.unwrapped, "write_bitcode")
    if writes:
        env.unwrapped.write_bitcode(outdir / "unoptimized.bc")
    started, total, names = time.time(), 0.0, list(env.action_space.names)
    with open(outdir / BEST_PROGRESS, "w") as log:
        for number, name in enumerate(action_names, 1):
            _, reward, done, info = env.step(names.index(name))
            if done:
                raise ServiceError(f"action {number}, {name}, failed: {info.get('error_details', 'the episode ended')}")
            total += reward
            print(
                f"Step [{number:03d} / {len(action_names):03d}]: reward={reward:.4f}   \t"
                f"episode={total:.4f}   \taction={name}"
            )
            entry = RandomSearchProgressLogEntry(time.time() - started, 1, number, number, reward)
            print(entry.to_csv(), name, file=log, sep=",")
    if writes:
        env.unwrapped.write_bitcode(outdir / "optimized.bc")
        observe = env.observation
        rows = [("IR instruction count", *(observe[f"IrInstructionCount{level}"] for level in ("O0", "Oz", "")))]
        with contextlib.suppress(ServiceError, LookupError):  # LLVM may not generate code for the target
            sizes = [observe[f"ObjectTextSize{level}"] for level in ("O0", "Oz", "Bytes")]
            rows.append(("Object .text size (bytes)", *sizes))
        print(tabulate(rows, headers=("", "-O0", "-Oz", "final")))


def replay_actions_from_logs(env: Any, logdir: str | Path, benchmark: Any = None) -> None:
    """Apply the best actions of an earlier search."""
    folder = Path(logdir)
    meta = json.loads((folder / METADATA).read_text())
    actions = [line.strip() for line in (folder / BEST_ACTIONS).read_text().splitlines() if line.strip()]
    env.reward_space = meta["reward"]
    env.reset(benchmark=benchmark or meta["benchmark"])
    replay_actions(env, actions, folder)
