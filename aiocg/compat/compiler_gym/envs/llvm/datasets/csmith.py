"""The dataset `CsmithDataset`, and its benchmarks."""

from aiocg.compat.compiler_gym.envs.llvm.datasets import CsmithBenchmark, CsmithDataset

__all__ = ["CsmithBenchmark", "CsmithDataset"]
