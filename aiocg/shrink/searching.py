"""Searching for the actions that make a module smallest."""

import contextlib

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import ActionFailed
from aiocg.runtime import Runtime
from aiocg.search import Budget, functionwise

TRIES = 2  # searches that may end with a pass that is not deterministic, before that of one more is an error
REWARD = "ObjectTextSizeOzMinsize"
CORE = Budget(seconds=1.0, evaluations=60)
"""For an image whose entry in the lock file is stale: what comes first in a search, the core set."""


async def search(runtime: Runtime, module: bytes, budget: Budget, reward: str = REWARD) -> tuple[str, ...]:
    """Return the best actions for a module that are found within a budget.

    Raises:
        ServiceError: when the workers fail, or the passes of several searches are not deterministic.
    """
    benchmark = Benchmark.from_file_contents("benchmark://user-v0/shrink", module)
    env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space=reward)
    try:
        for seed in range(TRIES):
            with contextlib.suppress(ActionFailed):  # what was found cannot be made again: a pass is not deterministic
                return tuple((await functionwise(env, budget=budget, seed=seed)).actions)
        return tuple((await functionwise(env, budget=budget, seed=TRIES)).actions)
    finally:
        await env.close()
