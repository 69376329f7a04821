"""Benchmarks and datasets under CompilerGym's names; aiocg's own are behind them."""

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark, BenchmarkSource, BenchmarkWithSource
from aiocg.compat.compiler_gym.datasets.dataset import Dataset, activate, deactivate, delete, require
from aiocg.compat.compiler_gym.datasets.datasets import Datasets
from aiocg.compat.compiler_gym.datasets.files_dataset import FilesDataset
from aiocg.compat.compiler_gym.datasets.tar_dataset import TarDataset, TarDatasetWithManifest
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, DatasetInitError

__all__ = [
    "Benchmark",
    "BenchmarkInitError",
    "BenchmarkSource",
    "BenchmarkUri",
    "BenchmarkWithSource",
    "Dataset",
    "DatasetInitError",
    "Datasets",
    "FilesDataset",
    "TarDataset",
    "TarDatasetWithManifest",
    "activate",
    "deactivate",
    "delete",
    "require",
]
