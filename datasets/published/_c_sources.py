"""Published C sources, compiled on demand: AnghaBench, CHStone and Jotai."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from aiocg.datasets._headers import hosted_flags
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import CompilationCancelled
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.process import Cancelled
from aiocg.datasets.published._catalogue import facts
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.source_files import gather_files
from aiocg.datasets.tar import TarDataset, TarDatasetWithManifest, read_file
from aiocg.datasets.uri import BenchmarkUri

TIMEOUT = 300.0  # seconds for one program

QUIET = ("-ferror-limit=1", "-w")
"""No warnings: there are a million programs."""

C_FLAGS = (
    "-std=gnu17",  # later standards have keywords that programs use as names
    *QUIET,
    "-Wno-error=return-mismatch",  # the front end has the others of `LENIENT`
)
"""The flags for C beside those for headers. Later versions of clang must not reject what clang 10 only warned about."""

TREE_FLAGS = ("-std=gnu17", "-fpermissive")
"""The flags for C where another compiler sees its own headers. GCC refuses since version 14 what it only warned of."""


class SourcesDataset(TarDatasetWithManifest):
    """A published archive of sources. CompilerGym published a list of those that compile.

    That list may be gone while the archive is not. Then a dataset can be made without addresses of the list
    (`manifest_urls=()`): it has all sources of the archive, in the order of their names.
    """

    @property
    def size(self) -> int:
        return super().size if self.manifest_urls else len(self.names)

    def _install(self) -> None:
        if self.manifest_urls:
            super()._install()
        else:
            TarDataset._install(self)

    def _read_names(self) -> Sequence[str]:
        return super()._read_names() if self.manifest_urls else TarDataset._read_names(self)


def _c_benchmark(
    uri: BenchmarkUri,
    path: Callable[[], Path],
    *,
    source_name: str = "function.c",
    program: BenchmarkProgram | None = None,
    further: Callable[[], Iterable[Path]] = tuple,
) -> Benchmark:
    """Make a benchmark of a C file that sees the C library's headers, the same on every machine.

    Args:
        path: returns the file, installing it if need be.
        source_name: what the file is called among the benchmark's sources.
        program: how it is built and run, if it can run.
        further: returns the files beside it that it includes.
    """

    def compile_with(more: Sequence[str]) -> bytes:
        return compile_file(path(), (*header_flags(uri, "c"), *C_FLAGS, *more), timeout=TIMEOUT)

    def sources() -> list[BenchmarkSource]:
        main = BenchmarkSource(source_name, read_file(path(), uri))
        return [main, *(BenchmarkSource(other.name, read_file(other, uri)) for other in further())]

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


class AnghaBenchDataset(SourcesDataset):
    """A million C functions, each cut out of a project on GitHub and made to compile by itself.

    Args:
        name: `anghabench-v1`, or `anghabench-v0` for the older list of the same functions.
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, name: str = "anghabench-v1", **changes: Any) -> None:
        super().__init__(f"benchmark://{name}", **{**facts(name), **changes})

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        return _c_benchmark(uri, fetch)


CHSTONE_NAMES = ("adpcm", "aes", "blowfish", "dfadd", "dfdiv", "dfmul", "dfsin", "gsm", "jpeg", "mips", "motion", "sha")
"""The names of the programs."""

_CHSTONE_MAIN = {
    "blowfish": "bf.c",
    "motion": "mpeg2.c",
    "sha": "sha_driver.c",
    "jpeg": "main.c",
}  # the others: <name>.c


class CHStoneDataset(TarDataset):
    """Twelve programs for high-level synthesis, each of several C files of which one includes the others.

    Args:
        changes: arguments of `TarDataset` in place of those of the catalogue.
    """

    def __init__(self, **changes: Any) -> None:
        super().__init__("benchmark://chstone-v0", **{**facts("chstone-v0"), **changes})

    def file_of(self, name: str) -> str:
        """Return where the file with `main` lies."""
        return f"{name}/{_CHSTONE_MAIN.get(name, f'{name}.c')}"

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        def others() -> Iterator[Path]:
            main = fetch()
            return (path for path in sorted(main.parent.glob("*.[ch]")) if path != main)

        return _c_benchmark(uri, fetch, source_name=Path(self.file_of(uri.path)).name, further=others)

    def _read_names(self) -> Sequence[str]:
        return CHSTONE_NAMES


JOTAI_PROGRAM = BenchmarkProgram("c", runs={"0": ProgramRun(("0",), timeout=30.0)})
"""How a program is run: the argument is the number of the data. Each program has several, and this one always."""


class JotaiBenchDataset(SourcesDataset):
    """Functions of AnghaBench, each with a `main` that calls it.

    Args:
        program: how each is built and run, if runnable.
        changes: arguments of `TarDatasetWithManifest` in place of those of the catalogue.
    """

    def __init__(self, name: str = "jotaibench-v0", *, program: BenchmarkProgram | None = None, **changes: Any) -> None:
        known = facts("jotaibench-v0")
        super().__init__(f"benchmark://{name}", **{**known, "validatable": program is not None, **changes})
        self._program = program

    def make_benchmark(self, uri: BenchmarkUri, fetch: Callable[[], Path]) -> Benchmark:
        return _c_benchmark(uri, fetch, program=self._program)


def jotai_runnable() -> JotaiBenchDataset:
    """Make the dataset of the same programs with runs, which validation compares."""
    description = "Runnable C/C++ functions extracted from GitHub"
    return JotaiBenchDataset("jotai-runnable-v0", program=JOTAI_PROGRAM, description=description)
