"""CompilerGym's environment of GCC."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.service.endpoints import GCC_SERVICE_BINARY

_HOMES = {
    "DEFAULT_GCC": "gcc",
    "Gcc": "gcc",
    "GccEnv": "gcc_env",
    "GccSpec": "gcc",
    "Option": "options",
}
_MODULES = ("datasets", "gcc", "gcc_env", "gcc_rewards")

__all__ = ["DEFAULT_GCC", "GCC_SERVICE_BINARY", "Gcc", "GccEnv", "GccSpec", "Option"]

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.envs.gcc.gcc import DEFAULT_GCC, Gcc, GccSpec
    from aiocg.compat.compiler_gym.envs.gcc.gcc_env import GccEnv
    from aiocg.compat.compiler_gym.envs.gcc.options import Option
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})
