"""The datasets an environment draws its benchmarks from."""

import bisect
import collections
import dataclasses
import difflib
import itertools
import warnings
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeVar

from aiocg.datasets._files import benchmark_from_file_uri
from aiocg.datasets._index_views import RandomGenerator, random_fraction, random_index
from aiocg.datasets._mixture import Mixture
from aiocg.datasets._named_set import PROGRAM
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound, DatasetError, DatasetNotFound
from aiocg.datasets.uri import BenchmarkUri

Key = TypeVar("Key", bound=Dataset | str)
T = TypeVar("T")


class Datasets:
    """Datasets by name.

    Like a dict it has `datasets["programs-v0"]`, `in`, item assignment and `del`; unlike one it iterates over
    the datasets themselves, in the order of `Dataset.sort_order` and name, without the deprecated ones.

    Args:
        datasets: the initial ones.
    """

    def __init__(self, datasets: Iterable[Dataset] = ()) -> None:
        self._datasets = {dataset.name: dataset for dataset in datasets}

    def datasets(
        self, with_deprecated: bool = False, installed_only: bool = False, *, kind: str = ""
    ) -> Iterator[Dataset]:
        """Enumerate the datasets in their order.

        Args:
            with_deprecated: also those that should not be used any more.
            installed_only: leave out those that would have to be fetched before they can be used.
            kind: those of this `Dataset.kind` only, by default of every kind.
        """
        for dataset in sorted(self._datasets.values()):
            wanted = kind in ("", dataset.kind) and (with_deprecated or not dataset.deprecated)
            if wanted and (not installed_only or dataset.installed):
                yield dataset

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all datasets, deprecated ones last."""
        ordered = sorted(self._datasets.items(), key=lambda item: (bool(item[1].deprecated), item[1]))
        return tuple(name for name, _ in ordered)

    @property
    def size(self) -> int:
        """How many programs there are together; 0 when one dataset has no end, or there are none."""
        sizes = [dataset.size for dataset in self.datasets(kind=PROGRAM)]
        return sum(sizes) if all(sizes) else 0

    def benchmarks(
        self, with_deprecated: bool = False, installed_only: bool = True, *, kind: str = PROGRAM
    ) -> Iterator[Benchmark]:
        """Enumerate the benchmarks of all datasets, lazily, one of each dataset in turn.

        Args:
            with_deprecated: also of datasets that should not be used any more.
            installed_only: leave out datasets that would have to be fetched first; otherwise they are.
            kind: of datasets of this `Dataset.kind`.
        """
        chosen = self.datasets(with_deprecated, installed_only, kind=kind)
        return _round_robin(dataset.benchmarks() for dataset in chosen)

    def benchmark_uris(
        self, with_deprecated: bool = False, installed_only: bool = True, *, kind: str = PROGRAM
    ) -> Iterator[BenchmarkUri]:
        """Enumerate the names of all benchmarks, lazily, one of each dataset in turn, as `benchmarks` does."""
        chosen = self.datasets(with_deprecated, installed_only, kind=kind)
        return _round_robin(dataset.benchmark_uris() for dataset in chosen)

    def benchmark(self, uri: str | BenchmarkUri) -> Benchmark:
        """Return one benchmark.

        Args:
            uri: such as `programs-v0/qsort`, `benchmark://programs-v0/qsort` or `file:///home/me/program.c`. A text
                without a scheme has that of its dataset: `csmith-v0/42` is `generator://csmith-v0/42`.

        Raises:
            InvalidBenchmarkUri: when the URI is malformed.
            DatasetNotFound: when there is no such dataset.
            BenchmarkNotFound: when the dataset has no such benchmark.
            BenchmarkInitError: when a file cannot be a benchmark.
        """
        parsed = BenchmarkUri.from_string(uri) if isinstance(uri, str) else uri
        if parsed.scheme == "file":
            return benchmark_from_file_uri(parsed)
        dataset = self[parsed.dataset]
        right = dataclasses.replace(parsed, scheme=dataset.scheme)
        if parsed != right and (isinstance(uri, BenchmarkUri) or "://" in uri):
            raise BenchmarkNotFound(str(parsed), f"{parsed} has the wrong scheme", [str(right)])
        return dataset.benchmark(right)

    def random_benchmark(
        self,
        rng: RandomGenerator | None = None,
        weighted: bool = False,
        weights: Mapping[str, float] | None = None,
        *,
        installed_only: bool = True,
        kind: str = PROGRAM,
    ) -> Benchmark:
        """Draw a dataset, then one of its benchmarks uniformly.

        Args:
            rng: a `numpy.random.Generator` or `random.Random`; by default one seeded by the operating system.
            weighted: draw datasets in proportion to their size (unbounded ones then never come, unless
                `weights` names them) rather than uniformly.
            weights: weights by dataset name, instead of the sizes; giving them implies `weighted`.
            installed_only: leave out datasets that would have to be fetched first, except those that `weights` names.
            kind: draw from datasets of this `Dataset.kind`, and from those that `weights` names.

        Raises:
            DatasetNotFound: when `weights` names a dataset that is not there.
            DatasetError: when there is nothing to draw from.
        """
        given = {self[name].name: weight for name, weight in (weights or {}).items()}
        eligible = {one.name for one in self.datasets(installed_only=installed_only, kind=kind)} | given.keys()
        datasets = [dataset for dataset in self.datasets(with_deprecated=True) if dataset.name in eligible]
        if not datasets:
            reason = "there are none"
            if any(self.datasets(kind=kind)):
                reason = "none is installed: `install` one, or pass installed_only=False"
            elif len(self):
                reason = f"none is of the kind {kind!r}; there are {', '.join(sorted({one.kind for one in self}))}"
            raise DatasetError(f"there is no dataset to draw a benchmark from: {reason}")
        if not weighted and not weights:
            return datasets[random_index(rng, len(datasets))].random_benchmark(rng)
        chances = [float(given[d.name]) if d.name in given else float(d.size) for d in datasets]
        if min(chances) < 0 or not sum(chances):
            raise DatasetError("the weights must not be negative, and one must be positive")
        bounds = list(itertools.accumulate(chances))
        last = max(place for place, chance in enumerate(chances) if chance)  # rounding must lead to no other
        return datasets[bisect.bisect(bounds, random_fraction(rng) * bounds[-1], hi=last)].random_benchmark(rng)

    def mix(self, weights: Mapping[Key, float], seed: int = 0) -> Mixture:
        """Mix datasets into one endless stream of benchmarks that the seed decides.

        Args:
            weights: how often each dataset is picked, by the dataset or its name.
            seed: any whole number.

        Raises:
            DatasetNotFound: when there is no dataset of a name.
            DatasetError: when there is no dataset, one is given twice or empty, or a weight is not a positive number.
        """
        found: dict[Dataset, float] = {}
        for key, weight in weights.items():
            dataset = self[key] if isinstance(key, str) else key
            if dataset in found:
                raise DatasetError(f"{dataset.root} is given twice")
            found[dataset] = weight
        return Mixture(found, seed)

    def __getitem__(self, name: str) -> Dataset:
        """Return a dataset by name.

        Raises:
            DatasetNotFound: when there is none of that name.
        """
        key = name if name in self._datasets else BenchmarkUri.from_string(name).dataset
        dataset = self._datasets.get(key)
        if dataset is None:
            raise DatasetNotFound(key, difflib.get_close_matches(key, self.names, n=3), self.names)
        if dataset.deprecated:
            message = f"the dataset {key} is deprecated: {dataset.deprecated}"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
        return dataset

    def __setitem__(self, name: str, dataset: Dataset) -> None:
        if name != dataset.name:
            raise DatasetError(f"the dataset {dataset.name!r} cannot be entered as {name!r}: its URIs differ")
        self._datasets[name] = dataset

    def __delitem__(self, name: str) -> None:
        if name not in self._datasets:
            raise DatasetNotFound(name, difflib.get_close_matches(name, self.names, n=3), self.names)
        del self._datasets[name]

    def __contains__(self, name: object) -> bool:
        return name in self._datasets

    def __iter__(self) -> Iterator[Dataset]:
        return self.datasets()

    def __len__(self) -> int:
        return len(self._datasets)

    def __repr__(self) -> str:
        return f"<Datasets {', '.join(self.names)}>"


def _round_robin(iterators: Iterable[Iterator[T]]) -> Iterator[T]:
    waiting = collections.deque(iterators)
    while waiting:
        try:
            yield next(waiting[0])
            waiting.rotate(-1)
        except StopIteration:
            waiting.popleft()
