"""Datasets by name, as CompilerGym had them."""

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark
from aiocg.compat.compiler_gym.datasets.dataset import Dataset
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import DatasetInitError, DownloadFailed
from aiocg.compat.deprecation import outside

__all__ = ["Datasets", "round_robin_iterables"]

T = TypeVar("T")


def round_robin_iterables(iters: Iterable[Iterable[T]]) -> Iterator[T]:
    """Yield one item of each iterable in turn, until all are exhausted."""
    waiting = deque(iter(one) for one in iters)
    while waiting:
        current = waiting.popleft()
        for item in current:
            yield item
            waiting.append(current)
            break


class Datasets:
    """Datasets, by names with or without their scheme. Iterating gives those that are not deprecated.

    Args:
        datasets: what it holds at first.
    """

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self._datasets: dict[str, Dataset] = {dataset.name: dataset for dataset in datasets}

    def datasets(self, with_deprecated: bool = False) -> Iterator[Dataset]:
        """Enumerate the datasets in the order of `Dataset.sort_order` and name, with the deprecated ones if wanted.

        Those of aiocg that CompilerGym did not have, such as `programs-v0`, are not listed, but found by their names.
        """
        listed = (one for one in self._datasets.values() if not getattr(one, "hidden", False))
        ordered = sorted(listed, key=lambda dataset: (dataset.sort_order, dataset.name))
        return (dataset for dataset in ordered if with_deprecated or not dataset.deprecated)

    def __iter__(self) -> Iterator[Dataset]:
        return self.datasets()

    def dataset(self, dataset: str) -> Dataset:
        """Return a dataset by name.

        Raises:
            LookupError: when there is none.
            ValueError: when it is no name.
        """
        return self.dataset_from_parsed_uri(BenchmarkUri.from_string(dataset))

    def dataset_from_parsed_uri(self, uri: BenchmarkUri) -> Dataset:
        """Return the dataset that a URI is of; raises what `dataset` does."""
        key = _key(uri)
        if key not in self._datasets:
            raise LookupError(f"Dataset not found: {key}")
        return self._datasets[key]

    def __getitem__(self, dataset: str) -> Dataset:
        return self.dataset(dataset)

    def __setitem__(self, key: str, dataset: Dataset) -> None:
        self._datasets[_key(BenchmarkUri.from_string(key))] = dataset

    def __delitem__(self, dataset: str) -> None:
        del self._datasets[_key(BenchmarkUri.from_string(dataset))]

    def __contains__(self, dataset: object) -> bool:
        try:
            return _key(BenchmarkUri.from_string(str(dataset))) in self._datasets
        except ValueError:
            return False

    def benchmarks(self, with_deprecated: bool = False) -> Iterator[Benchmark]:
        """Enumerate the benchmarks, one of each dataset in turn; one that cannot be had is left out, and warns."""
        listed = self.datasets(with_deprecated)
        return round_robin_iterables(_available(dataset, lambda one: one.benchmarks()) for dataset in listed)

    def benchmark_uris(self, with_deprecated: bool = False) -> Iterator[str]:
        """Enumerate the names of the benchmarks in the order of `benchmarks`."""
        listed = self.datasets(with_deprecated)
        return round_robin_iterables(_available(dataset, lambda one: one.benchmark_uris()) for dataset in listed)

    def benchmark(self, uri: str) -> Benchmark:
        """Return a benchmark by its URI.

        Raises:
            LookupError: when there is none.
            ValueError: when it is no URI of a benchmark.
            FileNotFoundError: when the scheme is `file` and there is no such file.
            DatasetInitError: when its dataset cannot be fetched.
        """
        return self.benchmark_from_parsed_uri(BenchmarkUri.from_string(uri))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a benchmark by its URI; raises what `benchmark` does."""
        if uri.scheme in ("proto", "file"):
            path = os.path.normpath(f"{uri.dataset}/{uri.path}")
            path = f"/{path.lstrip('/')}" if path.startswith("/") else path
            if not os.path.isfile(path):
                raise FileNotFoundError(path)
            if uri.scheme == "file":
                return Benchmark.from_file(uri=uri, path=path)
            from aiocg.compat.compiler_gym.datasets.native import benchmark_from_message

            return benchmark_from_message(path)
        dataset = self.dataset_from_parsed_uri(uri)
        if type(dataset).benchmark_from_parsed_uri is Dataset.benchmark_from_parsed_uri:
            return dataset.benchmark(str(uri))  # a subclass that overrides the one method only
        return dataset.benchmark_from_parsed_uri(uri)

    def random_benchmark(
        self,
        random_state: "np.random.Generator | None" = None,
        weighted: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> Benchmark:
        """Draw a dataset, of those that can be had, and one of its benchmarks.

        Args:
            random_state: a generator of random numbers.
            weighted: draw datasets by their sizes rather than uniformly; those without an end then never come.
            weights: weights by name of a dataset, in place of the sizes; giving them implies `weighted`.
        """
        rng = random_state if random_state is not None else np.random.default_rng()
        listed = {id(dataset) for dataset in self.datasets()}
        names = [name for name, one in sorted(self._datasets.items()) if id(one) in listed and _can_be_had(one)]
        if not names:
            raise LookupError("there is no dataset that a benchmark could be drawn from")
        if weighted or weights:
            given = weights or {}
            w = np.array([given.get(name, self[name].size) for name in names], dtype=float)
            chosen = rng.choice(names, p=w / w.sum())
        else:
            chosen = rng.choice(names)
        return self[str(chosen)].random_benchmark(random_state=rng)

    @property
    def size(self) -> int:
        """How many datasets there are, without the deprecated ones."""
        return sum(1 for _ in self.datasets())

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True


def _key(uri: BenchmarkUri) -> str:
    if not (uri.scheme and uri.dataset):
        raise ValueError(f"Invalid benchmark URI: '{uri}'")
    return f"{uri.scheme}://{uri.dataset}"


def _can_be_had(dataset: Any) -> bool:
    return bool(getattr(dataset, "can_be_had", True))


def _available(dataset: Dataset, enumerate_it: Callable[[Dataset], Iterable[T]]) -> Iterator[T]:
    try:
        yield from enumerate_it(dataset)
    except (DatasetInitError, DownloadFailed) as error:
        reason = getattr(error, "reason", error)
        warnings.warn(f"{dataset.name} is left out: {reason}", UserWarning, stacklevel=outside())
