"""Parts of a dataset, in another order if need be, that are computed and not written down.

A view is a dataset whose n-th benchmark is that of some other number in a whole. Which number is a matter of arithmetic
for a slice and for a shuffle, so that a view of a million benchmarks occupies no more than one of ten; only `select`
keeps eight bytes for each benchmark that it found.
"""

import bisect
import itertools
import math
import operator
import sys
from array import array
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cached_property
from typing import TypeAlias

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import UNBOUNDED_DRAW, Dataset
from aiocg.datasets.errors import BenchmarkNotFound, DatasetError
from aiocg.datasets.permutation import Permutation
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["SHARES", "DatasetView", "extent", "select", "shuffled", "sliced", "split"]

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
"""The parts of a split where none are given."""

Indices: TypeAlias = "range | Permutation | array[int]"  # arrays take no brackets before Python 3.12


class DatasetView(Dataset):
    """Some benchmarks of a dataset in some order, as `dataset[10:20]`, `shuffled`, `split` and `select` return it.

    It has the name of the whole, its benchmarks have the same URIs, and a view of it is a view again. It is as long as
    it was when it was made.

    Where the whole defines no `uri_at` of its own, its names are enumerated once, and kept, if they are needed in
    another order.

    Args:
        whole: the dataset, or another view.
        indices: which benchmarks of the whole, in order; an array must be ascending.
    """

    def __init__(self, whole: Dataset, indices: Indices) -> None:
        super().__init__(
            str(whole.root),
            whole.description,
            license=whole.license,
            references=whole.references,
            deprecated=whole.deprecated,
            validatable=whole.validatable,
            sort_order=whole.sort_order,
            kind=whole.kind,
        )
        self.whole = whole
        self.indices = indices
        in_order = isinstance(indices, range) and indices.step > 0
        self._keeps_names = not in_order and not _has_quick_names(whole)
        self._counts_names = in_order and not _has_quick_names(whole)

    @property
    def size(self) -> int:
        """How many benchmarks there are; 0 means that there are none."""
        return len(self.indices)

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the n-th name.

        Raises:
            IndexError: when there are not so many.
        """
        if not 0 <= index < len(self.indices):
            raise IndexError(f"there is no benchmark number {index} among {self.size} of {self.name}")
        number = self.indices[index]
        return self._names[number] if self._keeps_names else self.whole.uri_at(number)

    @cached_property
    def _names(self) -> tuple[BenchmarkUri, ...]:
        return tuple(self.whole.benchmark_uris())

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the names, lazily and always in the same order."""
        if self._counts_names:
            assert isinstance(self.indices, range)
            places = self.indices
            return itertools.islice(self.whole.benchmark_uris(), places.start, places.stop, places.step)
        return map(self.uri_at, range(self.size))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of the whole that has this URI; only `benchmark` checks that it is in this view.

        Raises:
            BenchmarkNotFound: when the whole has none.
        """
        return self.whole.benchmark_from_parsed_uri(uri)

    def benchmark(self, uri: str | BenchmarkUri) -> Benchmark:
        """Return one benchmark of this view.

        Args:
            uri: a path within the dataset (`qsort`) or a URI, with or without its scheme.

        Raises:
            BenchmarkNotFound: when it is not in this view.
            InvalidBenchmarkUri: when the URI is malformed.
        """
        benchmark = self.whole.benchmark(uri)
        self.position(benchmark.uri)
        return benchmark

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of a name: what `uri_at` undoes.

        Raises:
            BenchmarkNotFound: when it is not in this view.
        """
        index = _index(self.indices, self.whole.position(uri))
        if index is None:
            raise BenchmarkNotFound(str(uri), f"{uri} is not among these {self.size} benchmarks of {self.root}")
        return index

    def index_of_number(self, number: int) -> int | None:
        """Return where in this view a benchmark is, None if it is not.

        Args:
            number: its own in the dataset of which this is a view, or a view of a view.
        """
        if isinstance(self.whole, DatasetView):
            inner = self.whole.index_of_number(number)
            return None if inner is None else _index(self.indices, inner)
        return _index(self.indices, number)

    @property
    def dataset(self) -> Dataset:
        """The dataset itself of which this is a view, or a view of a view."""
        return self.whole.dataset if isinstance(self.whole, DatasetView) else self.whole

    @property
    def installed(self) -> bool:
        """Whether the benchmarks can be had without fetching anything."""
        return self.whole.installed

    def install(self) -> None:
        """Fetch what the whole dataset needs, unless that has been done.

        Raises:
            DownloadError: when something cannot be fetched.
            InstallError: when what was fetched is damaged, or there is no room for it.
        """
        self.whole.install()

    def uninstall(self) -> None:
        """Remove what was installed for the whole dataset.

        Raises:
            InstallError: when it cannot be removed.
        """
        self.whole.uninstall()

    def __repr__(self) -> str:
        return f"<DatasetView of {self.size} benchmarks of {self.root}>"


