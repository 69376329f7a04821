"""The default datasets, and resolution of program names."""

import difflib
import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

from aiocg.datasets._mixture import Mixture
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkInitError, DatasetNotFound, InvalidBenchmarkUri
from aiocg.datasets.generators.csmith import CsmithDataset
from aiocg.datasets.generators.llvm_stress import LlvmStressDataset
from aiocg.datasets.generators.random_c import RandomProgramsDataset
from aiocg.datasets.loop_nests.dataset import LoopNestsDataset, LoopToolDataset
from aiocg.datasets.own.installed import own_datasets
from aiocg.datasets.program_file import SUFFIXES
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.published import published_datasets
from aiocg.datasets.sdist import SdistDataset
from aiocg.datasets.uri import BenchmarkUri


def resolve(
    target: "str | os.PathLike[str] | BenchmarkUri | Benchmark", datasets: Datasets, flags: Iterable[str] = ()
) -> Benchmark:
    """Turn a URI, a path or a benchmark into a benchmark.

    A string is a path when it starts like one (`/`, `./`, `../`, `~`), names an existing file that can be a
    benchmark, or ends in one of the suffixes and is not in a known dataset. Otherwise it is a URI.

    Args:
        target: `programs-v0/qsort`, `benchmark://programs-v0/qsort`, `prog.c`, `~/y.ll`,
            `file:///abs/path.c`, a `pathlib.Path`, or a benchmark, which is returned as it is.
        datasets: where URIs are looked up.
        flags: for clang, which only a path of a source takes.

    Raises:
        TypeError: when it is something else.
        InvalidBenchmarkUri: when it is neither a file nor a well-formed URI.
        DatasetNotFound: when there is no such dataset.
        BenchmarkNotFound: when there is no such file or benchmark.
        BenchmarkInitError: when a file cannot be a benchmark.
    """
    if isinstance(target, Benchmark):
        return target
    if isinstance(target, BenchmarkUri):
        return datasets.benchmark(target)
    if not isinstance(target, (str, os.PathLike)):
        raise TypeError(f"a benchmark is given by its name, the path of a file, or as a Benchmark, not as {target!r}")
    if not isinstance(target, str) or _is_path(target, datasets):
        return Benchmark.from_file(target, flags)
    if given := tuple(flags):
        reason = f"is compiled as its dataset says: {' '.join(given)} can only be given for a C or C++ file of your own"
        raise BenchmarkInitError(target, reason)
    try:
        return datasets.benchmark(target)
    except DatasetNotFound:
        shipped = ProgramsDataset()
        near = [] if "/" in target else difflib.get_close_matches(target, shipped.names, n=3)
        if near:
            raise DatasetNotFound(target, [f"{shipped.name}/{name}" for name in near]) from None
        raise


def _is_path(text: str, datasets: Datasets) -> bool:
    if "://" in text:
        return False
    if not text or "\0" in text:
        raise InvalidBenchmarkUri(text, "neither the name of a benchmark nor of a file")
    if text.startswith(("/", "./", "../", "~")) or text in (".", ".."):
        return True
    suffixed = text.endswith(SUFFIXES)
    if suffixed and os.path.isfile(text):
        return True
    if text.partition("/")[0] in datasets:
        return False
    return suffixed or os.path.exists(text)


Key = TypeVar("Key", bound=Dataset | str)


def default_datasets() -> Datasets:
    """Return a new collection of the datasets of this package and the user's own.

    It lists one folder; nothing is fetched, and no list of names is read.
    """
    generated: list[Dataset] = [RandomProgramsDataset(), CsmithDataset(), LlvmStressDataset()]
    loops: list[Dataset] = [LoopNestsDataset(), LoopToolDataset("cpu"), LoopToolDataset("cuda")]
    return Datasets([*own_datasets(), ProgramsDataset(), *generated, SdistDataset(), *published_datasets(), *loops])


def mix(weights: Mapping[Key, float], seed: int = 0, datasets: Datasets | None = None) -> Mixture:
    """Mix datasets into one endless stream of benchmarks.

    Args:
        weights, seed: as for `Datasets.mix`.
        datasets: where names are looked up; the datasets that come with the package if None.

    Raises:
        DatasetNotFound, DatasetError: as `Datasets.mix`.
    """
    return (default_datasets() if datasets is None else datasets).mix(weights, seed)
