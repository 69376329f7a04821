"""Datasets published as an archive, which is fetched and unpacked when one of their programs is first used."""

import contextlib
import difflib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Required, Unpack

from aiocg.datasets._manifest import Manifest
from aiocg.datasets._named_set import Details
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.download import download
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, CompilationCancelled, InstallError
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.locking import ForkedLock, locked, remove_tree, replacing
from aiocg.datasets.process import Cancelled
from aiocg.datasets.uri import BenchmarkUri


class _Archive(Details, total=False):
    """Arguments that describe an archive; see `TarDataset`."""

    urls: Required[Sequence[str]]
    sha256: Required[str]
    strip_prefix: str
    suffix: str
    size: int


class TarDataset(ListedDataset):
    """A dataset in a published archive; a benchmark's path is its file's path in the archive, without the suffix.

    It is installed when its names or programs are first needed, in this layout::

        <site data path>/contents/   the unpacked archive below `strip_prefix`, complete or absent
        <site data path>/names       the names, one per line

    Subclasses that compile sources on demand override one method::

        class MyDataset(TarDataset):
            def make_benchmark(self, uri, fetch):
                return Benchmark(uri, lambda: compile_file(fetch(), FLAGS), ...)

    and, where names and files do not correspond, `file_of` and `list_names`.

    Args:
        name: the dataset's name, such as `blas-v0`.
        description: one line for people.
        urls: addresses of the archive, best first.
        sha256: the archive's checksum, in hexadecimal.
        strip_prefix: the folder in the archive that contains the programs.
        suffix: the suffix of program files; other files are ignored.
        size: the number of programs, so that counting them fetches nothing; 0 if unknown.
        details: as for `Dataset`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        urls: Sequence[str],
        sha256: str,
        strip_prefix: str = "",
        suffix: str = ".bc",
        size: int = 0,
        **details: Unpack[Details],
    ) -> None:
        super().__init__(name, description, **details)
        self.urls = tuple(urls)
        self.sha256 = sha256
        self.strip_prefix = strip_prefix
        self.suffix = suffix
        self._static_size = size
        self._names: Sequence[str] | None = None
        self._names_lock = ForkedLock()

    # ------------------------------------------------------------------------------------- what subclasses override

    parameters: tuple[str, ...] = ()
    """The parameters allowed in the query of a program's URI; `make_benchmark` interprets them."""

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make a benchmark; by default its content is the bitcode in the file.

        Args:
            uri: the benchmark's name, which is known to exist.
            fetch: returns the path of the benchmark's file, installing the dataset first if necessary. This takes time
                and may raise DatasetError, so call it only when the content or the sources are requested.
        """
        return Benchmark(
            uri,
            lambda: _read_bitcode(fetch(), uri),
            sources=lambda: [BenchmarkSource(self.file_of(uri.path), read_file(fetch(), uri))],
            description=f"{uri.path} of {self.description}",
        )

    def file_of(self, name: str) -> str:
        """Return the path of a program's file below `contents_path`; by default the name with the suffix."""
        return name + self.suffix

    def list_names(self) -> Iterable[str]:
        """List the names of the programs in the unpacked archive; by default all files with the suffix."""
        found = []
        for folder, _, names in os.walk(self.contents_path):
            below = os.path.relpath(folder, self.contents_path)
            found += [os.path.normpath(os.path.join(below, name)) for name in names if name.endswith(self.suffix)]
        return sorted(name.removesuffix(self.suffix) for name in found)

    # ------------------------------------------------------------------------------------------------- installation

    @property
    def contents_path(self) -> Path:
        """The folder of the unpacked archive; it need not exist."""
        return self.site_data_path / "contents"

    @property
    def installed(self) -> bool:
        """Whether the archive has been unpacked."""
        return self.contents_path.is_dir()

    def install(self) -> None:
        """Fetch and unpack the archive if that has not been done. Using a benchmark does so, too.

        Several threads and processes may call this at the same time: one installs, the others wait.

        Raises:
            DownloadError: when it cannot be fetched.
            InstallError: when it is damaged or malicious, or there is no space for it.
            CacheError: when there is no space for the download.
            Cancelled: when the event of `cancellable` was set.
        """
        if self.installed:
            return
        with self._locked():
            if not self.installed:
                self._install()

    def _install(self) -> None:
        from aiocg.datasets.archive import unpack  # imported here, as most processes install nothing

        archive = download(self.urls, self.sha256, description=f"Downloading {self.name}")
        unpack(archive, self.contents_path, strip_prefix=self.strip_prefix, description=f"Unpacking {self.name}")

    def uninstall(self) -> None:
        """Remove the installed files; the downloaded archive and compiled programs stay in the cache.

        Raises:
            InstallError: when it cannot be removed.
        """
        if not self.site_data_path.parent.is_dir():
            return
        with self._locked():
            self._names = None
            with contextlib.suppress(FileNotFoundError):
                self.site_data_path.rename(self._removed_path)
            self._remove_leftovers()

    @property
    def _removed_path(self) -> Path:
        return self.site_data_path.with_name(f".old-{self.name}")

    def _remove_leftovers(self) -> None:
        if self._removed_path.exists():
            remove_tree(self._removed_path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Lock the installation, and remove what a killed process left behind."""
        lock = self.site_data_path.with_name(f".{self.name}.lock")
        try:
            with locked(lock, f"Waiting for another process to install {self.name}"):
                self._remove_leftovers()
                yield
        except OSError as error:
            raise InstallError(
                self.name,
                f"{error.filename or self.site_data_path} cannot be written: {error.strerror or error}; set "
                "AIOCG_SITE_DATA to a writable directory",
            ) from error

    # ------------------------------------------------------------------------------------------------------ programs

    @property
    def names(self) -> Sequence[str]:
        """The names of the programs, in order. The first access may fetch them.

        Raises:
            DatasetError: when they are not available.
            Cancelled: when the event of `cancellable` was set.
        """
        names = self._names
        if names is None:
            with self._names_lock:
                names = self._names = self._names or self._read_names()
        return names

    def _read_names(self) -> Sequence[str]:
        self.install()
        listing = self.site_data_path / "names"
        if not listing.exists():
            names = list(self.list_names())
            try:
                with replacing(listing, 0o644) as file:
                    file.write("".join(f"{name}\n" for name in names).encode("utf-8", "surrogateescape"))
            except OSError:  # another user owns the installation, or the disk is full
                return names
        return Manifest.read(listing)

    @property
    def size(self) -> int:
        return self._static_size or len(self.names)

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make a benchmark; its program is fetched when its content is requested.

        Raises:
            BenchmarkNotFound: when there is no program of that name.
        """
        names = self.names
        if uri.path not in names:
            near = names.near(uri.path) if isinstance(names, Manifest) else difflib.get_close_matches(uri.path, names)
            nearest = [str(BenchmarkUri(self.scheme, self.name, name)) for name in near]
            raise BenchmarkNotFound(str(uri), f"the dataset {self.name} has no program {uri.path!r}", nearest)
        unknown = [f"parameter {key!r}" for key, _ in uri.params if key not in self.parameters]
        unknown += [f"part {uri.fragment!r}"] if uri.fragment else []
        if unknown:
            plain = str(BenchmarkUri(self.scheme, self.name, uri.path))
            raise BenchmarkNotFound(str(uri), f"a program of {self.name} has no {unknown[0]}", [plain])
        return self.make_benchmark(uri, lambda: self._fetch(uri))

    def _fetch(self, uri: BenchmarkUri) -> Path:
        try:
            TarDataset.install(self)  # only the archive, not what a subclass installs for running the programs
        except Cancelled:
            raise CompilationCancelled(str(uri), f"the installation of {self.name} was cancelled") from None
        path = self.contents_path / self.file_of(uri.path)
        if not path.exists():
            raise BenchmarkInitError(
                str(uri), f"{path} is missing; uninstall {self.name}, and it will be installed again on next use"
            )
        return path


class TarDatasetWithManifest(TarDataset):
    """A published archive with a separate list of names, which can be listed without fetching the archive.

    The list may be gone while the archive is not. Without addresses of it (`manifest_urls=()`) there are all files of
    the archive, in the order of their names.

    Args:
        name: the dataset's name, such as `github-v0`.
        description: one line for people.
        manifest_urls: addresses of the list of names, best first: text with one name per line, optionally compressed.
        manifest_sha256: the list's checksum, in hexadecimal.
        archive: as for `TarDataset`.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        manifest_urls: Sequence[str],
        manifest_sha256: str,
        **archive: Unpack[_Archive],
    ) -> None:
        super().__init__(name, description, **archive)
        self.manifest_urls = tuple(manifest_urls)
        self.manifest_sha256 = manifest_sha256

    @property
    def size(self) -> int:
        return super().size if self.manifest_urls else len(self.names)

    def _install(self) -> None:
        """Store the list of names with the contents as well, because the cache may be cleared."""
        if self.manifest_urls:
            manifest = self._manifest()
            self.site_data_path.mkdir(parents=True, exist_ok=True)
            with replacing(self.site_data_path / "names", 0o644) as file:
                file.write(manifest.read_bytes())
        super()._install()

    def _read_names(self) -> Sequence[str]:
        if not self.manifest_urls:
            return super()._read_names()
        kept = self.site_data_path / "names"
        return Manifest.read(kept if kept.exists() else self._manifest())

    def _manifest(self) -> Path:
        return download(self.manifest_urls, self.manifest_sha256, description=f"Downloading the names of {self.name}")


def read_file(path: Path, uri: BenchmarkUri) -> bytes:
    """Read a file of a benchmark; raise BenchmarkInitError when that is not possible."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkInitError(str(uri), f"{path} cannot be read: {error.strerror}") from error


def _read_bitcode(path: Path, uri: BenchmarkUri) -> bytes:
    content = read_file(path, uri)
    if not is_bitcode(content):
        reason = f"{path} is not LLVM bitcode: it does not begin with the magic number 'BC' 0xC0DE"
        raise BenchmarkInitError(str(uri), reason)
    return content
