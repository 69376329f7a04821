"""The dataset `CHStoneDataset`."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import CHStoneDataset

__all__ = ["CHStoneDataset"]
