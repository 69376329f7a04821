"""Benchmarks and datasets: URIs, sources, and the front end.

    from aiocg.datasets import default_datasets, resolve

    datasets = default_datasets()
    benchmark = resolve("programs-v0/qsort", datasets)  # or resolve("my_program.c", datasets)
    benchmark.content  # bitcode, compiled on first use and cached

Making a benchmark is cheap; only its content costs time. Names are imported on first use, since `aiocg cc` needs few.
"""

if __name__ != "aiocg.datasets":  # a second copy under another name would make every class exist twice
    raise ImportError("import aiocg.datasets, not datasets")

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    name: home
    for home, names in {
        "benchmark": "Benchmark BenchmarkSource",
        "collection": "Datasets",
        "dataset": "Dataset DatasetView",
        "errors": "BenchmarkInitError BenchmarkNotFound CacheError CacheWarning CompilationCancelled DatasetError "
        "DatasetNotFound DownloadError IndexNotFound InstallError InvalidBenchmarkUri ToolchainNotFound",
        "_files": "FilesDataset",
        "frontend": "compile_file compile_source",
        "process": "cancellable",
        "index": "DatasetIndex",
        "_mixture": "Mixture",
        "programs": "ProgramsDataset",
        "recipe": "BenchmarkProgram ProgramRun",
        "registry": "default_datasets mix resolve",
        "tar": "TarDataset TarDatasetWithManifest",
        "toolchain": "Toolchain find_toolchain",
        "uri": "BenchmarkUri",
    }.items()
    for name in names.split()
}

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
    "DatasetIndex",
    "DatasetNotFound",
    "DatasetView",
    "Datasets",
    "DownloadError",
    "FilesDataset",
    "IndexNotFound",
    "InstallError",
    "InvalidBenchmarkUri",
    "Mixture",
    "ProgramRun",
    "ProgramsDataset",
    "TarDataset",
    "TarDatasetWithManifest",
    "Toolchain",
    "ToolchainNotFound",
    "cancellable",
    "compile_file",
    "compile_source",
    "default_datasets",
    "find_toolchain",
    "mix",
    "resolve",
]

if TYPE_CHECKING:
    from aiocg.datasets._files import FilesDataset
    from aiocg.datasets._mixture import Mixture
    from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
    from aiocg.datasets.collection import Datasets
    from aiocg.datasets.dataset import Dataset, DatasetView
    from aiocg.datasets.errors import (
        BenchmarkInitError,
        BenchmarkNotFound,
        CacheError,
        CacheWarning,
        CompilationCancelled,
        DatasetError,
        DatasetNotFound,
        DownloadError,
        IndexNotFound,
        InstallError,
        InvalidBenchmarkUri,
        ToolchainNotFound,
    )
    from aiocg.datasets.frontend import compile_file, compile_source
    from aiocg.datasets.index import DatasetIndex
    from aiocg.datasets.process import cancellable
    from aiocg.datasets.programs import ProgramsDataset
    from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
    from aiocg.datasets.registry import default_datasets, mix, resolve
    from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest
    from aiocg.datasets.toolchain import Toolchain, find_toolchain
    from aiocg.datasets.uri import BenchmarkUri
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"aiocg.datasets.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'aiocg.datasets' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
