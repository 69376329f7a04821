"""Making benchmarks of your own C and C++ sources, from one or several files."""

import dataclasses
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.cache import key_of
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import LANGUAGES, absolute_flags
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.scratch import scratch_folder, write_below
from aiocg.datasets.source_files import gather_files, gather_texts, sort_flags
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.uri import USER, BenchmarkUri
from aiocg.llvm import _benchmarks as llvm

PathLike = str | os.PathLike[str]


def make_benchmark(
    inputs: PathLike | BenchmarkSource | Sequence[PathLike | BenchmarkSource],
    flags: Iterable[str] = (),
    *,
    name: str = "",
    runs: Mapping[str, ProgramRun] | None = None,
    measured: str = "",
) -> Benchmark:
    """Make a benchmark of one or several translation units, which are compiled with the same options and linked.

    Headers are found beside the including files and in the folders of the flags; system headers are the compiler's own.
    The sources are read when the content is needed.

    Args:
        inputs: `.c .cc .cpp .cxx` files, or sources by name and content, among which there may be headers. Each unit
            is in the language of its suffix, and the program is linked by the C++ driver if one is in C++.
        flags: for the compiler: `-I`, `-D`, `-U`, `-std` and such; relative folders in them are relative to the working
            directory. Those for linking, such as `-lm`, are given to the compiler when the program is linked.
        name: what it is called in its URI; by default after the first unit.
        runs: how the program is run, by name; without any, it is compiled only.
        measured: name of the run that is timed, by default the first.

    Raises:
        BenchmarkNotFound: when there is no such file.
        BenchmarkInitError: when an input cannot be a unit, or there is none.
        TypeError: for an input of another type.
    """
    single = isinstance(inputs, (str, os.PathLike, BenchmarkSource))
    paths, texts = _parted([inputs] if single else list(inputs))  # type: ignore[list-item,arg-type]
    words = tuple(flags) if texts else absolute_flags(flags)
    units = [*map(os.fspath, paths), *(name for name in texts if _suffix(name) in LANGUAGES)]
    languages = _languages(units)
    language = max(languages)

    def source_tree() -> SourceTree:
        tree = gather_texts(units, texts, words, language) if texts else gather_files(paths, words, language)
        in_c = tuple([unit for unit, one in zip(tree.units, languages, strict=True) if one != language])
        return dataclasses.replace(tree, units_in_c=in_c)

    driver = "{clang++}" if language == "c++" else "{clang}"
    command = (driver, "-o", "program", "program.o", *sort_flags(words).linking, "-lm")
    program = BenchmarkProgram(language, runs=dict(runs or {}), command=command, measured=measured)
    return Benchmark(
        _uri(paths, texts, words, name or Path(units[0]).stem),
        lambda: _bitcode(source_tree()),
        sources=lambda: [BenchmarkSource(path, content) for path, content in source_tree().files.items()],
        description=f"a program of {', '.join(os.path.basename(unit) for unit in units)}",
        program=program,
        source_tree=source_tree,
        recompile=lambda more: _bitcode(source_tree(), more),
    )


def _parted(inputs: Sequence[PathLike | BenchmarkSource]) -> tuple[list[Path], dict[str, bytes]]:
    """Return inputs as checked files, or as texts by name."""
    paths: list[Path] = []
    texts: dict[str, bytes] = {}
    for one in inputs:
        if isinstance(one, BenchmarkSource):
            texts[os.path.normpath(one.filename)] = one.contents
        elif isinstance(one, (str, os.PathLike)):
            Benchmark.from_file(one)  # refuses what cannot be one
            paths.append(Path(os.path.abspath(os.path.expanduser(one))))
        else:
            raise TypeError(f"an input is a path or a BenchmarkSource, not {type(one).__name__}: {one!r}")
    if paths and texts:
        raise BenchmarkInitError("make_benchmark", "the inputs are either files or texts, not some of each")
    return paths, texts


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1]


def _languages(units: Sequence[str]) -> list[str]:
    """Return the language of each unit, "c" or "c++".

    Raises:
        BenchmarkInitError: when there is no unit, or a file is none.
    """
    if not units:
        raise BenchmarkInitError("make_benchmark", f"there is no unit to compile: no {', '.join(LANGUAGES)} file")
    for unit in units:
        if _suffix(unit) not in LANGUAGES:
            raise BenchmarkInitError(unit, f"is no source: expected one of {', '.join(LANGUAGES)}")
    return [LANGUAGES[_suffix(unit)] for unit in units]


def _uri(paths: Sequence[Path], texts: Mapping[str, bytes], flags: Sequence[str], name: str) -> BenchmarkUri:
    params = [("file", str(path)) for path in paths]
    if texts:
        params.append(("sha256", key_of(*(part for text in texts.items() for part in text))[:16]))
    params += [("flag", flag) for flag in flags]
    return BenchmarkUri("benchmark", USER, name, tuple(params))


def _bitcode(tree: SourceTree, more: Sequence[str] = ()) -> bytes:
    """Compile the units by clang and link them, for environments of LLVM's."""
    with scratch_folder() as folder:
        write_below(folder, tree.files)
        flags = [*tree.flags, *(f"-I{Path(folder, name)}" for name in tree.include), *more]
        return llvm.make_benchmark([Path(folder, unit) for unit in tree.units], flags).content
