"""Files of the user's own: one, or a directory of them."""

import difflib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, BenchmarkSource
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.frontend import LANGUAGES, absolute_flags, compile_file, is_bitcode
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["IR_SUFFIXES", "SUFFIXES", "FilesDataset", "benchmark_from_file", "benchmark_from_file_uri"]

IR_SUFFIXES = (".ll", ".bc")
SUFFIXES = (*LANGUAGES, *IR_SUFFIXES)
"""The suffixes of files that can be benchmarks."""

FLAG = "flag"
"""The key under which the URI of a file carries each of its compiler flags."""

# A URI may come from a stranger's results, and some flags of clang write files or load code.
_HARMLESS_FLAG = re.compile(
    r"-[DUI].+|-i(?:quote|system).+|-std=.+|-O[0-3sz]?|-W(?![apl],).*|-w|-m(?!llvm).+|-ffp-.+|-fno-.+"
)


def benchmark_from_file(path: str | os.PathLike[str], flags: Iterable[str] = ()) -> Benchmark:
    """Make a benchmark of one file.

    C and C++ are compiled on first use of the content; `.ll` and `.bc` are taken as they are.

    Args:
        path: the file; `~` is expanded.
        flags: for clang; relative paths in them are relative to the working directory.

    Raises:
        BenchmarkNotFound: when there is no such file.
        BenchmarkInitError: when it is a directory, cannot be read, is empty, or has an unknown suffix.
    """
    given = Path(os.path.expanduser(path))
    fixed = absolute_flags(flags)
    _check(given, os.fspath(path))
    if fixed and given.suffix in IR_SUFFIXES:
        raise BenchmarkInitError(os.fspath(path), f"is taken as it is: {' '.join(fixed)} can have no effect")
    absolute = Path(os.path.realpath(given.parent), given.name)
    uri = BenchmarkUri.from_file(str(absolute), ((FLAG, flag) for flag in fixed))
    return _benchmark(uri, absolute, fixed, absolute.name, f"the file {absolute}")


def benchmark_from_file_uri(uri: BenchmarkUri) -> Benchmark:
    """Make a benchmark of a `file:///…` URI.

    Raises:
        InvalidBenchmarkUri: when it carries parameters other than flags that only affect the program, or a fragment.
        BenchmarkNotFound: when there is no such file.
        BenchmarkInitError: when it is a directory, cannot be read, is empty, or has an unknown suffix.
    """
    example = "file:///home/me/program.c?flag=-DN%3D10"
    if uri.fragment:
        raise InvalidBenchmarkUri(str(uri), f"a file has no part {uri.fragment!r} that could be taken from it", example)
    for key, value in uri.params:
        if key != FLAG:
            raise InvalidBenchmarkUri(str(uri), f"a file has no parameter {key!r}, only {FLAG!r}", example)
        if not _HARMLESS_FLAG.fullmatch(value):
            raise InvalidBenchmarkUri(
                str(uri),
                f"the flag {value!r} is not taken from a URI; give it to Benchmark.from_file",
                example,
            )
    return benchmark_from_file(uri.path, uri.param(FLAG))


