"""`programs-v0`: the C and C++ programs that are shipped with the package."""

import dataclasses
import functools
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.dataset import ListedDataset
from aiocg.datasets.frontend import compile_file
from aiocg.datasets.linking import freestanding_flags
from aiocg.datasets.program_file import FLAG
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.source_files import gather
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import BenchmarkUri

PROGRAMS_DIRECTORY = Path(__file__).with_name("programs")

RUN_SIZES = ("small", "medium", "large")
"""The inputs of each program; the size is its command-line argument."""

LEVELS = frozenset({"-O1", "-O2", "-O3", "-Os", "-Oz"})
"""The values that the parameter `flag` of a URI can have."""

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

    The machine's headers are not used and the target is fixed, so that a program is the same everywhere.
    """
    standard = "-std=c++20" if language == "c++" else "-std=gnu17"
    return (*freestanding_flags(language), standard, "--target=x86_64-unknown-linux-gnu")


def program_tree(language: str, files: Mapping[str, bytes], *, flags: Sequence[str] = ()) -> SourceTree:
    """Return the sources of a program for our own headers, with the headers that it may include.

    Args:
        files: the program's own files by relative path; the first one is its translation unit.
    """

    def read(path: str) -> bytes | None:
        shipped = PROGRAMS_DIRECTORY / path
        return files[path] if path in files else shipped.read_bytes() if shipped.is_file() else None

    include, words = _TREE_INCLUDE[language], (*_TREE_FLAGS[language], *flags)
    return gather([next(iter(files))], read, include=include, flags=words, language=language, freestanding=True)


class ProgramsDataset(ListedDataset):
    """Our own programs, which need no headers or libraries of the machine, and whose output is known."""

    def __init__(self) -> None:
        about = "C and C++ programs with inputs of three sizes and checked outputs, shipped with aiocg"
        super().__init__("programs-v0", about, license="MIT", validatable=True, sort_order=-4)
        self._benchmarks: weakref.WeakValueDictionary[str, Benchmark] = weakref.WeakValueDictionary()

    @property
    def names(self) -> Sequence[str]:
        """The programs by name."""
        return tuple(_sources())

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        """Make the benchmark of one program; the object is shared while it is in use.

        The level that clang's front end compiles for can be given: `programs-v0/fft?flag=-O3`. At the usual -O1 it
        marks loops not to be unrolled.

        Raises:
            BenchmarkNotFound: when there is no such program.
        """
        path, flags = _sources().get(uri.path), uri.param(FLAG)
        if path is None or len(flags) != len(uri.params) or not set(flags) <= LEVELS or uri.fragment:
            raise self._not_found(uri, _sources())
        name = str(uri)
        return self._benchmarks.get(name) or self._benchmarks.setdefault(name, _benchmark(uri, path))


@functools.cache
def _sources() -> dict[str, Path]:
    """Map the names of the programs, in order, to their files."""
    paths = (path for path in PROGRAMS_DIRECTORY.iterdir() if path.suffix in _LANGUAGES)
    return {path.stem: path for path in sorted(paths, key=lambda path: path.stem)}


def _benchmark(uri: BenchmarkUri, path: Path) -> Benchmark:
    language = _LANGUAGES[path.suffix]
    flags = (*program_flags(language), *uri.param(FLAG))
    runs = {size: _run(path, size) for size in RUN_SIZES}
    program = BenchmarkProgram(language, freestanding=True, runs=runs, measured="medium")

    def tree() -> SourceTree:
        found = program_tree(language, {path.name: path.read_bytes()}, flags=uri.param(FLAG))
        return dataclasses.replace(found, origin=str(PROGRAMS_DIRECTORY))

    return Benchmark(
        uri,
        lambda: compile_file(path, flags),
        description=_description(path),
        program=program,
        source_tree=tree,
        sources=lambda: [BenchmarkSource(path.name, path.read_bytes())],
        recompile=lambda more: compile_file(path, (*flags, *more)),
    )


def _run(path: Path, size: str) -> ProgramRun:
    expected = PROGRAMS_DIRECTORY / "expected" / f"{path.stem}.{size}.txt"
    return ProgramRun((size,), expected if expected.exists() else None)


def _description(path: Path) -> str:
    """Read the first line of a source: `// name: what it does`."""
    with open(path, encoding="utf-8") as file:
        comment = file.readline().removeprefix("//").strip()
    return comment.removeprefix(f"{path.stem}:").strip()
