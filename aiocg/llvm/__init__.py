"""Specific to LLVM: benchmarks, program files, and LLVM without an environment.

Names are imported on first use: `aiocg cc` imports this package and must start quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    name: home
    for home, names in {
        "llvm._benchmarks": "ClangInvocation benchmark_from_source make_benchmark "
        "merge_benchmarks split_benchmark_by_function strip_optnone",
        "llvm.builds": "CommandLineBenchmark benchmark_from_command_line",
        "transport.elf": "code_size image_size text_size",
        "llvm._one_shot": "action_names compute_observation observation_spaces reward_spaces",
        "llvm._program_files": "ir ir_sha1 write_bitcode write_ir",
        "llvm.tools": "clang_path lld_path program_path",
        "spaces.rewards": "cost_baselines",
        "states.result": "Translation",
        "validation.legacy_states": "modern_state translate_command_line",
    }.items()
    for name in names.split()
}

__all__ = [
    "ClangInvocation",
    "CommandLineBenchmark",
    "Translation",
    "action_names",
    "benchmark_from_command_line",
    "benchmark_from_source",
    "clang_path",
    "code_size",
    "compute_observation",
    "cost_baselines",
    "image_size",
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
    from aiocg.llvm._benchmarks import (
        ClangInvocation,
        benchmark_from_source,
        make_benchmark,
        merge_benchmarks,
        split_benchmark_by_function,
        strip_optnone,
    )
    from aiocg.llvm._one_shot import action_names, compute_observation, observation_spaces, reward_spaces
    from aiocg.llvm._program_files import ir, ir_sha1, write_bitcode, write_ir
    from aiocg.llvm.builds import CommandLineBenchmark, benchmark_from_command_line
    from aiocg.llvm.tools import clang_path, lld_path, program_path
    from aiocg.spaces.rewards import cost_baselines
    from aiocg.states.result import Translation
    from aiocg.transport.elf import code_size, image_size, text_size
    from aiocg.validation.legacy_states import modern_state, translate_command_line
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"aiocg.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'aiocg.llvm' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
