"""The datasets of GCC, under the names of CompilerGym's classes."""

from aiocg.compat.compiler_gym.datasets.gcc import gcc_datasets as get_gcc_datasets
from aiocg.compat.compiler_gym.envs.llvm.datasets import AnghaBenchDataset, CHStoneDataset, CsmithDataset

__all__ = ["AnghaBenchDataset", "CHStoneDataset", "CsmithDataset", "get_gcc_datasets"]
