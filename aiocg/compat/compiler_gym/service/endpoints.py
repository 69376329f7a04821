"""What stands for CompilerGym's services of LLVM, GCC and loop_tool, which were programs in files."""

from pathlib import Path

__all__ = ["GCC_SERVICE_BINARY", "LLVM_SERVICE_BINARY", "LOOP_TOOL_SERVICE_BINARY"]

_ENVS = Path(__file__).parents[1] / "envs"

LLVM_SERVICE_BINARY = _ENVS / "llvm/service/compiler_gym-llvm-service"
"""Where the service's program was. There is no such file: who is given this path as a service uses aiocg's workers."""

GCC_SERVICE_BINARY = _ENVS / "gcc/service/compiler_gym-gcc-service"
"""The same for GCC; which GCC, the variable `CC` of the connection's `script_env` says."""

LOOP_TOOL_SERVICE_BINARY = _ENVS / "loop_tool/service/compiler_gym-loop_tool-service"
"""The same for loop_tool."""
