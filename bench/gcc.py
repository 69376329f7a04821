"""What GCC's environments add to GCC: a compile beside that of the bare command, what is remembered, and two workers.

Each compile is of a program and options that were not compiled before, and the bare command compiles the same. Beside
two workers stand two threads that do nothing but run the bare command: that is what one worker with a pool of threads
could not be faster than.
"""

import asyncio
import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import aiocg
from aiocg.datasets import default_datasets, resolve
from aiocg.datasets.source_tree import SourceTree
from bench.measure import MILLI, Budget, Effort, Results

PROGRAM = "benchmark://programs-v0/qsort"
SMALL = Budget(1.25)  # beside the bare command
PARALLEL = Budget(1.10)  # beside threads

_numbers = itertools.count(1000)


def fresh(count: int) -> list[str]:
    """Return command lines that were not used before, all of about the same work."""
    return [f"gcc -O2 --param=max-inline-insns-auto={next(_numbers)}" for _ in range(count)]


class Bare:
    """The bare command in a folder with a program's sources."""

    def __init__(self, tree: SourceTree, folder: Path) -> None:
        self._folder = folder
        for name, content in tree.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        found = subprocess.run(["gcc", "-print-file-name=include"], check=True, capture_output=True, text=True)
        headers = ["-nostdinc", "-isystem", found.stdout.strip()] if tree.freestanding else []
        self._flags = [*tree.flags, *(f"-I{path}" for path in tree.include), *headers, "-w"]
        (self._unit,) = tree.units

    def compile(self, line: str, kind: str = "-c") -> float:
        """Compile with some options and return the seconds that this took."""
        output = f"{next(_numbers)}.out"
        command = [*line.split(), *self._flags, kind, self._unit, "-o", output]
        started = time.perf_counter()
        subprocess.run(command, cwd=self._folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)
        elapsed = time.perf_counter() - started
        os.unlink(self._folder / output)
        return elapsed


async def measure(effort: Effort) -> Results:
    """Measure all, with a cache of our own."""
    results = Results()
    if shutil.which("gcc") is None:
        results.note("Not measured: there is no gcc on this machine.")
        return results
    with tempfile.TemporaryDirectory() as folder:
        bare = Bare(resolve(PROGRAM, default_datasets()).source_tree, Path(folder, "bare"))
        options = {"cache_dir": str(Path(folder, "cache"))}
        async with aiocg.Runtime(workers=1, options=options) as runtime:
            lines = await _compiles(results, runtime, bare, effort.choose(60, 8))
            await _remembered(results, runtime, lines, "in memory")
            one = await _expansions(runtime, 1, effort)
        async with aiocg.Runtime(workers=1, options=options) as runtime:
            await _remembered(results, runtime, lines, "on disk")
        async with aiocg.Runtime(workers=2, options=options) as runtime:
            two = await _expansions(runtime, 2, effort)
        threads = [_threads(bare, _candidates(effort)) for _ in range(_rounds(effort))]
    count = _candidates(effort)
    results.add(f"{count} candidates, one worker", [time * MILLI for time in one], "ms")
    results.add(f"{count} candidates, two workers", [time * MILLI for time in two], "ms")
    results.add(f"{count} bare commands, two threads", [time * MILLI for time in threads], "ms")
    beside = [ours / theirs for ours, theirs in zip(sorted(two), sorted(threads), strict=True)]
    results.add("two workers beside two threads", beside, "x", PARALLEL)
    return results


def _candidates(effort: Effort) -> int:
    return effort.choose(64, 12)


def _rounds(effort: Effort) -> int:
    return effort.choose(5, 1)


async def _env(runtime: aiocg.Runtime) -> aiocg.Env:
    env = await runtime.make("gcc-v0", benchmark=PROGRAM, action_space="command_line")
    await env.reset()
    return env


async def _compiles(results: Results, runtime: aiocg.Runtime, bare: Bare, count: int) -> list[str]:
    """Measure single compiles in turn with the bare command, and return what was compiled."""
    env = await _env(runtime)
    done = []
    for observation, kind in (("obj_text_size", "-c"), ("asm_size", "-S")):
        await env.step("gcc -O2", observation_spaces=[observation])  # the sources are written
        lines = fresh(count)
        ours, theirs = [], []
        for line in lines:
            theirs.append(bare.compile(line, kind))
            started = time.perf_counter()
            await env.step(line, observation_spaces=[observation])
            ours.append(time.perf_counter() - started)
        done += lines
        results.add(f"gcc {kind}", [time * MILLI for time in theirs], "ms")
        results.add(f"a step with {observation}", [time * MILLI for time in ours], "ms")
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        results.add(f"{observation} beside gcc {kind}", ratios, "x", SMALL)
    return done[:count]


async def _remembered(results: Results, runtime: aiocg.Runtime, lines: Sequence[str], where: str) -> None:
    env = await _env(runtime)
    await env.observe("obj_text_size")
    times = []
    for line in lines:
        started = time.perf_counter()
        await env.step(line, observation_spaces=["obj_text_size"])
        times.append((time.perf_counter() - started) * MILLI)
    results.add(f"a step with obj_text_size, remembered {where}", times, "ms")


async def _expansions(runtime: aiocg.Runtime, environments: int, effort: Effort) -> list[float]:
    """Return the seconds that a number of candidates take, divided among environments."""
    envs = [await _env(runtime) for _ in range(environments)]
    for env in envs:
        await env.observe("obj_text_size")
    times = []
    for _ in range(_rounds(effort)):
        lines = fresh(_candidates(effort))
        started = time.perf_counter()
        await asyncio.gather(
            *(
                env.expand(lines[index::environments], observation_spaces=["obj_text_size"])
                for index, env in enumerate(envs)
            )
        )
        times.append(time.perf_counter() - started)
    return times


def _threads(bare: Bare, count: int) -> float:
    lines = fresh(count)
    started = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(bare.compile, lines))
    return time.perf_counter() - started
