"""What a user may write where a benchmark is wanted."""

import os
from collections.abc import Iterable

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.errors import InvalidBenchmarkUri
from aiocg.datasets.files import SUFFIXES, benchmark_from_file
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["resolve"]


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
        flags: for clang, when the target is a path.

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
        return benchmark_from_file(target, flags)
    return datasets.benchmark(target)


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
