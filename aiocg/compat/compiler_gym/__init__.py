"""CompilerGym's package, over aiocg. Old scripts import it as `compiler_gym`: see `aiocg.compat`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "COMPILER_GYM_ENVS": "envs",
    "CompilerEnv": "envs",
    "CompilerEnvState": "compiler_env_state",
    "CompilerEnvStateReader": "compiler_env_state",
    "CompilerEnvStateWriter": "compiler_env_state",
    "ValidationError": "errors",
    "ValidationResult": "validation_result",
    "__version__": "util.version",
    "cache_path": "util.runfiles_path",
    "download": "util.download",
    "get_debug_level": "util.debug_util",
    "get_logging_level": "util.debug_util",
    "make": "util.registration",
    "random_search": "random_search",
    "set_debug_level": "util.debug_util",
    "site_data_path": "util.runfiles_path",
    "transient_cache_path": "util.runfiles_path",
    "validate_states": "validate",
}
_MODULES = (
    "bin",
    "compiler_env_state",
    "config",
    "datasets",
    "envs",
    "errors",
    "leaderboard",
    "service",
    "spaces",
    "third_party",
    "util",
    "validate",
    "validation_error",
    "validation_result",
    "views",
    "wrappers",
)

__all__ = [
    "COMPILER_GYM_ENVS",
    "CompilerEnv",
    "CompilerEnvState",
    "CompilerEnvStateReader",
    "CompilerEnvStateWriter",
    "ValidationError",
    "ValidationResult",
    "__version__",
    "cache_path",
    "download",
    "get_debug_level",
    "get_logging_level",
    "make",
    "random_search",
    "set_debug_level",
    "site_data_path",
    "transient_cache_path",
    "validate_states",
]

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.compiler_env_state import (
        CompilerEnvState,
        CompilerEnvStateReader,
        CompilerEnvStateWriter,
    )
    from aiocg.compat.compiler_gym.envs import COMPILER_GYM_ENVS, CompilerEnv
    from aiocg.compat.compiler_gym.errors import ValidationError
    from aiocg.compat.compiler_gym.random_search import random_search
    from aiocg.compat.compiler_gym.util.debug_util import get_debug_level, get_logging_level, set_debug_level
    from aiocg.compat.compiler_gym.util.download import download
    from aiocg.compat.compiler_gym.util.registration import make
    from aiocg.compat.compiler_gym.util.runfiles_path import cache_path, site_data_path, transient_cache_path
    from aiocg.compat.compiler_gym.util.version import __version__
    from aiocg.compat.compiler_gym.validate import validate_states
    from aiocg.compat.compiler_gym.validation_result import ValidationResult
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            globals()[name] = value  # a function of the name of its module, for one, is the function from now on
            return value
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})
