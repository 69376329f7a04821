"""Searching for the actions that make a module smallest."""

from aiocg.datasets.benchmark import Benchmark
from aiocg.runtime import Runtime
from aiocg.search import Budget, functionwise

REWARD = "ObjectTextSizeOzMinsize"
CORE = Budget(seconds=1.0, evaluations=60)
"""For an image whose entry in the lock file is stale: what comes first in a search, the core set."""


async def search(runtime: Runtime, module: bytes, budget: Budget, reward: str = REWARD) -> tuple[str, ...]:
    """Return the best actions for a module that are found within a budget.

    Raises:
        ServiceError: when the workers fail.
    """
    benchmark = Benchmark.from_file_contents("benchmark://user-v0/shrink", module)
    env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=reward)
    try:
        result = await functionwise(env, budget=budget)
        return tuple(result.actions)
    finally:
        await env.close()
