"""A named set of benchmarks, enumerated lazily."""

import abc
import itertools
import operator
import random
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, overload

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, DatasetError, InvalidBenchmarkUri
from aiocg.datasets.site import site_data_directory
from aiocg.datasets.uri import BenchmarkUri

if TYPE_CHECKING:
    from aiocg.datasets.views import DatasetView

__all__ = ["PROGRAM", "Dataset", "NumpyGenerator", "RandomGenerator", "random_fraction", "random_index"]

PROGRAM = "program"
"""The kind of datasets whose benchmarks are programs, for LLVM and GCC."""

UNBOUNDED_DRAW = 2**32  # an unbounded dataset draws its index below this

_VERSION = re.compile(r"-v(\d+)$", re.ASCII)


class NumpyGenerator(Protocol):
    """What is used of `numpy.random.Generator`."""

    def integers(self, low: Any, /) -> Any:
        """Draw an integer from 0 up to, not including, `low`."""

    def random(self) -> Any:
        """Draw a float from [0, 1)."""


RandomGenerator = random.Random | NumpyGenerator


def random_index(rng: RandomGenerator | None, size: int) -> int:
    """Draw an index below `size`; with no generator, one seeded by the operating system."""
    if rng is None:
        return random.randrange(size)
    return rng.randrange(size) if isinstance(rng, random.Random) else int(rng.integers(size))


def random_fraction(rng: RandomGenerator | None) -> float:
    """Draw a float from [0, 1)."""
    return random.random() if rng is None else float(rng.random())


def _size_of(path: Path) -> int:
    try:
        status = path.lstat()
    except FileNotFoundError:  # it is being removed
        return 0
    return 0 if stat.S_ISDIR(status.st_mode) else status.st_size


class Dataset(abc.ABC):
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
        kind: what its benchmarks are, which decides for which compilers they are: a `program`, or something else.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        license: str = "",
        references: Mapping[str, str] | None = None,
        deprecated: str = "",
        validatable: bool = False,
        sort_order: int = 0,
        kind: str = PROGRAM,
    ) -> None:
        uri = BenchmarkUri.from_string(name)
        if uri != BenchmarkUri(uri.scheme, uri.dataset) or not uri.dataset:
            raise InvalidBenchmarkUri(name, "a dataset's name is one word", "programs-v0")
        version = _VERSION.search(uri.dataset)
        self.name = uri.dataset
        self.scheme = uri.scheme
        self.version = int(version[1]) if version else 0
        self.description = description
        self.license = license
        self.references = dict(references or {})
        self.deprecated = deprecated
        self.validatable = validatable
        self.sort_order = sort_order
        self.kind = kind

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
    def root(self) -> BenchmarkUri:
        """The URI of the dataset itself."""
        return BenchmarkUri(self.scheme, self.name)

    @property
    def site_data_path(self) -> Path:
        """The directory in which the dataset installs what it needs; it need not exist."""
        return site_data_directory() / "datasets" / self.scheme / self.name

    @property
    def site_data_size_in_bytes(self) -> int:
        """How much disk space the installed files take; 0 when there are none."""
        return sum(map(_size_of, self.site_data_path.rglob("*")))

    @property
    def installed(self) -> bool:
        """Whether the benchmarks can be had without fetching anything. A dataset that needs nothing always is."""
        return True

    def install(self) -> None:
        """Fetch what the benchmarks need, unless that has been done. Using a benchmark does it, too.

        Raises:
            DownloadError: when something cannot be fetched.
            InstallError: when what was fetched is damaged, or there is no room for it.
        """

    def uninstall(self) -> None:
        """Remove what was installed. What was compiled stays in the cache, and what was measured in the index.

        Raises:
            InstallError: when it cannot be removed.
        """

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the n-th name.

        Raises:
            IndexError: when there are not so many.
        """
        if 0 <= index <= sys.maxsize:
            for uri in itertools.islice(self.benchmark_uris(), index, None):
                return uri
        raise IndexError(f"{self.name} has no benchmark number {index}")

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

    def _first_names(self) -> list[str]:
        return [str(uri) for uri in itertools.islice(self.benchmark_uris(), 2)]

    def shuffled(self, seed: int) -> "DatasetView":
        """Return the same benchmarks in an order that the seed decides, without enumerating them.

        Raises:
            DatasetError: when the dataset has no end; take a slice of it first.
        """
        from aiocg.datasets.views import shuffled  # it imports this module

        return shuffled(self, seed)

    def split(self, seed: int = 0, **shares: float) -> "dict[str, DatasetView]":
        """Split the benchmarks at random into disjoint sets, without enumerating them.

        Args:
            seed: decides which benchmark goes where.
            shares: the part of the whole for each set by name; they add up to 1. By default
                `train=0.8, validation=0.1, test=0.1`.

        Raises:
            DatasetError: when the shares do not add up to 1, or the dataset has no end.
        """
        from aiocg.datasets.views import split  # it imports this module

        return split(self, seed, shares)

    def select(
        self,
        instructions: tuple[int | None, int | None] | None = None,
        *,
        unique: bool = False,
        where: str = "",
    ) -> "DatasetView":
        """Return the benchmarks whose measurements in the index are so.

        Args:
            instructions: the least and the greatest number of IR instructions, both included; None for no bound.
            unique: of benchmarks with the same code, take the first only.
            where: an SQL expression over the columns of the index, such as `instructions_oz < 0.5 * instructions`.

        Raises:
            IndexNotFound: when nothing has been measured.
            DatasetError: when the expression is wrong.
        """
        from aiocg.datasets.views import select  # it imports this module

        return select(self, instructions, unique=unique, where=where)

    @overload
    def __getitem__(self, key: str | BenchmarkUri | int) -> Benchmark: ...

    @overload
    def __getitem__(self, key: slice) -> "DatasetView": ...

    def __getitem__(self, key: "str | BenchmarkUri | int | slice") -> "Benchmark | DatasetView":
        """Return the benchmark of a name or number, or a view of those of a slice.

        Raises:
            BenchmarkNotFound, InvalidBenchmarkUri: as `benchmark`.
            IndexError: when there are not so many.
        """
        if isinstance(key, slice):
            from aiocg.datasets.views import sliced  # it imports this module

            return sliced(self, key)
        if isinstance(key, str | BenchmarkUri):
            return self.benchmark(key)
        number = operator.index(key)
        place = number + self.size if number < 0 else number
        if place < 0:
            raise IndexError(f"{self.name} has no benchmark number {number}")
        return self.benchmark_from_parsed_uri(self.uri_at(place))

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

    def __lt__(self, other: "Dataset") -> bool:
        return (self.sort_order, self.name) < (other.sort_order, other.name)

    def __repr__(self) -> str:
        return f"<Dataset {self.root}>"
