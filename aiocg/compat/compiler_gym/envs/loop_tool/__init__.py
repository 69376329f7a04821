"""CompilerGym's environment of loop_tool."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.service.endpoints import LOOP_TOOL_SERVICE_BINARY

_HOMES = {
    "FLOPSReward": "flops_reward",
    "LoopToolCPUDataset": "datasets",
    "LoopToolCUDADataset": "datasets",
    "LoopToolEnv": "loop_tool_env",
}
_MODULES = ("datasets", "flops_reward", "loop_tool_env")

__all__ = ["LOOP_TOOL_SERVICE_BINARY", "FLOPSReward", "LoopToolCPUDataset", "LoopToolCUDADataset", "LoopToolEnv"]

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.envs.loop_tool.datasets import LoopToolCPUDataset, LoopToolCUDADataset
    from aiocg.compat.compiler_gym.envs.loop_tool.flops_reward import FLOPSReward
    from aiocg.compat.compiler_gym.envs.loop_tool.loop_tool_env import LoopToolEnv
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})
