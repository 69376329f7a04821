"""The datasets of the LLVM environments; each class makes the one that aiocg has under that name."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from aiocg.compat.compiler_gym.datasets import Benchmark, BenchmarkWithSource, Dataset
from aiocg.compat.compiler_gym.datasets.llvm import llvm_datasets
from aiocg.compat.compiler_gym.datasets.native import NativeDataset
from aiocg.compat.compiler_gym.datasets.stand_ins import CBenchDataset
from aiocg.datasets.dataset import Dataset as NativeSet

__all__ = [
    "AnghaBenchDataset",
    "BlasDataset",
    "CBenchDataset",
    "CHStoneDataset",
    "CLgenDataset",
    "CsmithBenchmark",
    "CsmithDataset",
    "GitHubDataset",
    "JotaiBenchDataset",
    "LinuxDataset",
    "LlvmStressDataset",
    "MibenchDataset",
    "NPBDataset",
    "OpenCVDataset",
    "POJ104Dataset",
    "TensorFlowDataset",
    "get_llvm_datasets",
    "named_dataset",
]


def get_llvm_datasets(site_data_base: str | Path | None = None) -> Iterable[Dataset]:
    """Return the datasets of the LLVM environments.

    Args:
        site_data_base: where they are installed, if not where aiocg installs them.
    """
    return llvm_datasets(site_data_base)


def named_dataset(native: NativeSet) -> NativeDataset:
    """Return a dataset of aiocg as the class that CompilerGym had for it, if it had one."""
    named = {cls.short_name: cls for cls in (*_Published.__subclasses__(), *_Seeded.__subclasses__())}
    cls = named.get(native.name)
    return NativeDataset(native) if cls is None else cls(native=native)


class _Published(NativeDataset):
    """A dataset of aiocg by its name.

    Args:
        site_data_base: accepted and unused: aiocg knows where it installs datasets.
        sort_order: its place in listings.
        native: the dataset; that of the defaults with the name if None.
    """

    short_name = ""

    def __init__(self, site_data_base: Any = None, sort_order: int = 0, *, native: NativeSet | None = None) -> None:
        if native is None:
            from aiocg.datasets.registry import default_datasets

            native = default_datasets()[self.short_name]
        super().__init__(native)
        self.sort_order = sort_order


class _Seeded(_Published):
    """A generator, whose programs are made of seeds."""

    def benchmark_from_seed(self, seed: int, max_retries: int = 3, retry_count: int = 0) -> Benchmark:
        """Return the program of a seed.

        Args:
            seed: a whole number that is not negative.
            max_retries, retry_count: accepted and unused.
        """
        return self.benchmark(f"{self.name}/{seed}")


class CsmithBenchmark(BenchmarkWithSource):
    """A program that Csmith made."""


class AnghaBenchDataset(_Published):
    """Functions mined from GitHub: `anghabench-v1`."""

    short_name = "anghabench-v1"
    kind_of_benchmark = BenchmarkWithSource


class BlasDataset(_Published):
    """Linear algebra: `blas-v0`."""

    short_name = "blas-v0"


class CHStoneDataset(_Published):
    """Programs for hardware synthesis: `chstone-v0`."""

    short_name = "chstone-v0"
    kind_of_benchmark = BenchmarkWithSource


class CLgenDataset(_Published):
    """OpenCL kernels of a language model: `clgen-v0`."""

    short_name = "clgen-v0"
    kind_of_benchmark = BenchmarkWithSource


class CsmithDataset(_Seeded):
    """Random C of Csmith: `csmith-v0`."""

    short_name = "csmith-v0"
    kind_of_benchmark = CsmithBenchmark


class GitHubDataset(_Published):
    """Files of projects on GitHub: `github-v0`."""

    short_name = "github-v0"


class JotaiBenchDataset(_Published):
    """Functions mined from GitHub, with drivers: `jotaibench-v0`."""

    short_name = "jotaibench-v0"
    kind_of_benchmark = BenchmarkWithSource


class LinuxDataset(_Published):
    """Files of Linux: `linux-v0`."""

    short_name = "linux-v0"


class LlvmStressDataset(_Seeded):
    """Random IR of llvm-stress: `llvm-stress-v0`."""

    short_name = "llvm-stress-v0"


class MibenchDataset(_Published):
    """Programs for embedded systems: `mibench-v1`."""

    short_name = "mibench-v1"


class NPBDataset(_Published):
    """NASA's parallel benchmarks: `npb-v0`."""

    short_name = "npb-v0"


class OpenCVDataset(_Published):
    """Files of OpenCV: `opencv-v0`."""

    short_name = "opencv-v0"


class POJ104Dataset(_Published):
    """Solutions of students: `poj104-v1`."""

    short_name = "poj104-v1"
    kind_of_benchmark = BenchmarkWithSource


class TensorFlowDataset(_Published):
    """Files of TensorFlow: `tensorflow-v0`."""

    short_name = "tensorflow-v0"
