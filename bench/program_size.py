"""Fork, snapshot and warm reset on a small, a large, and a very large program.

A state is shared, not copied, so the times should be the same whatever the size: those of a round trip for a reset, and
of a message that nobody waits for, the worker's part included, for forks and snapshots. The programs take turns.
"""

import functools
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import aiocg
from bench.measure import MICRO, Budget, Effort, Results, alternate, ratios
from bench.programs import LARGEST, SMALLEST, generated_source

INDEPENDENT = Budget(1.25)  # a copy of the largest would cost hundreds of times one of the smallest

Operation = Callable[[aiocg.Env], Awaitable[None]]


async def fork(env: aiocg.Env) -> None:
    """Fork and forget."""
    await (await env.fork()).close()


async def snapshot(env: aiocg.Env) -> None:
    """Snapshot and forget."""
    (await env.snapshot()).close()


async def reset(env: aiocg.Env) -> None:
    """Start over."""
    await env.reset()


async def measure(effort: Effort) -> Results:
    """Time each operation on each program in turn."""
    results = Results()
    count, rounds = effort.choose(200, 40), effort.choose(25, 7)
    with tempfile.TemporaryDirectory() as folder:
        generated = Path(folder) / "generated.c"
        generated.write_text(generated_source())
        async with aiocg.Runtime(workers=1) as runtime:
            envs = [await _ready(runtime, program) for program in (SMALLEST, LARGEST, generated)]
            sizes = [await env.observe("IrInstructionCountO0") for env in envs]
            for operation in (fork, snapshot, reset):
                sides = [functools.partial(_time, operation, env, count) for env in envs]
                samples = await alternate(sides, rounds)
                for size, times in zip(sizes, samples, strict=True):
                    results.add(f"{operation.__name__}, {size:,} instructions", times, "µs")
                ratio = ratios(samples[-1], samples[0])
                results.add(f"{operation.__name__}, largest to smallest", ratio, "x", INDEPENDENT)
    results.note(f"{sizes[-1] / sizes[0]:.0f} times the instructions; only the reset waits for a reply.")
    return results


async def _ready(runtime: aiocg.Runtime, program: str | Path) -> aiocg.Env:
    """Make an environment that stands a step away from the start, so that forks share a state of their own."""
    env = await runtime.make(
        "llvm-v0", benchmark=program, observation_space="Autophase", reward_space="IrInstructionCount"
    )
    await env.reset()
    await env.step("mem2reg")
    return env


async def _time(operation: Operation, env: aiocg.Env, count: int) -> float:
    started = time.perf_counter()
    for _ in range(count):
        await operation(env)
    await env.observe("IrInstructionCount")  # the worker is done with all of them
    return (time.perf_counter() - started) / count * MICRO
