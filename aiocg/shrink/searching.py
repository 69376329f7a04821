"""Searching for the actions that make a module smallest."""

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import ActionFailed, SessionLost
from aiocg.runtime import Runtime
from aiocg.search import Budget, functionwise

TRIES = 3  # searches of a module; one ends early when a pass is not deterministic and its result is needed again
REWARD = "ObjectImageSizeOzMinsize"
CORE = Budget(seconds=1.0, evaluations=60)
"""For an image whose entry in the lock file is stale: what comes first in a search, the core set."""


async def search(runtime: Runtime, module: bytes, budget: Budget, reward: str = REWARD) -> tuple[str, ...]:
    """Return the best actions for a module that are found within a budget.

    Raises:
        ServiceError: when the workers fail.
    """
    benchmark = Benchmark.from_file_contents("benchmark://user-v0/shrink", module)
    seed = 0
    while True:
        env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=reward)
        try:
            return tuple((await functionwise(env, budget=budget, seed=seed, run=False)).actions)
        except (ActionFailed, SessionLost):
            seed += 1
            if seed == TRIES:
                raise
        finally:
            await env.close()
