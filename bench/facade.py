"""What the synchronous facade adds to a step: the same steps awaited on an event loop, and called from outside."""

import asyncio
import itertools
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiocg
import aiocg.gym
import aiocg.testing
from bench.measure import MICRO, Budget, Effort, Results, alternate, ratios
from bench.programs import PASSES, USUAL, shuffles

OVERHEAD = Budget(1.25)
SEED = 1


@dataclass(frozen=True, slots=True)
class Subject:
    """What is stepped.

    Attributes:
        make: arguments of `make`.
        actions: what it does, in shuffled order.
        promised: whether the budget is meant for it.
    """

    name: str
    make: Mapping[str, Any]
    actions: Sequence[str]
    promised: bool = True


_LLVM = {"id": "llvm-v0", "benchmark": USUAL, "reward_space": "IrInstructionCountOz"}
SUBJECTS = (
    Subject("scripted-v0", {"id": "scripted-v0"}, ("increment", "double", "square"), promised=False),
    Subject("llvm-v0, nothing to do", _LLVM, ("dce",)),
    Subject("llvm-v0, usual passes, Autophase", {**_LLVM, "observation_space": "Autophase"}, PASSES),
)


async def measure(effort: Effort) -> Results:
    """Step one environment of each kind in both ways, in turn."""
    results = Results()
    steps, rounds = effort.choose(400, 100), effort.choose(15, 3)
    for subject in SUBJECTS:
        awaited, called = await _samples(subject, steps, rounds)
        results.add(f"{subject.name}: awaited", [seconds * MICRO for seconds in awaited], "µs")
        results.add(f"{subject.name}: called", [seconds * MICRO for seconds in called], "µs")
        budget = OVERHEAD if subject.promised else None
        results.add(f"{subject.name}: called / awaited", ratios(called, awaited), "x", budget)
    results.note("One worker each. 'Awaited' is aiocg.Env in a coroutine, 'called' aiocg.gym.CompilerEnv in a thread.")
    results.note("scripted-v0 has no compiler, so that its ratio is that of the ways of calling alone.")
    return results


async def _samples(subject: Subject, steps: int, rounds: int) -> list[list[float]]:
    async with aiocg.Runtime(workers=1) as runtime:
        with aiocg.gym.SyncRuntime(workers=1) as blocking:
            env = await runtime.make(**subject.make)
            facade = blocking.make(**subject.make)
            mine, its = shuffles(subject.actions, SEED), shuffles(subject.actions, SEED)

            async def awaited() -> float:
                await env.reset()
                started = time.perf_counter()
                for action in itertools.islice(mine, steps):
                    await env.step(action)
                return (time.perf_counter() - started) / steps

            def called() -> float:
                facade.reset()
                started = time.perf_counter()
                for action in itertools.islice(its, steps):
                    facade.step(action)
                return (time.perf_counter() - started) / steps

            # In a thread without an event loop, as scripts have none; there the caller runs the facade's.
            return await alternate([awaited, lambda: asyncio.to_thread(called)], rounds)
