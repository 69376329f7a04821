"""Many environments as one: a Gymnasium vector environment, and what is behind it for code that uses asyncio."""

import aiocg.gym.vector.scalars  # noqa: F401  # before any space is batched
from aiocg.gym.vector.asynchronous import AsyncVector
from aiocg.gym.vector.env import CompilerVectorEnv
from aiocg.gym.vector.errors import EnvsBusy, NothingPending

__all__ = ["AsyncVector", "CompilerVectorEnv", "EnvsBusy", "NothingPending"]
