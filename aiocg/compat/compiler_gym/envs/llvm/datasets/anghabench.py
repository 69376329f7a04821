"""The dataset `AnghaBenchDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import AnghaBenchDataset

__all__ = ["AnghaBenchDataset"]
