"""The dataset `CsmithDataset`, and its benchmarks."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import CsmithBenchmark, CsmithDataset

__all__ = ["UINT_MAX", "CsmithBenchmark", "CsmithDataset"]

UINT_MAX = 2**32 - 1  # the greatest seed
