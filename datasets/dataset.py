"""Named sets of benchmarks, enumerated lazily, and views of parts of them in any order.

A view maps its n-th benchmark to another number in the whole dataset. For slices and shuffles the mapping is
arithmetic, so that a view of a million benchmarks takes no more memory than one of ten; only `select` stores eight
bytes for each benchmark that it found.
"""

import abc
import difflib
import itertools
import math
import operator
import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import Any, overload

from aiocg.datasets._index_views import Permutation, Places, RandomGenerator, index_of, parts, random_index
from aiocg.datasets._named_set import Details, NamedSet
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, DatasetError, InvalidBenchmarkUri
from aiocg.datasets.index import DatasetIndex
from aiocg.datasets.uri import BenchmarkUri

SHARES = {"train": 0.8, "validation": 0.1, "test": 0.1}
"""The parts of a split where none are given."""

UNBOUNDED_DRAW = 2**32  # an unbounded dataset draws its index below this


class Dataset(NamedSet, abc.ABC):
    """A named set of benchmarks.

    To make one, define `benchmark_uris` and `benchmark_from_parsed_uri`; define `size` when the number is
    known and `uri_at` when the n-th is cheaper than counting up to it. An unbounded dataset has size 0 and
    must define `uri_at`.

    Args:
        name: the dataset's name, such as `programs-v0`, or with its scheme, `generator://csmith-v0`.
        description: one line for people.
        license: the licence of the programs, as an SPDX expression where there is one.
        references: titles and addresses of where the dataset comes from.
        deprecated: why it should not be used any more; "" when it should.
        validatable: whether its programs can be run and their output checked.
        sort_order: datasets are listed by this number, then by name.
        kind: of its benchmarks, which decides which compilers take them: `program`, or something else.
    """

    @abc.abstractmethod
    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the names, lazily and always in the same order."""

    @abc.abstractmethod
    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of this dataset that has this URI.

        Raises:
            BenchmarkNotFound: when there is none.
        """

    @property
    def size(self) -> int:
        """How many benchmarks there are; 0 when there is no end of them."""
        return sum(1 for _ in self.benchmark_uris())

    @property
    def extent(self) -> int:
        """How many benchmarks are drawn from: `size`, or 2**32 when there is no end of them."""
        return self.size or (UNBOUNDED_DRAW if self._is_endless() else 0)

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the n-th name.

        Raises:
            IndexError: when there are not so many.
        """
        if 0 <= index <= sys.maxsize:
            for uri in itertools.islice(self.benchmark_uris(), index, None):
                return uri
        raise IndexError(f"{self.name} has no benchmark number {index}")

    def number_at(self, index: int) -> int:
        """Return the number of the n-th benchmark in the whole dataset."""
        return index

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of a name: what `uri_at` undoes.

        Raises:
            BenchmarkNotFound: when it is not one of the names.
        """
        for number, name in enumerate(self.benchmark_uris()):
            if name == uri:
                return number
        raise BenchmarkNotFound(str(uri), f"{uri} is not in the dataset {self.root}")

    def benchmarks(self) -> Iterator[Benchmark]:
        """Enumerate the benchmarks lazily, in the order of `benchmark_uris`."""
        return map(self.benchmark_from_parsed_uri, self.benchmark_uris())

    def benchmark(self, uri: str | BenchmarkUri) -> Benchmark:
        """Return one benchmark.

        Args:
            uri: a path within the dataset (`qsort`) or a URI, with or without its scheme.

        Raises:
            BenchmarkNotFound: when this dataset has no such benchmark.
            InvalidBenchmarkUri: when the URI is malformed.
        """
        parsed = self._parse(uri) if isinstance(uri, str) else uri
        if (parsed.scheme, parsed.dataset) != (self.scheme, self.name):
            raise BenchmarkNotFound(str(parsed), f"{parsed} is not in the dataset {self.root}")
        if not parsed.path:
            raise BenchmarkNotFound(
                str(parsed), f"{parsed} names a dataset, not one of its benchmarks", self._first_names()
            )
        return self.benchmark_from_parsed_uri(parsed)

    def random_benchmark(self, rng: RandomGenerator | None = None) -> Benchmark:
        """Draw a benchmark uniformly.

        Args:
            rng: a `numpy.random.Generator` or `random.Random`; by default one seeded by the operating system.

        Raises:
            DatasetError: when the dataset is empty, or unbounded without a way to draw from it.
        """
        size = self.size
        if not size and type(self).uri_at is Dataset.uri_at:
            raise DatasetError(f"{self.root} is empty, or unbounded without a `uri_at` to draw with")
        try:
            uri = self.uri_at(random_index(rng, size or UNBOUNDED_DRAW))
        except IndexError:
            raise DatasetError(f"{self.root} is empty") from None
        return self.benchmark_from_parsed_uri(uri)

    def _parse(self, text: str) -> BenchmarkUri:
        if "://" in text or text == self.name or text.startswith(f"{self.name}/"):
            return BenchmarkUri.from_string(text if "://" in text else f"{self.scheme}://{text}")
        return BenchmarkUri.from_string(f"{self.root}/{text}")

    def _is_endless(self) -> bool:
        """Return whether the dataset is unbounded rather than empty: both have size 0."""
        try:
            return not self.size and self.uri_at(0) is not None
        except IndexError:
            return False

    def _not_found(self, uri: BenchmarkUri, names: Iterable[str]) -> BenchmarkNotFound:
        """Return the error for a URI that names no program, with those of the names that resemble it."""
        near = difflib.get_close_matches(uri.path, names, n=3)
        wanted = str(uri).partition(f"{self.name}/")[2]
        nearest = [str(BenchmarkUri(self.scheme, self.name, name)) for name in near]
        return BenchmarkNotFound(str(uri), f"{self.name} has no program {wanted!r}", nearest)

    def _first_names(self) -> list[str]:
        return [str(uri) for uri in itertools.islice(self.benchmark_uris(), 2)]

    def shuffled(self, seed: int) -> "DatasetView":
        """Return the same benchmarks in another order, without enumerating them.

        The order depends only on the dataset's name, its size and the seed.

        Raises:
            DatasetError: when the dataset has no end; take a slice of it first.
        """
        if self._is_endless():
            raise DatasetError(f"{self.root} has no end: take a slice first, such as [:100000]")
        return DatasetView(self, Permutation(self.size, seed, str(self.root)))

    def split(self, seed: int = 0, **shares: float) -> "dict[str, DatasetView]":
        """Split the benchmarks at random into disjoint sets, without enumerating them: slices of `shuffled(seed)`.

        Args:
            seed: decides which benchmark goes where.
            shares: the part of the whole for each set by name; they add up to 1. By default
                `train=0.8, validation=0.1, test=0.1`.

        Raises:
            DatasetError: when the shares do not add up to 1, or the dataset has no end.
        """
        shares = shares or SHARES
        if not all(share > 0 for share in shares.values()) or not math.isclose(sum(shares.values()), 1):
            given = ", ".join(f"{name}={share}" for name, share in shares.items())
            raise DatasetError(f"the shares of a split are positive and add up to 1, unlike {given}")
        whole = self.shuffled(seed)
        return {name: whole[part] for name, part in parts(whole.size, shares)}

    def select(
        self, instructions: tuple[int | None, int | None] | None = None, *, unique: bool = False, where: str = ""
    ) -> "DatasetView":
        """Return the benchmarks whose measurements in the index match.

        Args:
            instructions: the least and the greatest number of IR instructions, both included; None for no bound.
            unique: of benchmarks with the same code, take the first of the whole dataset only, also from a view: two
                views that have no benchmark in common then have no code in common either.
            where: an SQL expression over the columns of the index, such as `instructions_oz < 0.5 * instructions`.

        Raises:
            IndexNotFound: when nothing has been measured.
            DatasetError: when the expression is wrong.
        """
        found = DatasetIndex.of(self).positions(instructions, unique, where)
        return DatasetView(self, self._indices_of(found))

    def _indices_of(self, numbers: "array[int]") -> "array[int]":
        """Return the places of benchmarks with these numbers in the whole dataset, in ascending order."""
        return numbers

    @overload
    def __getitem__(self, key: str | BenchmarkUri | int) -> Benchmark: ...

    @overload
    def __getitem__(self, key: slice) -> "DatasetView": ...

    def __getitem__(self, key: "str | BenchmarkUri | int | slice") -> "Benchmark | DatasetView":
        """Return the benchmark of a name or number, or a view of those of a slice.

        An open slice of an unbounded dataset ends at 2**32.

        Raises:
            BenchmarkNotFound, InvalidBenchmarkUri: as `benchmark`.
            IndexError: when there are not so many.
            DatasetError: when a slice counts from the end, and there is none.
        """
        if isinstance(key, slice):
            return self._sliced(key)
        if isinstance(key, str | BenchmarkUri):
            return self.benchmark(key)
        number = operator.index(key)
        place = number + self.size if number < 0 else number
        if place < 0:
            raise IndexError(f"{self.name} has no benchmark number {number}")
        return self.benchmark_from_parsed_uri(self.uri_at(place))

    def _sliced(self, part: slice) -> "DatasetView":
        size = self.size
        if not size and self._is_endless():
            given = [operator.index(place) for place in (part.start, part.stop) if place is not None]
            if min(given, default=0) < 0:
                raise DatasetError(f"{self.root} has no end to count from: use places from 0, such as [1000:2000]")
            size = min(max([UNBOUNDED_DRAW, *given]), sys.maxsize)  # as long as `len` can say
        return DatasetView(self, range(size)[part])

    def __contains__(self, uri: object) -> bool:
        if not isinstance(uri, str | BenchmarkUri):
            return False
        try:
            self.benchmark(uri)
        except (BenchmarkInitError, BenchmarkNotFound, InvalidBenchmarkUri):
            return False
        return True

    def __iter__(self) -> Iterator[Benchmark]:
        return self.benchmarks()

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True  # a dataset of size 0 is unbounded, not empty


