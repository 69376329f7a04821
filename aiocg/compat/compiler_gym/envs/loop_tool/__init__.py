"""CompilerGym's environment `loop_tool-v0`, which aiocg does not have."""

from typing import Any

from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.compiler_gym.errors import EnvironmentNotSupported

__all__ = ["LoopToolEnv"]


class LoopToolEnv(CompilerEnv):
    """The environment of loop_tool, which aiocg does not have: making one raises EnvironmentNotSupported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "LoopToolEnv":
        """Refuse."""
        raise EnvironmentNotSupported("loop_tool-v0 is not available: aiocg has no workers for loop_tool")