class FilesDataset(Dataset):
    """The files below a directory as a dataset; a benchmark's path is the file's path within the directory.

    Args:
        name: the dataset's name, such as `mine-v0`.
        directory: where the files are; it is searched whenever the dataset is enumerated.
        suffixes: which files count.
        description: one line for people.
        flags: for clang; relative paths in them are relative to the working directory.
        memoize_uris: search once, when the size is first asked for or a benchmark is drawn, and remember the
            result.
        license: the licence of the programs.

    Raises:
        BenchmarkNotFound: when there is no such directory.
    """

    def __init__(
        self,
        name: str,
        directory: str | os.PathLike[str],
        suffixes: Iterable[str] = SUFFIXES,
        *,
        description: str = "",
        flags: Iterable[str] = (),
        memoize_uris: bool = True,
        license: str = "",
        sort_order: int = 0,
    ) -> None:
        super().__init__(name, description or f"files below {directory}", license=license, sort_order=sort_order)
        self.directory = Path(os.path.realpath(os.path.expanduser(directory)))
        if not self.directory.is_dir():
            raise BenchmarkNotFound(
                str(directory), f"there is no directory {self.directory}", _nearest_files(self.directory)
            )
        self.suffixes = tuple(suffixes)
        if unknown := [suffix for suffix in self.suffixes if suffix not in SUFFIXES]:
            raise BenchmarkInitError(str(directory), _unknown_suffix(unknown[0]))
        self.flags = absolute_flags(flags)
        self._memoize = memoize_uris
        self._paths: tuple[str, ...] | None = None

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the files directory by directory, in the order of their names."""
        return (self._uri(path) for path in (self._search() if self._paths is None else self._paths))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of one file.

        Raises:
            BenchmarkNotFound: when there is no such file.
            BenchmarkInitError: when it cannot be read, is empty, or has a suffix that is not of this dataset.
        """
        path = self.directory / uri.path
        if not path.exists():
            near = _nearest_files(path)
            raise BenchmarkNotFound(
                str(uri),
                f"the dataset {self.name} has no file {uri.path!r} in {self.directory}",
                [str(self._uri(os.path.relpath(name, self.directory))) for name in near],
            )
        if path.suffix not in self.suffixes:
            raise BenchmarkInitError(str(uri), _unknown_suffix(path.suffix, self.suffixes))
        _check(path, str(uri))
        return _benchmark(uri, path, self.flags, uri.path, f"the file {path}")

    @property
    def size(self) -> int:
        """How many files there are."""
        return len(self._listing())

    def uri_at(self, index: int) -> BenchmarkUri:
        """Return the n-th file's name.

        Raises:
            IndexError: when there are not so many.
        """
        return self._uri(self._listing()[index])

    def _listing(self) -> tuple[str, ...]:
        paths = self._paths
        if paths is None:
            paths = tuple(self._search())
            if self._memoize:
                self._paths = paths
        return paths

    def _search(self) -> Iterator[str]:
        for folder, subfolders, names in os.walk(self.directory):
            subfolders.sort()
            for name in sorted(names):
                if os.path.splitext(name)[1] in self.suffixes:
                    path = os.path.join(folder, name)
                    if os.path.isfile(path):
                        yield os.path.relpath(path, self.directory)

    def _uri(self, path: str) -> BenchmarkUri:
        return BenchmarkUri(self.scheme, self.name, path)


def _benchmark(uri: BenchmarkUri, path: Path, flags: tuple[str, ...], filename: str, description: str) -> Benchmark:
    def sources() -> list[BenchmarkSource]:
        return [BenchmarkSource(filename, _read(path))]

    if path.suffix in LANGUAGES:
        return Benchmark(
            uri,
            lambda: compile_file(path, flags),
            sources=sources,
            description=description,
            program=BenchmarkProgram(LANGUAGES[path.suffix]),
            recompile=lambda more: compile_file(path, (*flags, *more)),
            source_tree=lambda: gather_files([path], flags, LANGUAGES[path.suffix]),
        )
    return Benchmark(uri, lambda: _read_ir(path), sources=sources, description=description)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise BenchmarkNotFound(str(path), f"there is no file {path} any more", _nearest_files(path)) from None
    except OSError as error:
        raise BenchmarkInitError(str(path), f"cannot be read: {error.strerror}") from error


def _read_ir(path: Path) -> bytes:
    content = _read(path)
    if path.suffix == ".bc" and not is_bitcode(content):
        raise BenchmarkInitError(str(path), "is not LLVM bitcode: it does not begin with the letters BC and C0DE")
    return content


def _check(path: Path, name: str) -> None:
    """Refuse a file that cannot be a benchmark, in the order in which a user would want to know."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise BenchmarkNotFound(name, f"there is no file {name!r}", _nearest_files(path)) from None
    except OSError as error:
        raise BenchmarkInitError(name, f"cannot be reached: {error.strerror}") from error
    except ValueError as error:
        raise BenchmarkInitError(name, f"is no file name: {error}") from error
    if stat.S_ISDIR(status.st_mode):
        raise BenchmarkInitError(name, "is a directory; to use all its files, make a FilesDataset of it")
    if path.suffix not in SUFFIXES:
        raise BenchmarkInitError(name, _unknown_suffix(path.suffix))
    if not stat.S_ISREG(status.st_mode):
        raise BenchmarkInitError(name, "is not a regular file")
    try:
        with open(path, "rb") as file:
            beginning = file.read(1)
    except OSError as error:
        raise BenchmarkInitError(name, f"cannot be read: {error.strerror}") from error
    if not beginning:
        raise BenchmarkInitError(name, "is empty")


def _unknown_suffix(suffix: str, accepted: tuple[str, ...] = SUFFIXES) -> str:
    return f"unknown suffix {suffix!r}, expected one of {', '.join(accepted)}"


def _nearest_files(path: Path) -> list[str]:
    """Find files with names like the missing one, in its directory."""
    try:
        names = sorted(name for name in os.listdir(path.parent) if name.endswith(SUFFIXES) or not path.suffix)
    except OSError:
        return []
    return [str(path.parent / name) for name in difflib.get_close_matches(path.name, names, n=3)]
