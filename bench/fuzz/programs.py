"""Damaged programs for a real worker: whatever they do to it, others go on and its memory does not grow."""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

import aiocg
from aiocg.datasets import DatasetError
from aiocg.fleet.restart_policy import Policy
from bench.fuzz.mutation import damaged

NAMES = ("gcd", "crc32", "nqueens", "qsort")
ACTIONS = ("mem2reg", "instcombine", "simplifycfg", "gvn")
OBSERVATIONS = ("Autophase", "IrInstructionCount", "ObjectImageSizeBytes", "Ir")
PATIENT = Policy(  # with workers that die all the time
    first_delay=0.01,
    max_delay=0.05,
    healthy_after=0.0,
    quarantine_deaths=0,
    max_death_rate=1 << 30,
    max_explained_rate=1 << 30,
    max_deaths=1 << 30,
)
MEMORY_LIMIT = 4 << 30  # bytes of address space of a worker
DEADLINE = 60.0  # seconds that anything may take before it counts as hung


class Tally(NamedTuple):
    """What became of damaged programs.

    Attributes:
        outcomes: how many were "optimised", or what error they led to.
        memory: resident bytes of the worker after each program; it starts anew with each worker.
        slowest: seconds that the slowest took.
    """

    outcomes: Counter[str]
    memory: list[tuple[int, int]]
    slowest: float

    def growth(self) -> int:
        """Return by how many bytes one worker grew at the most, its first programs left out."""
        by_worker: dict[int, list[int]] = {}
        for pid, size in self.memory:
            by_worker.setdefault(pid, []).append(size)
        return max((sizes[-1] - max(sizes[:20]) for sizes in by_worker.values() if len(sizes) > 20), default=0)


def programs() -> tuple[bytes, ...]:
    """Return real programs, as bitcode and as text."""
    from aiocg.workers.llvm._library import Library
    from aiocg.workers.llvm.module import Module

    library = Library.find()
    found = []
    for name in NAMES:
        content = aiocg.Runtime(workers=1).datasets["programs-v0"][name].content
        with Module.parse(library, content) as module:
            found += [content, module.to_text().encode()]
    return tuple(found)


def inputs(seed: int) -> Iterator[bytes]:
    """Yield damaged programs without end."""
    rng, whole = random.Random(seed), programs()
    while True:
        yield damaged(rng, rng.choice(whole), whole)


async def attack(contents: Iterator[bytes], until: Callable[[int], bool], keep: Callable[[bytes], None]) -> Tally:
    """Give damaged programs to a worker, one after the other, and have them optimised if it takes them.

    Args:
        contents: the programs.
        until: told how many were tried, says when it is enough.
        keep: given each program before it is tried.

    Raises:
        AssertionError: when somebody else notices, or anything hangs.
    """
    outcomes: Counter[str] = Counter()
    memory: list[tuple[int, int]] = []
    slowest, tried = 0.0, 0
    async with aiocg.Runtime(workers=1, memory_limit=MEMORY_LIMIT, policy=PATIENT) as runtime:
        bystander = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        await bystander.reset()
        await bystander.step("mem2reg")
        state = bystander.state_hash
        env = await runtime.make("llvm-ic-v0")
        while not until(tried):
            tried += 1
            content = next(contents)
            keep(content)
            started = time.monotonic()
            outcomes[await asyncio.wait_for(_try(env, f"fuzz-v0/{tried}", content), DEADLINE)] += 1
            slowest = max(slowest, time.monotonic() - started)
            assert await asyncio.wait_for(bystander.observe("IrInstructionCount"), DEADLINE) > 0
            assert bystander.state_hash == state and bystander.in_episode
            (pid,) = runtime.worker_pids()
            memory.append((pid, psutil.Process(pid).memory_info().rss))
        await bystander.step("simplifycfg")
    return Tally(outcomes, memory, slowest)


async def _try(env: aiocg.Env, uri: str, content: bytes) -> str:
    """Return what came of a program: "optimised", or the class of the error."""
    try:
        await env.reset(benchmark=aiocg.Benchmark(uri, lambda: content))
        for action in ACTIONS:
            _, _, ended, _, info = await env.step(action)
            if ended:
                return f"{info['error_type']} in a step"
        for name in OBSERVATIONS:
            await env.observe(name)
    except (aiocg.AiocgError, DatasetError) as error:
        return type(error).__name__
    return "optimised"


def _for(seconds: float) -> Callable[[int], bool]:
    """Say that it is enough after some time, which begins with the first program: starting a worker takes a while."""
    started: list[float] = []

    def enough(tried: int) -> bool:
        if not started:
            started.append(time.monotonic())
        return time.monotonic() - started[0] > seconds

    return enough


def fuzz(seconds: float, folder: Path, seed: int | None = None) -> str:
    """Attack a worker for some time and say what came of it; the input of the moment is in a file beside the folder."""
    seed = random.randrange(1 << 32) if seed is None else seed
    folder.mkdir(parents=True, exist_ok=True)
    current = folder / "current"
    tally = asyncio.run(attack(inputs(seed), _for(seconds), current.write_bytes))
    counts = ", ".join(f"{name} {count}" for name, count in tally.outcomes.most_common())
    return (
        f"seed {seed}: {tally.outcomes.total()} programs ({counts}); the slowest took {tally.slowest:.1f} s; no worker "
        f"grew by more than {tally.growth() / (1 << 20):.1f} MiB after its first 20"
    )
