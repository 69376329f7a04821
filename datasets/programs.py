"""`programs-v0`: the C and C++ programs that are shipped with the package."""

import difflib
import functools
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkProgram, BenchmarkSource, ProgramRun
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.linking import freestanding_flags
from aiocg.datasets.source_files import gather
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import BenchmarkUri

__all__ = ["PROGRAMS_DIRECTORY", "RUN_SIZES", "ProgramsDataset", "program_flags", "program_tree"]

PROGRAMS_DIRECTORY = Path(__file__).with_name("programs")

RUN_SIZES = ("small", "medium", "large")
"""The inputs of each program; the size is its command-line argument."""

_LANGUAGES = {".c": "c", ".cc": "c++"}

_COMMON = ("-ffp-contract=off", "-fno-stack-protector")
_TREE_FLAGS = {
    "c": ("-std=gnu17", *_COMMON),
    # GCC 9 knows C++20 by this name only
    "c++": ("-std=c++2a", "-nostdinc++", "-fno-exceptions", "-fno-rtti", *_COMMON),
}
_TREE_INCLUDE = {"c": ("include/gcc", "include"), "c++": ("include/gcc", "include/c++", "include")}


def program_flags(language: str) -> tuple[str, ...]:
    """Return the flags beyond `DEFAULT_FLAGS` for a program in "c" or "c++".

    The machine's own headers are shut out and the target is fixed, so that a program is the same everywhere.
    """
    standard = "-std=c++20" if language == "c++" else "-std=gnu17"
    return (*freestanding_flags(language), standard, "--target=x86_64-unknown-linux-gnu")


def program_tree(
    language: str, files: Mapping[str, bytes], *, flags: Sequence[str] = (), include: Sequence[str] = ()
) -> SourceTree:
    """Return the sources of a program that stands on our own headers, with those that it may include.

    Args:
        language: "c" or "c++".
        files: the program's own files by relative path; the first one is its translation unit.
        flags: for the compiler, beside those that all such programs need.
        include: folders among those of `files`, to look for headers in.
    """

    def read(path: str) -> bytes | None:
        shipped = PROGRAMS_DIRECTORY / path
        return files[path] if path in files else shipped.read_bytes() if shipped.is_file() else None

    return gather(
        [next(iter(files))],
        read,
        include=(*include, *_TREE_INCLUDE[language]),
        flags=(*_TREE_FLAGS[language], *flags),
        language=language,
        freestanding=True,
    )


class ProgramsDataset(Dataset):
    """Our own programs: they need no headers and no library of the machine's, and their output is known."""

    def __init__(self) -> None:
        super().__init__(
            "programs-v0",
            "C and C++ programs with inputs of three sizes and checked outputs, shipped with aiocg",
            license="MIT",
            validatable=True,
            sort_order=-4,
        )
        self._benchmarks: weakref.WeakValueDictionary[str, Benchmark] = weakref.WeakValueDictionary()

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        """Enumerate the programs by name."""
        return (BenchmarkUri(self.scheme, self.name, name) for name in _sources())

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of one program; while somebody holds it, everybody gets the same one.

        Raises:
            BenchmarkNotFound: when there is no such program.
        """
        path = _sources().get(uri.path)
        if path is None or uri.params or uri.fragment:
            near = difflib.get_close_matches(uri.path, _sources(), n=3)
            raise BenchmarkNotFound(
                str(uri),
                f"{self.name} has no program {str(uri).partition(self.name + '/')[2]!r}",
                [str(BenchmarkUri(self.scheme, self.name, name)) for name in near],
            )
        return self._benchmarks.get(uri.path) or self._benchmarks.setdefault(uri.path, _benchmark(uri, path))

    @property
    def size(self) -> int:
        """How many programs there are."""
        return len(_sources())


@functools.cache
def _sources() -> dict[str, Path]:
    """Map the names of the programs, in order, to their files."""
    paths = (path for path in PROGRAMS_DIRECTORY.iterdir() if path.suffix in _LANGUAGES)
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


def _benchmark(uri: BenchmarkUri, path: Path) -> Benchmark:
    language = _LANGUAGES[path.suffix]
    flags = program_flags(language)
    runs = {size: _run(path, size) for size in RUN_SIZES}
    return Benchmark(
        uri,
        lambda: compile_file(path, flags),
        sources=lambda: [BenchmarkSource(path.name, path.read_bytes())],
        description=_description(path),
        program=BenchmarkProgram(language, freestanding=True, runs=runs, measured="medium"),
        recompile=lambda more: compile_file(path, (*flags, *more)),
        source_tree=lambda: program_tree(language, {path.name: path.read_bytes()}),
    )


def _run(path: Path, size: str) -> ProgramRun:
    expected = PROGRAMS_DIRECTORY / "expected" / f"{path.stem}.{size}.txt"
    return ProgramRun((size,), expected if expected.exists() else None)


def _description(path: Path) -> str:
    """Read the first line of a source: `// name: what it does`."""
    with open(path, encoding="utf-8") as file:
        comment = file.readline().removeprefix("//").strip()
    return comment.removeprefix(f"{path.stem}:").strip()
