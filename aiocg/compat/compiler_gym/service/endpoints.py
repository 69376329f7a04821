"""What stands for CompilerGym's service of LLVM, which was a program in a file."""

from pathlib import Path

__all__ = ["LLVM_SERVICE_BINARY"]

LLVM_SERVICE_BINARY = Path(__file__).parents[1] / "envs/llvm/service/compiler_gym-llvm-service"
"""Where the service's program was. There is no such file: who is given this path as a service uses aiocg's workers."""
