"""aiocg's datasets behind CompilerGym's interface, and datasets made from folders and archives."""

import bz2
import contextlib
import functools
import gzip
import io
import logging
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiocg.compat._errors import DatasetInitError, translated
from aiocg.compat.datasets._benchmark import Benchmark, BenchmarkUri
from aiocg.compat.datasets._dataset import Dataset
from aiocg.compat.tools._files import atomic_file_write, download
from aiocg.datasets.cache import is_offline, mirror
from aiocg.datasets.dataset import Dataset as NativeSet
from aiocg.datasets.errors import InstallError
from aiocg.datasets.locking import locked
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.uri import BenchmarkUri as NativeUri

if TYPE_CHECKING:
    import numpy as np

TIMEOUT = 3.0  # seconds that a server has to answer

_answers: dict[str, str] = {}


def unreachable(dataset: Any) -> str:
    """Return why a dataset's files cannot be fetched; empty if nothing has to be fetched, or fetching may succeed."""
    urls = tuple(getattr(dataset, "urls", ()))
    if not urls:
        return ""
    if mirror():
        return ""  # it is the user's own, and may be slow
    if is_offline():
        return "AIOCG_OFFLINE is set"
    reasons = [_ask(url) for url in urls]
    return reasons[0] if all(reasons) else ""


def forget() -> None:
    """Forget which servers did not answer, so that they are asked again."""
    _answers.clear()


def _ask(url: str) -> str:
    host = urlsplit(url).netloc
    if host not in _answers:  # no lock, which a forked process could inherit; at worst two threads ask
        _answers[host] = _try(url, host)
    return _answers[host]


def _try(url: str, host: str) -> str:
    import requests

    try:
        with requests.head(url, timeout=TIMEOUT, allow_redirects=True) as response:
            status = response.status_code
    except requests.RequestException as error:
        return f"{host} does not answer ({type(error).__name__})"
    return f"{host} answers {status}" if status >= 400 and status not in (405, 429) else ""


class DatasetUnreachable(DatasetInitError):
    """A dataset is not installed, and its server is unreachable."""

    def __init__(self, native: NativeSet, reason: str) -> None:
        super().__init__(
            f"the dataset {native.root} is not installed and cannot be fetched: {reason}. Run `aiocg dataset install "
            f"{native.name}` when it can, or set AIOCG_DATASET_MIRROR to a place that has a copy of its files"
        )
        self.reason = reason


class NativeDataset(Dataset):
    """One of aiocg's datasets."""

    hidden = False
    kind_of_benchmark = Benchmark

    def __init__(self, native: NativeSet, can_be_validated: str = "") -> None:
        name = str(native.root)
        super().__init__(
            name=name,
            description=native.description,
            license=native.license,
            benchmark_class=self.kind_of_benchmark,
            references=native.references,
            deprecated=_deprecation(native.deprecated),
            sort_order=native.sort_order,
            validatable=can_be_validated or ("Yes" if native.validatable else "No"),
        )
        self.native = native

    @property
    def has_site_data(self) -> bool:
        return True

    @property
    def site_data_path(self) -> Path:
        return self.native.site_data_path

    @property
    def size(self) -> int:
        if getattr(self.native, "_static_size", 0):  # known without reading the names
            return self.native.size
        with self._fetching(names=True):
            return self.native.size

    @property
    def installed(self) -> bool:
        return self.native.installed

    @property
    def can_be_had(self) -> bool:
        """Whether the dataset is installed or can be fetched."""
        return self.native.installed or not (is_offline() or unreachable(self.native))

    def install(self) -> None:
        super().install()
        with self._fetching():
            self.native.install()

    def uninstall(self) -> None:
        with translated(self.name):
            self.native.uninstall()

    def benchmark_uris(self) -> Iterator[str]:
        with self._fetching(names=True):
            yield from map(str, self.native.benchmark_uris())

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if self.deprecated:
            Dataset.install(self)  # warns
        with self._fetching(uri):
            native = self.native.benchmark(NativeUri.from_string(str(uri)))
            benchmark: Benchmark = self.benchmark_class.from_native(native)
            return benchmark

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        with self._fetching():
            chosen = self.native.random_benchmark(random_state)
        return self.benchmark(str(chosen.uri))

    @contextlib.contextmanager
    def _fetching(self, subject: object = None, *, names: bool = False) -> Iterator[None]:
        """Fail immediately if the dataset's server is known to be unreachable, and translate errors."""
        if not self.native.installed and not (names and _has_names(self.native)):
            reason = unreachable(self.native)
            if reason:
                raise DatasetUnreachable(self.native, reason)
        with translated(self.name if subject is None else subject):
            yield

    def __reduce__(self) -> Any:
        return _remade, (type(self), self.native.name, self.hidden)


