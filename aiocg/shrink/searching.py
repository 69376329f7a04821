"""Searching for the actions that make a module smallest."""

from aiocg.datasets.benchmark import Benchmark
from aiocg.runtime import Runtime
from aiocg.search import Budget, functionwise

REWARD = "ObjectTextSizeOzMinsize"

QUICK = ("mark<minsize>", "default<Oz>")
"""Actions that take no search."""


async def search(runtime: Runtime, module: bytes, budget: Budget) -> tuple[str, ...]:
    """Return the best actions for a module that are found within a budget.

    Raises:
        ServiceError: when the workers fail.
    """
    benchmark = Benchmark.from_file_contents("benchmark://user-v0/shrink", module)
    env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=REWARD)
    try:
        result = await functionwise(env, budget=budget)
        return tuple(result.actions)
    finally:
        await env.close()
