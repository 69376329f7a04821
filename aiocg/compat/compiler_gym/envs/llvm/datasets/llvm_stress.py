"""The dataset `LlvmStressDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import LlvmStressDataset

__all__ = ["UINT_MAX", "LlvmStressDataset"]

UINT_MAX = 2**32 - 1  # the greatest seed
