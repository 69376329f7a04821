"""The user's own files: a single one by URI, or a directory."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, InvalidBenchmarkUri
from aiocg.datasets.frontend import absolute_flags
from aiocg.datasets.program_file import FLAG, SUFFIXES, ProgramFile, nearest_files, unknown_suffix
from aiocg.datasets.source_flags import is_harmless
from aiocg.datasets.uri import BenchmarkUri


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
        if not is_harmless(value):
            raise InvalidBenchmarkUri(
                str(uri), f"the flag {value!r} is not taken from a URI; give it to Benchmark.from_file", example
            )
    return Benchmark.from_file(uri.path, uri.param(FLAG))


class FilesDataset(ListedDataset):
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
            reason = f"there is no directory {self.directory}"
            raise BenchmarkNotFound(str(directory), reason, nearest_files(self.directory))
        self.suffixes = tuple(suffixes)
        if unknown := [suffix for suffix in self.suffixes if suffix not in SUFFIXES]:
            raise BenchmarkInitError(str(directory), unknown_suffix(unknown[0]))
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
            near = [str(self._uri(os.path.relpath(name, self.directory))) for name in nearest_files(path)]
            reason = f"the dataset {self.name} has no file {uri.path!r} in {self.directory}"
            raise BenchmarkNotFound(str(uri), reason, near)
        if path.suffix not in self.suffixes:
            raise BenchmarkInitError(str(uri), unknown_suffix(path.suffix, self.suffixes))
        file = ProgramFile(path, self.flags)
        file.check(str(uri))
        return Benchmark.from_program_file(uri, file, uri.path)

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of the files, directory by directory."""
        paths = tuple(self._search()) if self._paths is None else self._paths
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
