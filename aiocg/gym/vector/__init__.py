"""Vector environments: Gymnasium's, and the asynchronous one behind it."""

import aiocg.gym.vector.batch  # noqa: F401  # before any space is batched
from aiocg.gym.vector.arguments import EnvsBusy, NothingPending
from aiocg.gym.vector.asynchronous import AsyncVector
from aiocg.gym.vector.env import CompilerVectorEnv

__all__ = ["AsyncVector", "CompilerVectorEnv", "EnvsBusy", "NothingPending"]
