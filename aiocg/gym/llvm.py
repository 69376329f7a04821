"""The LLVM environments for blocking code, with what is particular to them."""

from aiocg.gym.env import CompilerEnv

__all__ = ["LlvmEnv"]


class LlvmEnv(CompilerEnv):
    """An LLVM environment: `CompilerEnv` with what is particular to LLVM."""
