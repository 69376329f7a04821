"""CompilerGym's environments of LLVM."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from aiocg.compat.compiler_gym.service.endpoints import LLVM_SERVICE_BINARY

_HOMES = {
    "BenchmarkFromCommandLine": "benchmark_from_command_line",
    "ClangInvocation": "llvm_benchmark",
    "LlvmCommandLine": "llvm_command_line",
    "LlvmEnv": "llvm_env",
    "compute_observation": "compute_observation",
    "get_system_library_flags": "llvm_benchmark",
    "make_benchmark": "llvm_benchmark",
    "make_benchmark_from_source": "llvm_benchmark",
    "merge_benchmarks": "llvm_benchmark",
    "observation_spaces": "specs",
    "reward_spaces": "specs",
    "split_benchmark_by_function": "llvm_benchmark",
}
_MODULES = (
    "benchmark_from_command_line",
    "datasets",
    "lexed_ir",
    "llvm_benchmark",
    "llvm_command_line",
    "llvm_env",
    "llvm_rewards",
    "specs",
)

__all__ = [
    "LLVM_SERVICE_BINARY",
    "BenchmarkFromCommandLine",
    "ClangInvocation",
    "LlvmCommandLine",
    "LlvmEnv",
    "compute_observation",
    "get_system_library_flags",
    "make_benchmark",
    "make_benchmark_from_source",
    "merge_benchmarks",
    "observation_spaces",
    "reward_spaces",
    "split_benchmark_by_function",
]

if TYPE_CHECKING:
    from aiocg.compat.compiler_gym.envs.llvm.benchmark_from_command_line import BenchmarkFromCommandLine
    from aiocg.compat.compiler_gym.envs.llvm.compute_observation import compute_observation
    from aiocg.compat.compiler_gym.envs.llvm.llvm_benchmark import (
        ClangInvocation,
        get_system_library_flags,
        make_benchmark,
        make_benchmark_from_source,
        merge_benchmarks,
        split_benchmark_by_function,
    )
    from aiocg.compat.compiler_gym.envs.llvm.llvm_command_line import LlvmCommandLine
    from aiocg.compat.compiler_gym.envs.llvm.llvm_env import LlvmEnv
    from aiocg.compat.compiler_gym.envs.llvm.specs import observation_spaces, reward_spaces
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
            globals()[name] = value  # compute_observation is the function, not the module, from now on
            return value
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*__all__, *_MODULES})
