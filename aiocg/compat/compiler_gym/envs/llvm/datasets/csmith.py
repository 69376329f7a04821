"""The dataset `CsmithDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import CsmithDataset

__all__ = ["CsmithDataset"]
