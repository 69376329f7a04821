"""CompilerGym's `Dataset`, which users subclass, and `Datasets`, a collection of them by name."""

import os
import re
import shutil
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from aiocg.compat._deprecation import deprecated as mark_deprecated
from aiocg.compat._deprecation import outside
from aiocg.compat._errors import BenchmarkInitError, DatasetInitError, DownloadFailed
from aiocg.compat.datasets._benchmark import Benchmark, BenchmarkUri, LikeText

_VERSION = re.compile(r"[A-Za-z0-9_-]+-v(?P<version>[0-9]+)")


def _read_only(name: str, doc: str) -> Any:
    return property(lambda self: self.__dict__[f"_{name}"], doc=doc)


class Dataset(LikeText):
    """A named set of benchmarks. Subclasses define `benchmark_uris`, `benchmark_from_parsed_uri` and `size`."""

    name = _read_only("name", "The name, with its scheme, such as `benchmark://cbench-v1`.")
    description = _read_only("description", "One line for people.")
    license = _read_only("license", "The licence of the programs.")
    scheme = _read_only("scheme", "The scheme of its URIs.")
    version = _read_only("version", "The number at the end of the name, 0 if there is none.")
    references = _read_only("references", "Titles and addresses of where the dataset comes from.")
    validatable = _read_only("validatable", 'Can its programs be run and checked: "Yes", "No" or "Partial".')

    def __init__(
        self,
        name: str,
        description: str,
        license: str,
        site_data_base: str | Path | None = None,
        benchmark_class: Any = Benchmark,
        references: Mapping[str, str] | None = None,
        deprecated: str | None = None,
        sort_order: int = 0,
        validatable: str = "No",
    ) -> None:
        uri = BenchmarkUri.from_string(name)
        version = _VERSION.match(uri.dataset)
        number = int(version["version"]) if version else 0
        self.__dict__.update(_name=name, _description=description, _license=license, _scheme=uri.scheme)
        self.__dict__.update(_version=number, _references=dict(references or {}), _validatable=validatable)
        self.sort_order, self.benchmark_class = sort_order, benchmark_class
        self._deprecation_message = deprecated
        if site_data_base:
            self._site_data_path = Path(site_data_base).resolve() / uri.scheme / uri.dataset

    def __repr__(self) -> str:
        return str(self.name)

    @property
    @mark_deprecated(version="0.2.2", reason="The `protocol` attribute has been renamed `scheme`")
    def protocol(self) -> str:
        """The old name of `scheme`."""
        return str(self.scheme)

    @property
    def deprecated(self) -> bool:
        """Whether the dataset is deprecated; collections do not list deprecated datasets."""
        return self._deprecation_message is not None

    @property
    def has_site_data(self) -> bool:
        """Whether the dataset has a folder of its own."""
        return hasattr(self, "_site_data_path")

    @property
    def site_data_path(self) -> Path:
        """The dataset's folder, which need not exist."""
        if not self.has_site_data:
            raise ValueError(f"Dataset has no site data path: {self.name}")
        return self._site_data_path

    @property
    def site_data_size_in_bytes(self) -> int:
        """The total size of the files in its folder."""
        if not self.has_site_data:
            return 0
        files = (os.path.join(folder, name) for folder, _, names in os.walk(self.site_data_path) for name in names)
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    @property
    def size(self) -> int:
        """The number of benchmarks; 0 if it is unbounded or unknown."""
        return 0

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    @property
    def installed(self) -> bool:
        """Whether the benchmarks can be used without fetching anything."""
        return True

    def install(self) -> None:
        """Fetch the files that the benchmarks need, as using a benchmark does. Warns if the dataset is deprecated."""
        if self.deprecated:
            warnings.warn(
                f"Dataset '{self.name}' is marked as deprecated. {self._deprecation_message}",
                category=DeprecationWarning,
                stacklevel=outside(),
            )

    def uninstall(self) -> None:
        """Remove the fetched files. The dataset remains usable."""
        if self.has_site_data and self.site_data_path.is_dir():
            shutil.rmtree(self.site_data_path)

    def benchmarks(self) -> Iterator[Benchmark]:
        """Enumerate the benchmarks, always in the same order; there may be infinitely many."""
        return (self.benchmark(uri) for uri in self.benchmark_uris())

    def __iter__(self) -> Iterator[Benchmark]:
        yield from self.benchmarks()

    def benchmark_uris(self) -> Iterable[str]:
        """Enumerate the names of the benchmarks, in the order of `benchmarks`."""
        raise NotImplementedError("abstract class")

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return the benchmark that a URI names."""
        raise NotImplementedError("abstract class")

    def benchmark(self, uri: str) -> Benchmark:
        """Return a benchmark by its URI; raises the same errors as `benchmark_from_parsed_uri`."""
        return self.benchmark_from_parsed_uri(BenchmarkUri.from_string(uri))

    def random_benchmark(self, random_state: "np.random.Generator | None" = None) -> Benchmark:
        """Draw a benchmark uniformly, with the given random generator or a new one."""
        return self._random_benchmark(random_state if random_state is not None else np.random.default_rng())

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        raise NotImplementedError("abstract class")

    def __getitem__(self, uri: str) -> Benchmark:
        return self.benchmark(uri)


def _legacy(name: str, version: str, reason: str, *, removes: bool) -> Callable[[Any, Any], bool]:
    def function(env: Any, dataset: "str | Dataset") -> bool:
        if removes:
            del env.datasets[str(dataset)]
        return False

    function.__name__ = name
    function.__doc__ = f"Deprecated since {version}: {reason}."
    return mark_deprecated(version=version, reason=reason)(function)


activate = _legacy("activate", "0.1.4", "datasets need not be activated any more", removes=False)
deactivate = _legacy("deactivate", "0.1.4", "use `del env.datasets[dataset]`", removes=True)
delete = _legacy("delete", "0.1.4", "use `del env.datasets[dataset]`", removes=True)
require = _legacy("require", "0.1.7", "datasets are installed when they are used", removes=False)

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
    """Datasets by name, with or without the scheme. Iteration skips deprecated ones."""

    def __init__(self, datasets: Iterable[Dataset]) -> None:
        self._datasets: dict[str, Dataset] = {dataset.name: dataset for dataset in datasets}

    def datasets(self, with_deprecated: bool = False) -> Iterator[Dataset]:
        """Enumerate the datasets in the order of `Dataset.sort_order` and name, optionally with deprecated ones.

        Datasets that only aiocg has, such as `programs-v0`, are not listed but can be looked up by name.
        """
        listed = (one for one in self._datasets.values() if not getattr(one, "hidden", False))
        ordered = sorted(listed, key=lambda dataset: (dataset.sort_order, dataset.name))
        return (dataset for dataset in ordered if with_deprecated or not dataset.deprecated)

    def __iter__(self) -> Iterator[Dataset]:
        return self.datasets()

    def dataset(self, dataset: str) -> Dataset:
        """Return a dataset by name."""
        return self.dataset_from_parsed_uri(BenchmarkUri.from_string(dataset))

    def dataset_from_parsed_uri(self, uri: BenchmarkUri) -> Dataset:
        """Return the dataset of a URI; raises the same errors as `dataset`."""
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
        """Enumerate the benchmarks, one of each dataset in turn; skip unavailable datasets with a warning."""
        return self._each("benchmarks", with_deprecated)

    def benchmark_uris(self, with_deprecated: bool = False) -> Iterator[str]:
        """Enumerate the names of the benchmarks in the order of `benchmarks`."""
        return self._each("benchmark_uris", with_deprecated)

    def _each(self, what: str, with_deprecated: bool) -> Iterator[Any]:
        return round_robin_iterables(_available(dataset, what) for dataset in self.datasets(with_deprecated))

    def benchmark(self, uri: str) -> Benchmark:
        """Return a benchmark by its URI."""
        return self.benchmark_from_parsed_uri(BenchmarkUri.from_string(uri))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a benchmark by its URI; raises the same errors as `benchmark`."""
        if uri.scheme in ("proto", "file"):
            path = os.path.normpath(f"{uri.dataset}/{uri.path}")
            path = f"/{path.lstrip('/')}" if path.startswith("/") else path
            if not os.path.isfile(path):
                raise FileNotFoundError(path)
            if uri.scheme == "proto":
                raise BenchmarkInitError(f"{path} is a message of protocol buffers, which aiocg does not read")
            return Benchmark.from_file(uri=uri, path=path)
        dataset = self.dataset_from_parsed_uri(uri)
        if type(dataset).benchmark_from_parsed_uri is Dataset.benchmark_from_parsed_uri:
            return dataset.benchmark(str(uri))  # a subclass that overrides only `benchmark`
        return dataset.benchmark_from_parsed_uri(uri)

    def random_benchmark(
        self,
        random_state: "np.random.Generator | None" = None,
        weighted: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> Benchmark:
        """Draw one of the available datasets, and then one of its benchmarks."""
        rng = random_state if random_state is not None else np.random.default_rng()
        there = {id(dataset) for dataset in self.datasets() if getattr(dataset, "can_be_had", True)}
        names = [name for name, one in sorted(self._datasets.items()) if id(one) in there]
        if not names:
            raise LookupError("there is no dataset that a benchmark could be drawn from")
        odds = None
        if weighted or weights:
            sizes = np.array([(weights or {}).get(name, self[name].size) for name in names], dtype=float)
            odds = sizes / sizes.sum()
        return self[str(rng.choice(names, p=odds))].random_benchmark(random_state=rng)

    @property
    def size(self) -> int:
        """The number of datasets that are not deprecated."""
        return sum(1 for _ in self.datasets())

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True


def _key(uri: BenchmarkUri) -> str:
    if not (uri.scheme and uri.dataset):
        raise ValueError(f"Invalid benchmark URI: '{uri}'")
    return f"{uri.scheme}://{uri.dataset}"


def _available(dataset: Dataset, what: str) -> Iterator[Any]:
    try:
        yield from getattr(dataset, what)()
    except (DatasetInitError, DownloadFailed) as error:
        reason = getattr(error, "reason", error)
        warnings.warn(f"{dataset.name} is left out: {reason}", UserWarning, stacklevel=outside())
