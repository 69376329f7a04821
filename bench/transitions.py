"""What logging transitions costs a step, how fast a file of them is written and merged, and how large it is."""

import functools
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Self

import numpy as np

import aiocg
from aiocg.transitions import TransitionLog, merge
from bench.measure import MICRO, Budget, Effort, Results, alternate, ratios
from bench.processes import children, processor_seconds
from bench.programs import PASSES, USUAL, shuffles

ENVIRONMENT, REWARD = "llvm-v0", "IrInstructionCountOz"
STEPS = 60  # of an episode
EPISODES = 8  # of a sample, and between two flushes: some hundred steps, as a log writes every half second
SCALARS, TEXTS = Budget(1.05), Budget(1.15)
TRANSITIONS, STATES = Budget(20_000, at_least=True), Budget(2_000, at_least=True)
BYTES = Budget(12_000)  # of a state: a million in 12 GB
MERGED = Budget(60.0)


async def measure(effort: Effort) -> Results:
    """Step with and without logs in turns, and write and merge files of made-up transitions."""
    results = Results()
    with tempfile.TemporaryDirectory(prefix="transitions-") as name:
        await _steps(results, Path(name), effort.choose(9, 2), effort.choose(EPISODES, 1))
        _files(results, Path(name), effort.choose(200_000, 4_000), effort.choose(10_000, 500))
    results.note("Steps: processor time of client and worker, in turns; every episode has another order of passes.")
    results.note("Of scalars every other step is logged, in one environment, and the writing thread's time is added.")
    results.note("A sample is of eight episodes and a flush, which is about as often as a log writes by itself.")
    results.note("Nearly every state is new there, and LLVM takes most of the time for IR, which it prints.")
    results.note("Files: made up. A state has its cost and Autophase; with IR, also 9 kB of a program's text.")
    return results


async def _steps(results: Results, folder: Path, rounds: int, episodes: int) -> None:
    sides = [_Side(None), _Side(None, observed="Ir"), _Side(folder / "ir.db", ("Ir",)), _Side(folder / "scalars.db")]
    try:
        for side in sides:
            await side.open()
        steps = [functools.partial(side.step, episodes) for side in sides[:-1]]
        plain, observed, texts, scalars = await alternate(
            [*steps, functools.partial(sides[-1].logged, episodes)], rounds
        )
    finally:
        for side in sides:
            await side.close()
    results.add(f"step of {USUAL}, nothing logged", [MICRO * each for each in plain], "µs")
    results.add("with scalars logged, times that", scalars, "x", SCALARS)
    results.add("with IR of new states logged, times that", ratios(texts, plain), "x")
    results.add("the same, times a step that observes IR", ratios(texts, observed), "x", TEXTS)


class _Side:
    """One environment whose transitions are logged, or not."""

    def __init__(self, path: Path | None, logged: Sequence[str] = (), observed: str | None = None) -> None:
        self._path, self._logged, self._observed = path, logged, observed
        self._runtime = aiocg.Runtime(workers=1, options={"transition_cache_bytes": 0})
        self._orders: Iterator[str] = shuffles(PASSES, 1)

    async def open(self) -> None:
        before = set(children(os.getpid()))
        if self._path is not None:
            self._runtime.log_to(self._path, observations=self._logged)
        self._env = await self._runtime.make(
            ENVIRONMENT, benchmark=USUAL, reward_space=REWARD, observation_space=self._observed
        )
        await self._env.reset()
        found = set(children(os.getpid())) - before
        self._pids = [os.getpid(), *found, *[below for pid in found for below in children(pid)]]

    async def step(self, episodes: int) -> float:
        """Return the processor time of a step, with its part of writing, over some episodes."""
        used = 0.0
        for _ in range(episodes):
            await self._env.reset()
            used -= processor_seconds(self._pids)
            for _ in range(STEPS):
                await self._env.step(next(self._orders))
            await self._env.settled()
            used += processor_seconds(self._pids)
        if self._runtime.log is not None:
            used -= processor_seconds(self._pids)
            await self._runtime.log.flush()
            used += processor_seconds(self._pids)
        return used / (episodes * STEPS)

    async def logged(self, episodes: int) -> float:
        """Return how many times dearer steps are that are logged: every other one, so that both meet the same machine.

        What the thread that writes takes is added to those.
        """
        log = self._runtime.log
        took: tuple[list[float], list[float]] = [], []
        assert log is not None
        writes, others = log.clock, [pid for pid in self._pids if pid != os.getpid()]
        written, compiled = time.clock_gettime(writes), processor_seconds(others)
        for episode in range(episodes):
            self._env.log = None
            await self._env.reset()
            for number in range(STEPS):
                which = (number + episode) % 2
                self._env.log = log if which else None
                begun = time.thread_time()
                await self._env.step(next(self._orders))
                took[which].append(time.thread_time() - begun)
        await log.flush()
        written = (time.clock_gettime(writes) - written) / len(took[1])
        plain, logged = map(statistics.median, took)
        compiled = (processor_seconds(others) - compiled) / (episodes * STEPS)
        return (logged + written + compiled) / (plain + compiled)

    async def close(self) -> None:
        await self._runtime.close()


def _files(results: Results, folder: Path, count: int, texts: int) -> None:
    for name, number, size in (("without IR", count, 0), ("with IR", texts, 9_000)):
        path = folder / f"{name}.db"
        took = _write(path, number, size, 0)
        results.add(f"written {name}", [number / took.wall], "new states/s", STATES if size else TRANSITIONS)
        results.add(f"written {name}, by processor time", [number / took.processor], "new states/s")
        results.add(f"file {name}", [path.stat().st_size / number], "bytes/state", None if size else BYTES)
    other = folder / "other.db"
    _write(other, count, 0, 1)
    begun = _Time.now()
    merge(folder / "without IR.db", [other])
    took = begun.since()
    results.add("merging a million transitions", [took.wall * 1e6 / count], "s", MERGED)
    results.add("merging a million transitions, processor time", [took.processor * 1e6 / count], "s")


class _Time(NamedTuple):
    """Seconds of the clock, and of all threads on processors."""

    wall: float
    processor: float

    @classmethod
    def now(cls) -> Self:
        return cls(time.perf_counter(), time.process_time())

    def since(self) -> Self:
        return type(self)(time.perf_counter() - self.wall, time.process_time() - self.processor)


def _write(path: Path, count: int, size: int, seed: int) -> _Time:
    """Log walks of 50 steps whose states are all different; return what that takes."""
    rng = random.Random(seed)
    lines = [f"%{rng.randrange(1000)} = add i32 %{rng.randrange(1000)}, {rng.randrange(1000)}\n" for _ in range(4000)]
    states = [rng.getrandbits(63) for _ in range(count)]
    arrays = np.random.default_rng(seed).integers(0, 500, (1000, 56))
    texts = ["".join(rng.choices(lines, k=size // 25)) for _ in range(100)] if size else []
    log = TransitionLog(path)
    log.accept("LLVM of the benchmark")
    begun = _Time.now()
    for number, state in enumerate(states):
        benchmark = f"benchmark://made-up/{seed}-{number // 50}"
        values = {"IrInstructionCount": number, "Autophase": arrays[number % 1000]}
        if size:
            values["Ir"] = f"; {number}\n{texts[number % 100]}"
        if number % 50 == 0:
            log.start(benchmark, state, values)
        else:
            action = PASSES[number % len(PASSES)]
            log.step(benchmark, states[number - 1], (action,), state, {REWARD: number / count}, values)
    log.close()
    return begun.since()
