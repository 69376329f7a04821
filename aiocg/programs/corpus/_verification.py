"""Verifying an installed dataset: its files, and loading its programs into LLVM."""

import contextlib
import dataclasses
import functools
import hashlib
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.own.dataset import OwnDataset
from aiocg.datasets.own.manifest import CONTENT
from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress
from aiocg.datasets.sdist import SdistDataset
from aiocg.datasets.sdist.manifest import projects
from aiocg.datasets.tar import TarDataset
from aiocg.errors import ServiceError
from aiocg.host.threads import in_thread
from aiocg.programs.corpus.measure import ENVIRONMENT, TIMEOUT, require_programs
from aiocg.programs.prefetching import prefetch
from aiocg.runtime import Runtime

SAMPLE = 10
"""Number of programs loaded by default."""


@dataclasses.dataclass(frozen=True, slots=True)
class Verification:
    """The result of verifying a dataset.

    Attributes:
        files: number of checked files; None if the dataset has no list of them.
        damaged: problems by path of the file.
        loaded: number of programs of the sample that LLVM loaded.
        failed: the errors of the others, by URI.
    """

    files: int | None
    damaged: dict[str, str]
    loaded: int
    failed: dict[str, str]

    @property
    def okay(self) -> bool:
        """Whether nothing wrong was found."""
        return not self.damaged and not self.failed


async def verify(
    dataset: Dataset, *, runtime: Runtime | None = None, sample: int = SAMPLE, seed: int = 0
) -> Verification:
    """Check all installed files of a dataset, and load some of its programs into LLVM.

    Files of one's own datasets are compared with their checksums. Datasets published as archives have only the checksum
    of the archive: each of their programs must have a non-empty file.

    Args:
        dataset: one that is installed.
        runtime: by default a temporary one.
        sample: number of programs to load.
        seed: for choosing them.

    Raises:
        DatasetError: when it has no programs, is not installed, or its list of programs is damaged.
        ServiceError: when no worker can be started.
    """
    require_programs(dataset)
    if not dataset.installed:
        raise DatasetError(f"{dataset.name} is not installed; `aiocg dataset install {dataset.name}` does that")
    files, damaged = await in_thread(lambda: _check(dataset))
    loaded, failed = 0, {}
    async with contextlib.AsyncExitStack() as stack:
        if runtime is None:
            runtime = await stack.enter_async_context(Runtime(workers=1))
        env = await stack.enter_async_context(await runtime.make(ENVIRONMENT))
        env.timeout = TIMEOUT
        count = min(sample, dataset.extent)
        advance = stack.enter_context(progress(f"Loading programs of {dataset.name}", count, unit="programs"))
        async with prefetch(_sample(dataset, count, seed), ahead=2) as benchmarks:
            async for benchmark in benchmarks:
                try:
                    await env.reset(benchmark=benchmark)
                    loaded += 1
                except (DatasetError, ServiceError) as error:
                    failed[str(benchmark.uri)] = str(error)
                advance(1)
    return Verification(files, damaged, loaded, failed)


def _sample(dataset: Dataset, count: int, seed: int) -> Iterator[Benchmark]:
    places = random.Random(seed).sample(range(dataset.extent), count)
    return (dataset.benchmark_from_parsed_uri(dataset.uri_at(place)) for place in sorted(places))


def _check(dataset: Dataset) -> tuple[int | None, dict[str, str]]:
    """Return how many files there are, and what is wrong with some."""
    files = _files(dataset)
    if files is None:
        return None, {}
    count, damaged = 0, {}
    with progress(f"Looking at the files of {dataset.name}") as advance:
        for path, digest in files:
            check_cancelled()
            if problem := _problem(path, digest):
                damaged[str(path)] = problem
            count += 1
            advance(1)
    return count, damaged


@functools.singledispatch
def _files(dataset: Dataset) -> Iterable[tuple[Path, str]] | None:
    """Enumerate the files that there should be, each with its checksum, which is "" if nobody knows it."""
    return None


@_files.register
def _(dataset: OwnDataset) -> Iterable[tuple[Path, str]]:
    digests = sorted({digest for program in dataset.programs.values() for digest in program.digests()})
    return ((dataset.directory / CONTENT / digest, digest) for digest in digests)


@_files.register
def _(dataset: TarDataset) -> Iterable[tuple[Path, str]]:
    return ((dataset.contents_path / dataset.file_of(name), "") for name in dataset.names)


@_files.register
def _(dataset: SdistDataset) -> Iterable[tuple[Path, str]]:
    found = projects(dataset._directory).values()
    root = dataset.site_data_path
    return ((root / one.folder / program.path, "") for one in found for program in one.programs())


def _problem(path: Path, digest: str) -> str:
    """Say what is wrong with a file, "" if nothing is."""
    try:
        if not os.stat(path).st_size and not digest:
            return "is empty"
        if digest:
            with open(path, "rb") as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != digest:
                    return "has another content"
    except OSError as error:
        return error.strerror or str(error)
    return ""
