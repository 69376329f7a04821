"""What a step costs, split into the compiler's own time, which the workers count, and everything else.

One worker, so that no compiler time hides behind another's. Still the client works while the worker does; so where the
compiler takes next to nothing, the cost beyond it is given twice: as time that passes, and as processor time of both
processes, where nothing hides.
"""

import asyncio
import itertools
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiocg
import aiocg.testing
from bench.counters import counters
from bench.measure import MICRO, Budget, Effort, Results
from bench.processes import CollectorClock, processor_seconds
from bench.programs import PASSES, USUAL, shuffles

ENVS = 1000
SINGLE = Budget(150.0)
MANY = Budget(15.0)
SEED = 1

Plans = Sequence[Iterator[str]]  # for each environment, what it will do
Drive = Callable[[Sequence[aiocg.Env], Plans, int], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Subject:
    """What is stepped.

    Attributes:
        make: arguments of `Runtime.make`.
        options: for the workers.
        actions: what each environment does, in shuffled order.
        alike: all environments do the same.
    """

    name: str
    make: Mapping[str, Any]
    options: Mapping[str, Any]
    actions: Sequence[str]
    alike: bool = False


NAPPING = Subject("scripted-v0 napping", {"id": "scripted-v0"}, {}, ("nap",))
SCRIPTED = Subject("scripted-v0", {"id": "scripted-v0"}, {}, ("increment", "double", "square"))
_LLVM = {"id": "llvm-v0", "benchmark": USUAL, "observation_space": "Autophase", "reward_space": "IrInstructionCountOz"}
REMEMBERING = Subject("llvm-v0", _LLVM, {}, PASSES, alike=True)
FORGETTING = Subject("llvm-v0, no memo", _LLVM, {"transition_cache_bytes": 0}, PASSES)


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds per step, and how many of the steps ran a pass."""

    wall: float
    compiler: float
    client: float  # processor time
    worker: float  # processor time
    collector: float  # of the client's processor time
    ran: float

    @property
    def beyond(self) -> float:
        """What passes beyond the compiler's time."""
        return self.wall - self.compiler

    @property
    def work(self) -> float:
        """Processor time beyond the compiler's."""
        return self.client + self.worker - self.compiler


async def measure(effort: Effort) -> Results:
    """Measure one environment and a thousand, with a trivial compiler and with LLVM."""
    results = Results()
    rounds = effort.choose(9, 3)
    singles = ((SCRIPTED, effort.choose(2000, 300)), (NAPPING, 20), (REMEMBERING, 20), (FORGETTING, 20))
    for subject, steps in singles:
        costs = await _costs(subject, 1, _in_tasks, rounds=rounds, steps=steps)
        _report(results, f"{subject.name}, 1 env", costs, SINGLE if subject is not NAPPING else None)
    for subject, drive, way, steps in (
        (SCRIPTED, _in_tasks, "in 1,000 tasks", effort.choose(20, 5)),
        (SCRIPTED, _in_turns, "in 1 task", effort.choose(20, 5)),
        (REMEMBERING, _in_tasks, "alike in 1,000 tasks", effort.choose(10, 2)),
        (FORGETTING, _in_tasks, "in 1,000 tasks", effort.choose(2, 1)),
    ):
        count = rounds if subject is not FORGETTING else effort.choose(3, 1)
        costs = await _costs(subject, ENVS, drive, rounds=count, steps=steps)
        _report(results, f"{subject.name}, {ENVS:,} envs {way}", costs, MANY)
    results.note("llvm-v0 runs shuffles of 20 usual passes on qsort, observes Autophase, rewards IrInstructionCountOz.")
    results.note(
        "A worker remembers where a pass leads from a state; 'no memo' switches that off (transition_cache_bytes=0), "
        "so that each step is the compiler's real work. 'Alike': all environments do the same, which is remembered."
    )
    results.note("Napping for 10 ms in place of compiling shows what waking up costs this machine by itself.")
    results.note("'compiler' is what the worker counts around actions and observations, its Python included.")
    return results


def _report(results: Results, name: str, costs: Sequence[Cost], budget: Budget | None) -> None:
    results.add(f"{name}: whole step", [cost.wall * MICRO for cost in costs], "µs")
    results.add(f"{name}: compiler", [cost.compiler * MICRO for cost in costs], "µs")
    results.add(f"{name}: beyond it", [cost.beyond * MICRO for cost in costs], "µs", budget)
    if name.startswith(f"{SCRIPTED.name},"):
        results.add(f"{name}: beyond it, processor time", [cost.work * MICRO for cost in costs], "µs", budget)
    results.add(f"{name}: client's processor time", [cost.client * MICRO for cost in costs], "µs")
    if budget is MANY:
        results.add(f"{name}: of that, garbage collection", [cost.collector * MICRO for cost in costs], "µs")
    if any(cost.ran for cost in costs):
        results.add(f"{name}: steps that ran a pass", [cost.ran * 100 for cost in costs], "%")


async def _costs(subject: Subject, count: int, drive: Drive, *, rounds: int, steps: int) -> list[Cost]:
    """Reset all environments, then time so many steps of each; again and again, each time with other actions."""
    plans: list[Iterator[str]] = [
        shuffles(subject.actions, SEED if subject.alike else SEED + index) for index in range(count)
    ]
    async with aiocg.Runtime(workers=1, options=subject.options) as runtime:
        envs = [await runtime.make(**subject.make) for _ in range(count)]
        costs = []
        for warm in itertools.chain([True], itertools.repeat(False, rounds)):
            await asyncio.gather(*(env.reset() for env in envs))
            cost = await _cost(runtime, envs, plans, drive, 1 if warm else steps)
            if not warm:
                costs.append(cost)
    return costs


async def _cost(runtime: aiocg.Runtime, envs: Sequence[aiocg.Env], plans: Plans, drive: Drive, steps: int) -> Cost:
    before = await counters(runtime)
    collector = CollectorClock()
    client, worker, started = _clocks(runtime)
    await drive(envs, plans, steps)
    client_after, worker_after, ended = _clocks(runtime)
    after = await counters(runtime)
    collector.close()
    total = len(envs) * steps
    return Cost(
        (ended - started) / total,
        (after.compiler_time - before.compiler_time) / total,
        (client_after - client) / total,
        (worker_after - worker) / total,
        collector.seconds / total,
        (after.passes - before.passes) / total,
    )


def _clocks(runtime: aiocg.Runtime) -> tuple[float, float, float]:
    return processor_seconds([os.getpid()]), processor_seconds(runtime.worker_pids()), time.perf_counter()


async def _in_tasks(envs: Sequence[aiocg.Env], plans: Plans, steps: int) -> None:
    """Step each environment in a task of its own, which knows nothing of the others."""

    async def walk(env: aiocg.Env, plan: Iterator[str]) -> None:
        for action in itertools.islice(plan, steps):
            await env.step(action)

    if len(envs) == 1:
        await walk(envs[0], plans[0])
    else:
        await asyncio.gather(*(walk(env, plan) for env, plan in zip(envs, plans, strict=True)))


async def _in_turns(envs: Sequence[aiocg.Env], plans: Plans, steps: int) -> None:
    """Submit a step of every environment, wait for all, and again."""
    for _ in range(steps):
        await asyncio.gather(*[env.submit(next(plan)) for env, plan in zip(envs, plans, strict=True)])
