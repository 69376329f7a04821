"""Datasets that others have published as one archive, fetched and unpacked when a program of theirs is first used."""

import contextlib
import difflib
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.download import download
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, CompilationCancelled, InstallError
from aiocg.datasets.forks import ForkedLock
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.locking import locked
from aiocg.datasets.manifest import Manifest
from aiocg.datasets.process import Cancelled
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["TarDataset", "TarDatasetWithManifest"]


class TarDataset(Dataset):
    """A published archive as a dataset; a benchmark's path is a file's path in it, without the suffix.

    It installs itself when its names or programs are first needed. What lies where::

        <site data path>/contents/   the unpacked archive, below `strip_prefix`; whole, or not there
        <site data path>/names       the names, one a line

    A subclass that compiles sources on demand overrides one method::

        class MyDataset(TarDataset):
            def make_benchmark(self, uri, fetch):
                return Benchmark(uri, lambda: compile_file(fetch(), FLAGS), ...)

    and, where names and files do not correspond, `file_of` and `list_names`.

    Args:
        name: the dataset's name, such as `blas-v0`.
        description: one line for people.
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
        strip_prefix: the folder in it that holds the programs.
        suffix: the end of the file names of programs; other files are none.
        license: the licence of the programs, as an SPDX expression where there is one.
        references: titles and addresses of where the dataset comes from.
        deprecated: why it should not be used any more; "" when it should.
        validatable: whether its programs can be run and their output checked.
        size: how many programs there are, so that nothing need be fetched to count them; 0 when it is not known.
        sort_order: datasets are listed by this number, then by name.
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
        license: str = "",
        references: Mapping[str, str] | None = None,
        deprecated: str = "",
        validatable: bool = False,
        size: int = 0,
        sort_order: int = 0,
    ) -> None:
        super().__init__(
            name,
            description,
            license=license,
            references=references,
            deprecated=deprecated,
            validatable=validatable,
            sort_order=sort_order,
        )
        self.urls = tuple(urls)
        self.sha256 = sha256
        self.strip_prefix = strip_prefix
        self.suffix = suffix
        self._static_size = size
        self._names: Sequence[str] | None = None
        self._names_lock = ForkedLock()

    # ------------------------------------------------------------------------------------- what subclasses override

    parameters: tuple[str, ...] = ()
    """What the query of a program's URI may say; `make_benchmark` reads it."""

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        """Make a benchmark; by default of bitcode as it is.

        Args:
            uri: its name, which exists.
            fetch: returns the path of its file, after installing the dataset if need be. It costs time, may raise
                DatasetError, and so is called only when content or sources are asked for.
        """
        return Benchmark(
            uri,
            lambda: _read_bitcode(fetch(), uri),
            sources=lambda: [BenchmarkSource(self.file_of(uri.path), _read(fetch(), uri))],
            description=f"{uri.path} of {self.description}",
        )

    def file_of(self, name: str) -> str:
        """Return where the file of a program lies below `contents_path`; by default its name and the suffix."""
        return name + self.suffix

    def list_names(self) -> Iterable[str]:
        """List the names of the programs once the archive is unpacked; by default all files with the suffix."""
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
        """Whether the archive is there, unpacked."""
        return self.contents_path.is_dir()

    def install(self) -> None:
        """Fetch and unpack the archive, unless that has been done. Using a benchmark does it, too.

        Several threads and processes may do so at once: one of them installs, the others wait.

        Raises:
            DownloadError: when it cannot be fetched.
            InstallError: when it is damaged or hostile, or there is no room for it.
            CacheError: when there is no room for the download.
            Cancelled: when the event of `cancellable` was set.
        """
        if self.installed:
            return
        with self._locked():
            if not self.installed:
                self._install()

    def _install(self) -> None:
        from aiocg.datasets.archive import unpack  # here, because most programs install nothing

        archive = download(self.urls, self.sha256, description=f"Downloading {self.name}")
        unpack(archive, self.contents_path, strip_prefix=self.strip_prefix, description=f"Unpacking {self.name}")

    def uninstall(self) -> None:
        """Remove what was installed; the archive stays in the cache of downloads, and compiled programs in theirs.

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
            from aiocg.datasets.archive import remove_tree  # as above

            remove_tree(self._removed_path)

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Be the only one who changes the installation, and remove what a killed process has left."""
        lock = self.site_data_path.with_name(f".{self.name}.lock")
        try:
            with locked(lock, f"Waiting for another process that installs {self.name}"):
                self._remove_leftovers()
                yield
        except OSError as error:
            raise InstallError(
                self.name,
                f"{error.filename or self.site_data_path} cannot be written: {error.strerror or error}; set "
                "AIOCG_SITE_DATA to a directory that can be",
            ) from error

    # ------------------------------------------------------------------------------------------------------ programs

    @property
    def names(self) -> Sequence[str]:
        """The names of the programs, in their order. The first time, they may have to be fetched.

        Raises:
            DatasetError: when they cannot be had.
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
            temporary = listing.with_name(f".new-names-{os.getpid()}-{threading.get_ident()}")
            try:
                temporary.write_text("".join(f"{name}\n" for name in names), "utf-8", "surrogateescape")
                temporary.replace(listing)
            except OSError:  # an installation of somebody else's, or a full disk
                return names
            finally:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        return Manifest.read(listing)

    @property
    def size(self) -> int:
        """How many programs there are."""
        return self._static_size or len(self.names)

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the names."""
        return (BenchmarkUri(self.scheme, self.name, name) for name in self.names)

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the n-th name.

        Raises:
            IndexError: when there are not so many.
        """
        return BenchmarkUri(self.scheme, self.name, self.names[index])

    def position(self, uri: BenchmarkUri) -> int:
        """Return the number of a name.

        Raises:
            BenchmarkNotFound: when it is not one of the names.
        """
        try:
            if uri == BenchmarkUri(self.scheme, self.name, uri.path):
                return self.names.index(uri.path)
        except ValueError:
            pass
        raise BenchmarkNotFound(str(uri), f"{uri} is not one of the names of {self.root}")

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make a benchmark; its program is fetched when its content is asked for.

        Raises:
            BenchmarkNotFound: when there is none of that name.
        """
        names = self.names
        if uri.path not in names:
            near = names.near(uri.path) if isinstance(names, Manifest) else difflib.get_close_matches(uri.path, names)
            raise BenchmarkNotFound(
                str(uri),
                f"the dataset {self.name} has no program {uri.path!r}",
                [str(BenchmarkUri(self.scheme, self.name, name)) for name in near],
            )
        unknown = [f"parameter {key!r}" for key, _ in uri.params if key not in self.parameters]
        unknown += [f"part {uri.fragment!r}"] if uri.fragment else []
        if unknown:
            plain = str(BenchmarkUri(self.scheme, self.name, uri.path))
            raise BenchmarkNotFound(str(uri), f"a program of {self.name} has no {unknown[0]}", [plain])
        return self.make_benchmark(uri, lambda: self._fetch(uri))

    def _fetch(self, uri: BenchmarkUri) -> Path:
        try:
            TarDataset.install(self)  # the archive, not what a subclass installs beside it for running programs
        except Cancelled:
            raise CompilationCancelled(str(uri), f"the installation of {self.name} was cancelled") from None
        path = self.contents_path / self.file_of(uri.path)
        if not path.exists():
            raise BenchmarkInitError(
                str(uri), f"{path} is not there any more; uninstall {self.name}, and it will be installed again"
            )
        return path


