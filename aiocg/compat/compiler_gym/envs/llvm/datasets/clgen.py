"""The dataset `CLgenDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import CLgenDataset

__all__ = ["CLgenDataset"]
