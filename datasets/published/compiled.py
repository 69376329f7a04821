"""Published sources, and benchmarks of C sources, which are compiled when their content is asked for."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError, CompilationCancelled
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.headers import hosted_flags
from aiocg.datasets.process import Cancelled
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["C_FLAGS", "QUIET", "TIMEOUT", "SourcesDataset", "c_benchmark", "header_flags", "read_source"]

TIMEOUT = 300.0  # seconds for one program

QUIET = ("-ferror-limit=1", "-w")
"""Nobody wants to hear the warnings that a million programs of others give."""

C_FLAGS = (
    "-std=gnu17",  # later standards have keywords that programs use as names
    *QUIET,
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=implicit-int",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-function-pointer-types",
    "-Wno-error=incompatible-pointer-types",
    "-Wno-error=return-mismatch",
)
"""The flags for C beside those for headers. What clang 10 only warned of, no later clang shall refuse."""


TREE_FLAGS = ("-std=gnu17", "-fpermissive")
"""The flags for C where another compiler sees its own headers. GCC refuses since version 14 what it only warned of."""


class SourcesDataset(TarDatasetWithManifest):
    """A published archive of sources. CompilerGym published a list of those that compile.

    That list may be gone while the archive is not. Then a dataset can be made without addresses of the list
    (`manifest_urls=()`): it has all sources of the archive, in the order of their names.
    """

    @property
    def size(self) -> int:
        """How many programs there are."""
        return super().size if self.manifest_urls else len(self.names)

    def _install(self) -> None:
        if self.manifest_urls:
            super()._install()
        else:
            TarDataset._install(self)

    def _read_names(self) -> Sequence[str]:
        return super()._read_names() if self.manifest_urls else TarDataset._read_names(self)


def c_benchmark(
    uri: BenchmarkUri,
    path: Callable[[], Path],
    *,
    source_name: str = "function.c",
    program: BenchmarkProgram | None = None,
    further: Callable[[], Iterable[Path]] = tuple,
) -> Benchmark:
    """Make a benchmark of a C file that sees the C library's headers, the same on every machine.

    Args:
        uri: its name.
        path: returns the file, installing it if need be.
        source_name: what the file is called among the benchmark's sources.
        program: how it is built and run, if it can run.
        further: returns the files beside it that it includes.
    """

    def compile_with(more: Sequence[str]) -> bytes:
        return compile_file(path(), (*header_flags(uri, "c"), *C_FLAGS, *more), timeout=TIMEOUT)

    def sources() -> list[BenchmarkSource]:
        main = BenchmarkSource(source_name, read_source(uri, path()))
        return [main, *(BenchmarkSource(other.name, read_source(uri, other)) for other in further())]

    return Benchmark(
        uri,
        lambda: compile_with(()),
        sources=sources,
        program=program,
        recompile=compile_with,
        source_tree=lambda: gather_files([path()], TREE_FLAGS, "c"),
    )


def header_flags(uri: BenchmarkUri, language: str) -> tuple[str, ...]:
    """Return the flags for the headers of "c" or "c++", which are fetched if need be.

    Raises:
        DownloadError, CacheError: when they cannot be had.
        CompilationCancelled: when the event of `cancellable` was set.
    """
    try:
        return hosted_flags(language)
    except Cancelled:
        raise CompilationCancelled(str(uri), "fetching the headers was cancelled") from None


def read_source(uri: BenchmarkUri, path: Path) -> bytes:
    """Read a source.

    Raises:
        BenchmarkInitError: when that is not possible.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchmarkInitError(str(uri), f"its source {path} cannot be read: {error.strerror}") from error
