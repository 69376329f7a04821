"""The environment of loop_tool."""

from typing import Any

from aiocg.compat.compiler_gym.envs.loop_tool.datasets import LoopToolCPUDataset, LoopToolCUDADataset
from aiocg.compat.compiler_gym.envs.loop_tool.flops_reward import FLOPSReward
from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from aiocg.compat.compiler_gym.service.endpoints import LOOP_TOOL_SERVICE_BINARY

__all__ = ["LoopToolEnv"]


class LoopToolEnv(ClientServiceCompilerEnv):
    """The environment of loop_tool: actions change the sizes of loops, and which of them are parallel.

    Args:
        args: the service, aiocg's workers if there is none.
        kwargs: see `ClientServiceCompilerEnv`.

    Raises:
        EnvironmentNotSupported: when the worker cannot be started. Whether there is a GPU, a reset tells.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if not args and "service_connection" not in kwargs:
            kwargs.setdefault("service", LOOP_TOOL_SERVICE_BINARY)
        kwargs["rewards"] = [FLOPSReward(), *(kwargs.get("rewards") or ())]
        kwargs["datasets"] = [LoopToolCPUDataset(), LoopToolCUDADataset(), *(kwargs.get("datasets") or ())]
        super().__init__(*args, **kwargs)

    def commandline(self) -> str:
        """Return the indices of the actions, with commas between them."""
        return ",".join(str(action) for action in self.actions)
