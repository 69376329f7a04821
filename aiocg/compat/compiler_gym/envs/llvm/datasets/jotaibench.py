"""The dataset `JotaiBenchDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import JotaiBenchDataset

__all__ = ["JotaiBenchDataset"]