class TarDatasetWithManifest(TarDataset):
    """A published archive whose names are published beside it, so that they can be listed without the archive.

    Args:
        name: the dataset's name, such as `github-v0`.
        description: one line for people.
        urls: where the archive is published, best first.
        sha256: its checksum, in hexadecimal.
        manifest_urls: where the list of names is published, best first: a text, one a line, also compressed.
        manifest_sha256: its checksum, in hexadecimal.
        strip_prefix: the folder in the archive that holds the programs.
        suffix: the end of the file names of programs.
        license: the licence of the programs, as an SPDX expression where there is one.
        references: titles and addresses of where the dataset comes from.
        deprecated: why it should not be used any more; "" when it should.
        validatable: whether its programs can be run and their output checked.
        size: how many programs there are, so that nothing need be fetched to count them; 0 when it is not known.
        sort_order: datasets are listed by this number, then by name.
    """

    def __init__(
        self,
        name: str,
        description: str,
        *,
        urls: Sequence[str],
        sha256: str,
        manifest_urls: Sequence[str],
        manifest_sha256: str,
        strip_prefix: str = "",
        suffix: str = ".bc",
        license: str = "",
        references: Mapping[str, str] | None = None,
        deprecated: str = "",
        validatable: bool = False,
        size: int = 0,
        sort_order: int = 0,
    ) -> None:
        super().__init__(
            name,
            description,
            urls=urls,
            sha256=sha256,
            strip_prefix=strip_prefix,
            suffix=suffix,
            license=license,
            references=references,
            deprecated=deprecated,
            validatable=validatable,
            size=size,
            sort_order=sort_order,
        )
        self.manifest_urls = tuple(manifest_urls)
        self.manifest_sha256 = manifest_sha256

    def _install(self) -> None:
        """Keep the list of names beside the contents, too: the cache may be emptied."""
        manifest = self._manifest()
        self.site_data_path.mkdir(parents=True, exist_ok=True)
        temporary = self.site_data_path / ".new-names"
        shutil.copyfile(manifest, temporary)
        temporary.replace(self.site_data_path / "names")
        super()._install()

    def _read_names(self) -> Sequence[str]:
        kept = self.site_data_path / "names"
        return Manifest.read(kept if kept.exists() else self._manifest())

    def _manifest(self) -> Path:
        return download(self.manifest_urls, self.manifest_sha256, description=f"Downloading the names of {self.name}")


def _read(path: Path, uri: BenchmarkUri) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkInitError(str(uri), f"{path} cannot be read: {error.strerror}") from error


def _read_bitcode(path: Path, uri: BenchmarkUri) -> bytes:
    content = _read(path, uri)
    if not is_bitcode(content):
        reason = f"{path} is not LLVM bitcode: it does not begin with the letters BC and C0DE"
        raise BenchmarkInitError(str(uri), reason)
    return content
