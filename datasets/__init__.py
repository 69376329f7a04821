"""Where programs come from: benchmark URIs, benchmarks, datasets, and the front end that compiles them.

    from aiocg.datasets import default_datasets, resolve

    datasets = default_datasets()
    benchmark = resolve("programs-v0/qsort", datasets)  # or resolve("my_program.c", datasets)
    benchmark.content  # bitcode, compiled on first use and cached

A benchmark is made at once; only its content costs anything.
"""

if __name__ != "aiocg.datasets":  # a second copy under another name would make every class exist twice
    raise ImportError("import aiocg.datasets, not datasets")

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, BenchmarkSource, ProgramRun
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import (
    BenchmarkInitError,
    BenchmarkNotFound,
    CacheError,
    CacheWarning,
    CompilationCancelled,
    DatasetError,
    DatasetNotFound,
    DownloadError,
    InvalidBenchmarkUri,
    ToolchainNotFound,
)
from aiocg.datasets.files import FilesDataset
from aiocg.datasets.frontend import cancellable, compile_file, compile_source
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.resolution import resolve
from aiocg.datasets.toolchain import Toolchain, find_toolchain
from aiocg.datasets.uri import BenchmarkUri

__all__ = [
    "Benchmark",
    "BenchmarkInitError",
    "BenchmarkNotFound",
    "BenchmarkProgram",
    "BenchmarkSource",
    "BenchmarkUri",
    "CacheError",
    "CacheWarning",
    "CompilationCancelled",
    "Dataset",
    "DatasetError",
    "DatasetNotFound",
    "Datasets",
    "DownloadError",
    "FilesDataset",
    "InvalidBenchmarkUri",
    "ProgramRun",
    "ProgramsDataset",
    "Toolchain",
    "ToolchainNotFound",
    "cancellable",
    "compile_file",
    "compile_source",
    "default_datasets",
    "find_toolchain",
    "resolve",
]
