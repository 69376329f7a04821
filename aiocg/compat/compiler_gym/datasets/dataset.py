"""A set of benchmarks, as CompilerGym's users subclass it."""

import os
import re
import shutil
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.datasets.benchmark import Benchmark
from aiocg.compat.compiler_gym.datasets.uri import BenchmarkUri
from aiocg.compat.compiler_gym.errors import DatasetInitError
from aiocg.compat.deprecation import deprecated as mark_deprecated
from aiocg.compat.deprecation import outside

__all__ = ["Dataset", "DatasetInitError", "activate", "deactivate", "delete", "require"]

_VERSION = re.compile(r"[A-Za-z0-9_-]+-v(?P<version>[0-9]+)")


class Dataset:
    """A named set of benchmarks. Subclasses define `benchmark_uris`, `benchmark_from_parsed_uri` and `size`.

    Args:
        name: with its scheme, such as `benchmark://cbench-v1`.
        description: one line for people.
        license: of the programs.
        site_data_base: the folder in which datasets have theirs; without one, asking for it is an error.
        benchmark_class: of the benchmarks.
        references: titles and addresses.
        deprecated: why it should not be used; None when it should.
        sort_order: datasets are listed by this number, then by name.
        validatable: "Yes", "No" or "Partial".
    """

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
        self._name = name
        self._description = description
        self._license = license
        self._scheme = uri.scheme
        self._version = int(version["version"]) if version else 0
        self._references = dict(references or {})
        self._deprecation_message = deprecated
        self._validatable = validatable
        self.sort_order = sort_order
        self.benchmark_class = benchmark_class
        if site_data_base:
            self._site_data_path = Path(site_data_base).resolve() / uri.scheme / uri.dataset

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name, with its scheme."""
        return self._name

    @property
    def description(self) -> str:
        """One line for people."""
        return self._description

    @property
    def license(self) -> str:
        """The licence of the programs."""
        return self._license

    @property
    @mark_deprecated(version="0.2.2", reason="The `protocol` attribute has been renamed `scheme`")
    def protocol(self) -> str:
        """The old name of `scheme`."""
        return self.scheme

    @property
    def scheme(self) -> str:
        """The scheme of its URIs."""
        return self._scheme

    @property
    def version(self) -> int:
        """The number at the end of the name, 0 if there is none."""
        return self._version

    @property
    def references(self) -> dict[str, str]:
        """Titles and addresses of where the dataset comes from."""
        return self._references

    @property
    def deprecated(self) -> bool:
        """Whether it should not be used any more; collections do not list it then."""
        return self._deprecation_message is not None

    @property
    def validatable(self) -> str:
        """Whether its programs can be run and checked: "Yes", "No" or "Partial"."""
        return self._validatable

    @property
    def has_site_data(self) -> bool:
        """Whether it has a folder of its own."""
        return hasattr(self, "_site_data_path")

    @property
    def site_data_path(self) -> Path:
        """Its folder, which need not exist.

        Raises:
            ValueError: when it has none.
        """
        if not self.has_site_data:
            raise ValueError(f"Dataset has no site data path: {self.name}")
        return self._site_data_path

    @property
    def site_data_size_in_bytes(self) -> int:
        """How much is in its folder."""
        if not self.has_site_data:
            return 0
        files = (os.path.join(folder, name) for folder, _, names in os.walk(self.site_data_path) for name in names)
        return sum(os.path.getsize(file) for file in files if os.path.exists(file))

    @property
    def size(self) -> int:
        """How many benchmarks there are; 0 when there is no end of them, or it is not known."""
        return 0

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return True

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        return self.name == (other.name if isinstance(other, Dataset) else other)

    def __lt__(self, other: Any) -> bool:
        return bool(self.name < (other.name if isinstance(other, Dataset) else other))

    def __le__(self, other: Any) -> bool:
        return bool(self < other or self == other)

    @property
    def installed(self) -> bool:
        """Whether nothing need be fetched before its benchmarks can be used."""
        return True

    def install(self) -> None:
        """Fetch what its benchmarks need; using them does it, too. A deprecated dataset warns."""
        if self.deprecated:
            warnings.warn(
                f"Dataset '{self.name}' is marked as deprecated. {self._deprecation_message}",
                category=DeprecationWarning,
                stacklevel=outside(),
            )

    def uninstall(self) -> None:
        """Remove what was fetched. The dataset can still be used."""
        if self.has_site_data and self.site_data_path.is_dir():
            shutil.rmtree(self.site_data_path)

    def benchmarks(self) -> Iterator[Benchmark]:
        """Enumerate the benchmarks, always in the same order; there may be no end of them."""
        return (self.benchmark(uri) for uri in self.benchmark_uris())

    def __iter__(self) -> Iterator[Benchmark]:
        yield from self.benchmarks()

    def benchmark_uris(self) -> Iterable[str]:
        """Enumerate the names of the benchmarks, in the order of `benchmarks`."""
        raise NotImplementedError("abstract class")

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Return a benchmark.

        Args:
            uri: whose scheme and dataset are those of this one.

        Raises:
            LookupError: when there is none of that name.
            ValueError: when it is no name.
        """
        raise NotImplementedError("abstract class")

    def benchmark(self, uri: str) -> Benchmark:
        """Return a benchmark by its URI; raises what `benchmark_from_parsed_uri` does."""
        return self.benchmark_from_parsed_uri(BenchmarkUri.from_string(uri))

    def random_benchmark(self, random_state: "np.random.Generator | None" = None) -> Benchmark:
        """Draw a benchmark uniformly, from the given generator of random numbers or a fresh one."""
        return self._random_benchmark(random_state if random_state is not None else np.random.default_rng())

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        raise NotImplementedError("abstract class")

    def __getitem__(self, uri: str) -> Benchmark:
        return self.benchmark(uri)


@mark_deprecated(version="0.1.4", reason="datasets need not be activated any more")
def activate(env: Any, dataset: "str | Dataset") -> bool:
    """Do nothing, and return False: datasets are always active."""
    return False


@mark_deprecated(version="0.1.4", reason="use `del env.datasets[dataset]`")
def delete(env: Any, dataset: "str | Dataset") -> bool:
    """Remove a dataset from an environment, and return False."""
    del env.datasets[str(dataset)]
    return False


@mark_deprecated(version="0.1.4", reason="use `del env.datasets[dataset]`")
def deactivate(env: Any, dataset: "str | Dataset") -> bool:
    """Remove a dataset from an environment, and return False."""
    del env.datasets[str(dataset)]
    return False


@mark_deprecated(version="0.1.7", reason="datasets are installed when they are used")
def require(env: Any, dataset: "str | Dataset") -> bool:
    """Do nothing, and return False: datasets are installed when they are used."""
    return False
