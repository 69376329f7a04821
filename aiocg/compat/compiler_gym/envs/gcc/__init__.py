"""CompilerGym's environment `gcc-v0`, which aiocg does not have."""

from typing import Any

from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.compiler_gym.errors import EnvironmentNotSupported

__all__ = ["GccEnv"]


class GccEnv(CompilerEnv):
    """The environment of GCC, which aiocg does not have: making one raises EnvironmentNotSupported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "GccEnv":
        """Refuse."""
        raise EnvironmentNotSupported("gcc-v0 is not available: aiocg has no workers for GCC")
