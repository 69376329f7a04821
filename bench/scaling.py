"""Steps per second of 1, 10, 100 and 1,000 environments: random actions, several programs, two workers.

Each environment is a task of its own, which plays episodes of 20 steps with actions from its own seed until time is up.
"""

import asyncio
import os
import random
import time

import aiocg
from bench.counters import counters
from bench.measure import Effort, Results
from bench.processes import processor_seconds
from bench.programs import SEVERAL

COUNTS = (1, 10, 100, 1000)
WORKERS = 2
EPISODE = 20  # steps


async def measure(effort: Effort) -> Results:
    """Play with each number of environments, with and without the workers' memory of transitions."""
    results = Results()
    kinds: list[tuple[str, dict[str, int]]] = [("", {}), (", no memo", {"transition_cache_bytes": 0})]
    for memo, options in effort.choose(kinds, kinds[:1]):
        for count in COUNTS:
            name = f"{count:,} env{'s' if count > 1 else ''}{memo}"
            await _play(results, name, count, effort.choose(8.0, 0.5), options)
    results.note(
        f"{WORKERS} workers, {len(SEVERAL)} programs, Autophase observed, all actions equally likely. 'No memo': "
        "workers do not remember where a pass leads from a state (transition_cache_bytes=0)."
    )
    return results


async def _play(results: Results, name: str, count: int, seconds: float, options: dict[str, int]) -> None:
    async with aiocg.Runtime(workers=WORKERS, options=options) as runtime:
        envs = [await _ready(runtime, SEVERAL[index % len(SEVERAL)]) for index in range(count)]
        before, client = await counters(runtime), processor_seconds([os.getpid()])
        started = time.perf_counter()
        end = started + seconds
        steps = sum(await asyncio.gather(*(_episodes(env, seed, end) for seed, env in enumerate(envs))))
        elapsed = time.perf_counter() - started
        after, client_after = await counters(runtime), processor_seconds([os.getpid()])
    results.add(f"{name}: steps", [steps / elapsed], "steps/s")
    busy = (after.compiler_time - before.compiler_time) / elapsed / WORKERS
    results.add(f"{name}: workers' time in the compiler", [100 * busy], "%")
    results.add(f"{name}: steps that ran a pass", [100 * (after.passes - before.passes) / steps], "%")
    results.add(f"{name}: client's processor time per step", [1e6 * (client_after - client) / steps], "µs")


async def _ready(runtime: aiocg.Runtime, program: str) -> aiocg.Env:
    env = await runtime.make(
        "llvm-v0", benchmark=program, observation_space="Autophase", reward_space="IrInstructionCountOz"
    )
    await env.reset()
    return env


async def _episodes(env: aiocg.Env, seed: int, end: float) -> int:
    """Play until the time is up and return the number of steps."""
    choose = random.Random(seed).randrange
    actions = len(env.action_space.names)
    steps = 0
    while time.perf_counter() < end:
        if steps:
            await env.reset()
        for _ in range(EPISODE):
            _, _, terminated, _, _ = await env.step(choose(actions))
            steps += 1
            if terminated or time.perf_counter() >= end:
                break
    return steps