class DatasetView(Dataset):
    """Some benchmarks of a dataset in some order, as `dataset[10:20]`, `shuffled`, `split` and `select` return it.

    It has the name and the URIs of the whole dataset, and can be viewed in turn. Its length is fixed when it is made.

    If the whole dataset does not define `uri_at`, another order enumerates its names once and keeps them.

    Args:
        whole: the dataset, or another view.
        indices: which benchmarks of the whole, in order; an array must be ascending.
    """

    def __init__(self, whole: Dataset, indices: Places) -> None:
        details: Any = {name: getattr(whole, name) for name in Details.__annotations__}
        super().__init__(str(whole.root), whole.description, **details)
        self.whole = whole
        self.indices = indices
        in_order = isinstance(indices, range) and indices.step > 0
        names_cost = whole._counts_names if isinstance(whole, DatasetView) else type(whole).uri_at is Dataset.uri_at
        self._keeps_names = names_cost and not in_order
        self._counts_names: bool = names_cost and in_order

    @property
    def size(self) -> int:
        """How many benchmarks there are; 0 means that there are none."""
        return len(self.indices)

    def uri_at(self, index: int) -> BenchmarkUri:
        if not 0 <= index < len(self.indices):
            raise IndexError(f"there is no benchmark number {index} among {self.size} of {self.name}")
        number = self.indices[index]
        return self._names[number] if self._keeps_names else self.whole.uri_at(number)

    @cached_property
    def _names(self) -> tuple[BenchmarkUri, ...]:
        return tuple(self.whole.benchmark_uris())

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
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
        """Return one benchmark of this view; see `Dataset.benchmark`.

        Raises:
            BenchmarkNotFound: when it is not in this view.
        """
        benchmark = self.whole.benchmark(uri)
        self.position(benchmark.uri)
        return benchmark

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of a name: what `uri_at` undoes.

        Raises:
            BenchmarkNotFound: when it is not in this view.
        """
        index = index_of(self.whole.position(uri), self.indices)
        if index is None:
            raise BenchmarkNotFound(str(uri), f"{uri} is not among these {self.size} benchmarks of {self.root}")
        return index

    def number_at(self, index: int) -> int:
        return self.whole.number_at(self.indices[index])

    def _indices_of(self, numbers: "array[int]") -> "array[int]":
        import numpy  # here, because it is long in loading, and few select

        places = self.whole._indices_of(numbers)
        found = array("Q", (index for place in places if (index := index_of(place, self.indices)) is not None))
        numpy.frombuffer(found, dtype=numpy.uint64).sort()
        return found

    def _sliced(self, part: slice) -> "DatasetView":
        if isinstance(self.indices, range):  # a slice of a slice is a slice
            return DatasetView(self.whole, self.indices[part])
        return super()._sliced(part)

    @property
    def dataset(self) -> Dataset:
        """The whole dataset, below all views."""
        return self.whole.dataset if isinstance(self.whole, DatasetView) else self.whole

    @property
    def installed(self) -> bool:
        return self.whole.installed

    def install(self) -> None:
        """Fetch what the whole dataset needs; see `Dataset.install`."""
        self.whole.install()

    def uninstall(self) -> None:
        """Remove what was installed for the whole dataset; see `Dataset.uninstall`."""
        self.whole.uninstall()

    def __repr__(self) -> str:
        return f"<DatasetView of {self.size} benchmarks of {self.root}>"


# ----------------------------------------------------------------------------- Datasets that have a list of their names


class ListedDataset(Dataset):
    """A dataset whose benchmarks are named by the texts of a sequence; define `names`."""

    @property
    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """The names of the programs, in order; the last parts of their URIs."""

    @property
    def size(self) -> int:
        return len(self.names)

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        return (BenchmarkUri(self.scheme, self.name, name) for name in self.names)

    def uri_at(self, index: int) -> BenchmarkUri:
        if index < 0:
            raise IndexError(f"{self.name} has no benchmark number {index}")
        return BenchmarkUri(self.scheme, self.name, self.names[index])

    def position(self, uri: BenchmarkUri) -> int:
        try:
            if uri == BenchmarkUri(self.scheme, self.name, uri.path):
                return self.names.index(uri.path)
        except ValueError:
            pass
        raise BenchmarkNotFound(str(uri), f"{uri} is not one of the names of {self.root}")
