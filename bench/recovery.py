"""How long many environments take to be back when a worker dies with the modules of all of them."""

import asyncio
import os
import random
import signal
import time

import aiocg
from bench.limit import ACTIONS, FORGETFUL
from bench.measure import MILLI, Effort, Results
from bench.programs import SEVERAL

ENVIRONMENTS, STEPS = 200, 10


async def measure(effort: Effort) -> Results:
    """Bring environments to states of their own, kill a worker, and ask each environment for an observation."""
    results = Results()
    count, rounds = effort.choose((ENVIRONMENTS, 5), (20, 2))
    for workers in (1, 2):
        undisturbed, disturbed = [], []
        async with aiocg.Runtime(workers=workers, options=FORGETFUL) as runtime:
            envs = [await runtime.make("llvm-v0", benchmark=SEVERAL[i % len(SEVERAL)]) for i in range(count)]
            for seed in range(rounds):
                choose = random.Random(seed).choices
                await asyncio.gather(*(env.reset() for env in envs))
                await asyncio.gather(*(env.step(choose(ACTIONS, k=STEPS)) for env in envs))
                undisturbed.append(MILLI * await _observe(envs))
                os.kill(runtime.worker_pids()[0], signal.SIGKILL)
                disturbed.append(MILLI * await _observe(envs))
        name = f"{count} environments after {STEPS} actions, {workers} worker{'s' if workers > 1 else ''}"
        results.add(f"{name}: all answer", undisturbed, "ms")
        results.add(f"{name}: all answer, one worker just killed", disturbed, "ms")
    results.note("Environments come back by running their actions again, or from bitcode where there is any.")
    return results


async def _observe(envs: list[aiocg.Env]) -> float:
    """Return the seconds until each environment has observed its program anew."""
    began = time.perf_counter()
    await asyncio.gather(*(env.step([], observation_spaces=["IrSha1"]) for env in envs))
    return time.perf_counter() - began
