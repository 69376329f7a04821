"""What is particular to the LLVM environments: making benchmarks, writing programs, and LLVM without an environment.

Names are imported on first use: `aiocg cc` imports this package and must start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "ClangInvocation": "benchmarks",
    "CommandLineBenchmark": "builds",
    "Translation": "legacy_states",
    "action_names": "one_shot",
    "benchmark_from_command_line": "builds",
    "benchmark_from_source": "benchmarks",
    "clang_path": "tools",
    "compute_observation": "one_shot",
    "ir": "programs",
    "ir_sha1": "programs",
    "lld_path": "tools",
    "make_benchmark": "benchmarks",
    "merge_benchmarks": "benchmarks",
    "modern_state": "legacy_states",
    "observation_spaces": "one_shot",
    "program_path": "tools",
    "reward_spaces": "one_shot",
    "split_benchmark_by_function": "benchmarks",
    "strip_optnone": "benchmarks",
    "text_size": "object_file",
    "translate_command_line": "legacy_states",
    "write_bitcode": "programs",
    "write_ir": "programs",
}

__all__ = [
    "ClangInvocation",
    "CommandLineBenchmark",
    "Translation",
    "action_names",
    "benchmark_from_command_line",
    "benchmark_from_source",
    "clang_path",
    "compute_observation",
    "ir",
    "ir_sha1",
    "lld_path",
    "make_benchmark",
    "merge_benchmarks",
    "modern_state",
    "observation_spaces",
    "program_path",
    "reward_spaces",
    "split_benchmark_by_function",
    "strip_optnone",
    "text_size",
    "translate_command_line",
    "write_bitcode",
    "write_ir",
]

if TYPE_CHECKING:
    from aiocg.llvm.benchmarks import (
        ClangInvocation,
        benchmark_from_source,
        make_benchmark,
        merge_benchmarks,
        split_benchmark_by_function,
        strip_optnone,
    )
    from aiocg.llvm.builds import CommandLineBenchmark, benchmark_from_command_line
    from aiocg.llvm.legacy_states import Translation, modern_state, translate_command_line
    from aiocg.llvm.object_file import text_size
    from aiocg.llvm.one_shot import action_names, compute_observation, observation_spaces, reward_spaces
    from aiocg.llvm.programs import ir, ir_sha1, write_bitcode, write_ir
    from aiocg.llvm.tools import clang_path, lld_path, program_path
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"aiocg.llvm.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'aiocg.llvm' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
