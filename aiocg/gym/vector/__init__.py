"""Vector environments: Gymnasium's, and the asynchronous one behind it."""

import aiocg.gym.vector._batch  # noqa: F401  # before any space is batched
from aiocg.gym.vector._arguments import EnvsBusy, NothingPending
from aiocg.gym.vector._asynchronous import AsyncVector
from aiocg.gym.vector._env import CompilerVectorEnv
from aiocg.gym.vector._programs import ProgramSource

__all__ = ["AsyncVector", "CompilerVectorEnv", "EnvsBusy", "NothingPending", "ProgramSource"]