def extent(dataset: Dataset) -> int:
    """Return how many benchmarks a dataset has; of one without an end those that are drawn from, which are 2**32."""
    return UNBOUNDED_DRAW if _has_no_end(dataset) else dataset.size


def sliced(dataset: Dataset, part: slice) -> DatasetView:
    """Return the benchmarks of a slice. Of a dataset without an end, it ends after 2**32 if nothing else is said.

    Raises:
        DatasetError: when it counts from the end, and there is none.
    """
    whole, places = dataset, range(extent(dataset))
    if isinstance(dataset, DatasetView) and isinstance(dataset.indices, range):
        whole, places = dataset.whole, dataset.indices  # a slice of a slice is a slice
    elif _has_no_end(dataset):
        given = [operator.index(place) for place in (part.start, part.stop) if place is not None]
        if min(given, default=0) < 0:
            raise DatasetError(f"{dataset.root} has no end to count from: use places from 0, such as [1000:2000]")
        places = range(min(max([UNBOUNDED_DRAW, *given]), sys.maxsize))  # as long as `len` can say
    return DatasetView(whole, places[part])


def shuffled(dataset: Dataset, seed: int) -> DatasetView:
    """Return the benchmarks in an order that depends on the dataset's name, its size and the seed, and nothing else.

    Raises:
        DatasetError: when the dataset has no end.
    """
    if _has_no_end(dataset):
        raise DatasetError(f"{dataset.root} has no end: take a slice first, such as [:100000]")
    return DatasetView(dataset, Permutation(dataset.size, seed, str(dataset.root)))


def split(dataset: Dataset, seed: int, shares: Mapping[str, float]) -> dict[str, DatasetView]:
    """Cut `shuffled(dataset, seed)` into one slice for each share, in their order, by name.

    The sizes add up to that of the dataset, and each is less than one away from what its share says.

    Raises:
        DatasetError: when the shares do not add up to 1, or the dataset has no end.
    """
    shares = shares or SHARES
    if not all(share > 0 for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
        given = ", ".join(f"{name}={share}" for name, share in shares.items())
        raise DatasetError(f"the shares of a split are positive and add up to 1, unlike {given}")
    whole = shuffled(dataset, seed)
    views, start = {}, 0
    for name, size in zip(shares, _sizes(whole.size, list(shares.values())), strict=True):
        views[name] = sliced(whole, slice(start, start + size))
        start += size
    return views


def select(
    dataset: Dataset, instructions: tuple[int | None, int | None] | None, *, unique: bool, where: str
) -> DatasetView:
    """Return the benchmarks that the index of the dataset finds, in the dataset's order.

    Of benchmarks with the same code, `unique` takes the first of the dataset itself, also when the selection is from a
    view: two views that have no benchmark in common then have no code in common either.

    Raises:
        IndexNotFound: when nothing has been measured.
        DatasetError: when the expression is wrong.
    """
    from aiocg.datasets.index import DatasetIndex  # SQLite is for those who select

    whole = dataset.dataset if isinstance(dataset, DatasetView) else dataset
    found = DatasetIndex.of(whole).positions(instructions=instructions, unique=unique, where=where)
    if isinstance(dataset, DatasetView):
        found = _in_view(dataset, found)
    return DatasetView(dataset, found)


def _in_view(view: DatasetView, numbers: "array[int]") -> "array[int]":
    import numpy

    indices = array("Q")
    for number in numbers:
        if (index := view.index_of_number(number)) is not None:
            indices.append(index)
    numpy.frombuffer(indices, dtype=numpy.uint64).sort()
    return indices


def _index(indices: Indices, number: int) -> int | None:
    """Return where a number is, None if it is not there."""
    if isinstance(indices, array):
        index = bisect.bisect_left(indices, number)
        return index if index < len(indices) and indices[index] == number else None
    if isinstance(indices, range):
        return indices.index(number) if number in indices else None
    return indices.index(number) if number < len(indices) else None


def _sizes(total: int, shares: list[float]) -> list[int]:
    """Divide a number by shares; what is left over goes to those that lost most by rounding down."""
    exact = [Fraction(str(share)) for share in shares]  # 0.1 is meant, not the nearest sum of powers of two
    quotas = [total * share / sum(exact) for share in exact]
    sizes = [math.floor(quota) for quota in quotas]
    by_loss = sorted(range(len(quotas)), key=lambda index: sizes[index] - quotas[index])
    for index in by_loss[: total - sum(sizes)]:
        sizes[index] += 1
    return sizes


def _has_no_end(dataset: Dataset) -> bool:
    """Tell one that has no end from one that is empty: both have size 0."""
    if isinstance(dataset, DatasetView) or dataset.size:
        return False
    try:
        dataset.uri_at(0)
    except IndexError:
        return False
    return True


def _has_quick_names(dataset: Dataset) -> bool:
    if isinstance(dataset, DatasetView):
        return not dataset._counts_names
    return type(dataset).uri_at is not Dataset.uri_at
