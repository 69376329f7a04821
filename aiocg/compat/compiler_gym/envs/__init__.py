"""CompilerGym's environments."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.envs.registered import register_all
from aiocg.compat.compiler_gym.util.registration import COMPILER_GYM_ENVS

_HOMES = {
    "ClientServiceCompilerEnv": "service.client_service_compiler_env",
    "CompilerEnv": "envs.compiler_env",
    "GccEnv": "envs.gcc",
    "LlvmEnv": "envs.llvm.llvm_env",
    "LoopToolEnv": "envs.loop_tool",
}
_MODULES = ("compiler_env", "gcc", "llvm", "loop_tool", "mlir")

__all__ = ["COMPILER_GYM_ENVS", "ClientServiceCompilerEnv", "CompilerEnv", "GccEnv", "LlvmEnv", "LoopToolEnv"]

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
    from aiocg.compat.compiler_gym.envs.gcc import GccEnv
    from aiocg.compat.compiler_gym.envs.llvm.llvm_env import LlvmEnv
    from aiocg.compat.compiler_gym.envs.loop_tool import LoopToolEnv
    from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"aiocg.compat.compiler_gym.{_HOMES[name]}"), name)
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})


register_all()
