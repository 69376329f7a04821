"""The dataset `LlvmStressDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import LlvmStressDataset

__all__ = ["LlvmStressDataset"]