def _remade(kind: type[NativeDataset], name: str, hidden: bool) -> NativeDataset:
    """Recreate a pickled dataset from its name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        dataset = kind(native=default_datasets()[name])
    dataset.hidden = hidden
    return dataset


def _deprecation(reason: str) -> str | None:
    """Word the reason for a deprecation as CompilerGym does, naming the dataset to use instead."""
    successor = re.match(r"use ([\w-]+)", reason)
    return f"Please use 'benchmark://{successor[1]}'; {reason}" if successor else reason or None


def _has_names(native: NativeSet) -> bool:
    """Return whether the names are known without fetching anything."""
    folder = native.site_data_path
    return native.name == "cbench-v1" or (folder / "names").exists() or not hasattr(native, "urls")


class FilesDataset(Dataset):
    """The files in a folder and its subfolders. A benchmark's path is its file's path without the suffix."""

    def __init__(
        self,
        dataset_root: str | Path | None,
        benchmark_file_suffix: str = "",
        memoize_uris: bool = True,
        **dataset_args: Any,
    ) -> None:
        super().__init__(**dataset_args)
        self.dataset_root: Any = dataset_root
        self.benchmark_file_suffix = benchmark_file_suffix
        self.memoize_uris = memoize_uris
        self._memoized_uris: tuple[str, list[str]] | None = None

    @property
    def size(self) -> int:
        self.install()
        names = (name for _, _, names in os.walk(self.dataset_root) for name in names)
        return sum(name.endswith(self.benchmark_file_suffix) for name in names)

    def benchmark_uris(self) -> Iterator[str]:
        if not self.memoize_uris:
            yield from self._search()
            return
        if self._memoized_uris is None or self._memoized_uris[0] != self.benchmark_file_suffix:
            self._memoized_uris = (self.benchmark_file_suffix, list(self._search()))
        yield from self._memoized_uris[1]

    def _search(self) -> Iterator[str]:
        self.install()
        suffix = self.benchmark_file_suffix
        for folder, folders, names in os.walk(self.dataset_root):
            folders.sort()
            below = os.path.relpath(folder, self.dataset_root)
            for name in sorted(names):
                if name.endswith(suffix):
                    path = os.path.normpath(os.path.join(below, name.removesuffix(suffix) if suffix else name))
                    yield f"{self.name}/{path}"

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        self.install()
        path = Path(os.path.normpath(f"{self.dataset_root}/{uri.path}{self.benchmark_file_suffix}"))
        if not path.is_file() or not path.is_relative_to(os.path.normpath(self.dataset_root)):
            raise LookupError(f"Benchmark not found: {uri} (file not found: {path})")
        benchmark: Benchmark = self.benchmark_class.from_file(uri, path)
        return benchmark

    def _random_benchmark(self, random_state: "np.random.Generator") -> Benchmark:
        return self.benchmark(str(random_state.choice(list(self.benchmark_uris()))))


logger = logging.getLogger("compiler_gym.datasets.tar_dataset")

_OPENERS: dict[str, Any] = {"bz2": bz2.BZ2File, "gz": gzip.GzipFile}


class TarDataset(FilesDataset):
    """A published archive. As with aiocg's own, archives with paths that lead outside are refused."""

    def __init__(
        self,
        tar_urls: list[str],
        tar_sha256: str | None = None,
        tar_compression: str = "bz2",
        strip_prefix: str = "",
        **dataset_args: Any,
    ) -> None:
        super().__init__(dataset_root=None, **dataset_args)
        self.dataset_root = self.site_data_path / "contents" / strip_prefix
        self.tar_urls, self.tar_sha256, self.tar_compression = tar_urls, tar_sha256, tar_compression
        self.strip_prefix = strip_prefix

    @property
    def installed(self) -> bool:
        return (self.site_data_path / ".extracted").is_file()

    def install(self) -> None:
        super().install()
        if self.installed:
            return
        with locked(self.site_data_path / ".install_lock", f"Waiting for another process that installs {self.name}"):
            if not self.installed:
                self._unpack()
        if self.strip_prefix and not self.dataset_root.is_dir():
            raise FileNotFoundError(f"Directory prefix '{self.strip_prefix}' not found in dataset '{self.name}'")

    def _unpack(self) -> None:
        from aiocg.datasets.archive import unpack  # imported here, as few programs need it
        from aiocg.datasets.locking import remove_tree

        logger.warning("Installing the %s dataset. This may take a few moments ...", self.name)
        contents, archive = self.site_data_path / "contents", self.site_data_path / ".archive"
        if contents.exists():  # left by an interrupted installation
            remove_tree(contents)
        archive.write_bytes(download(self.tar_urls, self.tar_sha256))
        try:
            unpack(archive, contents)
        except InstallError as error:
            raise DatasetInitError(f"{self.name} cannot be installed: {error.reason}") from error
        finally:
            archive.unlink(missing_ok=True)
        (self.site_data_path / ".extracted").touch()


class TarDatasetWithManifest(TarDataset):
    """A published archive with a separate list of names, so that listing does not need the archive."""

    def __init__(
        self, manifest_urls: list[str], manifest_sha256: str, manifest_compression: str = "bz2", **dataset_args: Any
    ) -> None:
        super().__init__(**dataset_args)
        self.manifest_urls = manifest_urls
        self.manifest_sha256 = manifest_sha256
        self.manifest_compression = manifest_compression
        self._manifest_path: Path = self.site_data_path / f"manifest-{manifest_sha256}.txt"

    @property
    def size(self) -> int:
        return len(self._uris)

    def benchmark_uris(self) -> Iterator[str]:
        yield from self._uris

    @functools.cached_property
    def _uris(self) -> list[str]:
        if not self._manifest_path.is_file():
            self._fetch_manifest()
        text = self._manifest_path.read_text(encoding="utf-8")
        return [f"{self.name}/{line}" for line in text.rstrip().split("\n")]

    def _fetch_manifest(self) -> None:
        opener = _OPENERS.get(self.manifest_compression)
        if opener is None:
            raise TypeError(f"Unknown manifest compression: {self.manifest_compression}")
        with locked(self.site_data_path / ".manifest_lock", f"Waiting for the names of {self.name}"):
            if self._manifest_path.is_file():
                return
            packed = io.BytesIO(download(self.manifest_urls, self.manifest_sha256))
            with opener(packed) as file, atomic_file_write(self._manifest_path, fileobj=True) as written:
                written.write(file.read())
