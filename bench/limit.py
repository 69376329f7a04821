"""What a step costs beside LLVM alone: the same random trajectories in a bare loop over libLLVM in one process.

The loop is there twice (`scripts/drive_bare.py`). In place, a pass changes a module that stays in memory: nothing that
uses this LLVM can be faster. As values, a pass starts from bitcode and ends as bitcode, without sessions, messages,
processes and checks. Our step is split into what the worker counts as the compiler's (`compiler`), the processor time
of the worker's and the client's main threads beyond that (`worker`, `client`), that of all their other threads
(`threads`), and what remains of the time that passes (`waiting`): for being woken, less what overlaps.
"""

import asyncio
import functools
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiocg
from bench.counters import counters
from bench.measure import MICRO, Budget, Effort, Results, alternate, ratios
from bench.processes import main_thread_seconds, processor_seconds
from bench.programs import LARGEST, PASSES, SEVERAL, SMALLEST, USUAL
from bench.versus.comparison import percentile
from bench.versus.driver import Driver

PROGRAMS = (SMALLEST, *SEVERAL, LARGEST)
# In place, instcombine may need another round, and where it checks itself that ends the process.
ACTIONS = tuple({"instcombine": "instcombine<no-verify-fixpoint>"}.get(name, name) for name in PASSES)
WAYS = ("in place", "as values")
OBSERVATION, REWARD = "Autophase", "IrInstructionCountOz"
FORGETFUL = {"transition_cache_bytes": 0}
OF_VALUES = Budget(1.0, at_least=True)  # of the loop whose states can be kept, too
MANY_OF_VALUES = Budget(1.3, at_least=True)
OF_FEW = Budget(0.85, at_least=True)  # of the rate of 64 environments; cold caches take a quarter of a bare loop's
COUNTS = (1, 8, 64, 1000)
STEPS = 640  # of all environments in a round, at least; few environments start over and over


@dataclass(frozen=True, slots=True)
class Walk:
    """One trajectory.

    Attributes:
        seconds: of each step.
        processor: time of all processes for a step, on average, in seconds.
        parts: what a step consists of, on average, in seconds.
    """

    seconds: Sequence[float]
    processor: float
    parts: Mapping[str, float]


async def measure(effort: Effort) -> Results:
    """Walk one environment on programs of several sizes, then step many at once."""
    results = Results()
    for program in effort.choose(PROGRAMS, (SMALLEST, USUAL)):
        rounds, length = effort.choose((5, 20) if program == LARGEST else (15, 40), (3, 20))
        await _one(results, program, rounds=rounds, length=length)
    rates = [
        await _many(results, count, rounds=effort.choose(5, 2), steps=effort.choose(8, 2))
        for count in effort.choose(COUNTS, COUNTS[-2:])
    ]
    results.add(f"{COUNTS[-1]:,} envs: aiocg of {COUNTS[-2]} envs", ratios(rates[-1], rates[-2]), "x", OF_FEW)
    results.note(
        f"Random passes out of {len(ACTIONS)} usual ones, new ones in each round, the same for all; after each "
        f"{OBSERVATION} is observed, and ours rewards {REWARD}. One worker, which remembers no transitions."
    )
    results.note("Where others use the machine, time that passes tells little; processor time is of all processes.")
    results.note("LLVM in place does not verify, compare or keep states: no fork, no replay, no way back.")
    return results


def plans(seed: str, count: int, length: int) -> Iterator[list[list[str]]]:
    """Give for each round what each of so many environments does; the same for the same seed."""
    choices = random.Random(seed).choices
    while True:
        yield [choices(ACTIONS, k=length) for _ in range(count)]


async def _one(results: Results, program: str, *, rounds: int, length: int) -> None:
    async with aiocg.Runtime(workers=1, options=FORGETFUL) as runtime, _bare(runtime, program) as (bare, size):
        env = await runtime.make("llvm-v0", benchmark=program, observation_space=OBSERVATION, reward_space=REWARD)
        given = [plans(program, 1, length) for _ in range(3)]

        async def by_llvm(way: str, plan: Iterator[list[list[str]]]) -> Walk:
            reply = await bare.ask("walk", pipelines=next(plan)[0], observation=OBSERVATION, way=way)
            return Walk(reply["seconds"], reply["processor"], reply["parts"])

        async def by_us() -> Walk:
            return await _walk(runtime, env, next(given[2])[0])

        sides = [functools.partial(by_llvm, way, plan) for way, plan in zip(WAYS, given, strict=False)]
        for side in (*sides, by_us):
            await side()  # so that everything is loaded
        found = await alternate([*sides, by_us], rounds)
    _report(results, f"{program.partition('/')[2]}, {size:,} instructions", found)


