"""CompilerGym's environment `mlir-v0`, which aiocg does not have."""

from typing import Any

from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.compiler_gym.errors import EnvironmentNotSupported

__all__ = ["MlirEnv"]


class MlirEnv(CompilerEnv):
    """The environment of MLIR, which aiocg does not have: making one raises EnvironmentNotSupported."""

    def __new__(cls, *args: Any, **kwargs: Any) -> "MlirEnv":
        """Refuse."""
        raise EnvironmentNotSupported("mlir-v0 is not available: aiocg has no workers for MLIR")