def _report(results: Results, name: str, found: Sequence[Sequence[Walk]]) -> None:
    for what, walks in zip((*WAYS, "aiocg"), found, strict=True):
        results.add(f"{name}: {what}", [MICRO * statistics.median(walk.seconds) for walk in walks], "µs")
        results.add(f"{name}: {what}, p99", [MICRO * _p99(walks)], "µs")
        results.add(f"{name}: {what}, mean", [MICRO * statistics.mean(walk.seconds) for walk in walks], "µs")
        results.add(f"{name}: {what}, processor time", [MICRO * walk.processor for walk in walks], "µs")
    limit, values, ours = ([MICRO * statistics.mean(walk.seconds) for walk in walks] for walks in found)
    beyond = [step - alone for step, alone in zip(ours, limit, strict=True)]
    results.add(f"{name}: aiocg beyond in place, mean", beyond, "µs")
    results.add(f"{name}: aiocg over in place, mean", ratios(ours, limit), "x")
    results.add(f"{name}: as values over aiocg, mean", ratios(values, ours), "x", OF_VALUES)
    work = [MICRO * (step.processor - alone.processor) for step, alone in zip(found[2], found[0], strict=True)]
    results.add(f"{name}: aiocg beyond in place, processor time", work, "µs")
    for what, walks in zip((*WAYS, "aiocg"), found, strict=True):
        for part in walks[0].parts:
            if any(walk.parts[part] for walk in walks):
                results.add(f"{name}: {what}, part {part}", [MICRO * walk.parts[part] for walk in walks], "µs")


def _p99(walks: Sequence[Walk]) -> float:
    return percentile([seconds for walk in walks for seconds in walk.seconds], 0.99)


async def _walk(runtime: aiocg.Runtime, env: aiocg.Env, plan: Sequence[str]) -> Walk:
    await env.reset()
    (worker,) = runtime.worker_pids()
    pids, seconds = [os.getpid(), worker], []
    compiler = (await counters(runtime)).compiler_time
    before = (processor_seconds(pids), time.thread_time(), main_thread_seconds(worker))
    for action in plan:
        began = time.perf_counter()
        await env.step(action)
        seconds.append(time.perf_counter() - began)
    after = (processor_seconds(pids), time.thread_time(), main_thread_seconds(worker))
    compiler = (await counters(runtime)).compiler_time - compiler
    everybody, client, working = (late - early for early, late in zip(before, after, strict=True))
    parts = {
        "compiler": compiler,
        "worker": max(0.0, working - compiler),  # the compiler's is time that passes, also while others run
        "client": client,
        "threads": max(0.0, everybody - client - working),
    }
    parts["waiting"] = sum(seconds) - sum(parts.values())
    return Walk(seconds, everybody / len(plan), {part: spent / len(plan) for part, spent in parts.items()})


async def _many(results: Results, count: int, *, rounds: int, steps: int) -> list[float]:
    """Step so many environments so often from the start, and start over where that is little; return our rates."""
    episodes = max(1, STEPS // (count * steps))
    total = episodes * count * steps
    async with aiocg.Runtime(workers=1, options=FORGETFUL) as runtime, _bare(runtime, USUAL) as (bare, _):
        settings: dict[str, Any] = {"observation_space": OBSERVATION, "reward_space": REWARD}
        envs = [await runtime.make("llvm-v0", benchmark=USUAL, **settings) for _ in range(count)]
        given = [plans(USUAL, count, steps) for _ in range(3)]
        ran: list[float] = []

        async def by_llvm(way: str, plan: Iterator[list[list[str]]]) -> float:
            seconds = 0.0
            for _ in range(episodes):
                reply = await bare.ask("play", plans=next(plan), observation=OBSERVATION, way=way)
                seconds += reply["seconds"]
            return total / seconds

        async def by_us() -> float:
            before, seconds = await counters(runtime), 0.0
            for _ in range(episodes):
                await asyncio.gather(*(env.reset() for env in envs))
                began = time.perf_counter()
                await asyncio.gather(*(_steps(env, plan) for env, plan in zip(envs, next(given[2]), strict=True)))
                seconds += time.perf_counter() - began
            ran.append(((await counters(runtime)).passes - before.passes) / total)
            return total / seconds

        sides = [functools.partial(by_llvm, way, plan) for way, plan in zip(WAYS, given, strict=False)]
        found = await alternate([*sides, by_us], rounds)
    name = f"{count:,} env{'s' if count > 1 else ''}"
    for what, rates in zip((*WAYS, "aiocg"), found, strict=True):
        results.add(f"{name}: {what}", rates, "steps/s")
    results.add(f"{name}: aiocg of in place", ratios(found[2], found[0]), "x")
    results.add(f"{name}: aiocg of as values", ratios(found[2], found[1]), "x", MANY_OF_VALUES)
    results.add(f"{name}: steps of aiocg that ran a pass", [100 * share for share in ran], "%")
    return found[2]


async def _steps(env: aiocg.Env, plan: Sequence[str]) -> None:
    for action in plan:
        await env.step(action)


@asynccontextmanager
async def _bare(runtime: aiocg.Runtime, program: str) -> AsyncIterator[tuple[Driver, int]]:
    """Start LLVM alone with a program; yield its driver and how many instructions there are."""
    async with Driver(sys.executable, "drive_bare.py") as driver:
        with tempfile.NamedTemporaryFile() as file:
            Path(file.name).write_bytes(runtime.benchmark(program).content)
            said = await driver.ask("start", program=file.name)
        yield driver, said["instructions"]
