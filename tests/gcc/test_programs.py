"""Benchmarks of C and C++ sources for GCC: of several files, of texts, and those of the datasets."""

import os
import subprocess
from pathlib import Path

import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark, BenchmarkSource
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, ToolchainNotFound
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.generators.csmith import csmith_identity
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.recipe import ProgramRun
from aiocg.gcc import make_benchmark

from .written import ADD, GREET

needs_gcc = pytest.mark.needs("gcc")

MAIN = BenchmarkSource("src/main.c", b'#include "square.h"\nint main(int n, char **w) { return square(n + 1); }\n')
SQUARE = BenchmarkSource("src/square.c", b'#include "square.h"\nint square(int x) { return x * x + EXTRA; }\n')
HEADER = BenchmarkSource("include/square.h", b"int square(int);\n")
FLAGS = ("-Iinclude", "-DEXTRA=0", "-lm")


def compile_with_gcc(benchmark: Benchmark, folder: Path, *more: str) -> str:
    """Compile the units of a benchmark with all warnings as errors, and return what GCC says."""
    tree = benchmark.source_tree
    for name, content in tree.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    own = subprocess.run(["gcc", "-print-file-name=include"], capture_output=True, text=True, check=True).stdout.strip()
    headers = ["-nostdinc", "-isystem", own] if tree.freestanding else []
    command = ["gcc", *tree.flags, *(f"-I{name}" for name in tree.include), *headers, *more]
    command += ["-fsyntax-only", "-x", tree.language, *tree.units]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stderr


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sources as files below the working folder."""
    for source in (MAIN, SQUARE, HEADER):
        (tmp_path / source.filename).parent.mkdir(exist_ok=True)
        (tmp_path / source.filename).write_bytes(source.contents)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_several_files_make_a_benchmark(files: Path) -> None:
    benchmark = make_benchmark(["src/main.c", files / "src/square.c"], FLAGS)
    tree = benchmark.source_tree
    assert tree.units == ("src/main.c", "src/square.c")
    assert (tree.include, tree.flags) == (("include",), ("-DEXTRA=0",))
    assert tree.files == {source.filename: source.contents for source in (MAIN, SQUARE, HEADER)}
    assert benchmark.uri.path == "main" and [value for key, value in benchmark.uri.params if key == "file"] == [
        str(files / "src/main.c"),
        str(files / "src/square.c"),
    ]
    assert benchmark.program is not None and not benchmark.is_validatable()
    assert benchmark.program.command == ("{clang}", "-o", "program", "program.o", "-lm", "-lm")


def test_texts_make_the_same_program_as_files(files: Path) -> None:
    texts = make_benchmark([MAIN, SQUARE, HEADER], FLAGS, name="squares")
    assert texts.source_tree == make_benchmark(["src/main.c", "src/square.c"], FLAGS).source_tree
    assert texts.uri.path == "squares" and texts.uri != make_benchmark([MAIN, SQUARE], FLAGS, name="squares").uri
    assert [(source.filename, source.contents) for source in texts.sources] == [
        (source.filename, source.contents) for source in (HEADER, MAIN, SQUARE)
    ]


def test_texts_may_include_each_other_across_folders() -> None:
    main = BenchmarkSource("src/main.c", b'#include "../include/square.h"\nint main(void) { return 0; }\n')
    assert set(make_benchmark([main, HEADER]).source_tree.files) == {"src/main.c", "include/square.h"}


def test_a_benchmark_of_several_files_is_one_for_llvm_too() -> None:
    content = make_benchmark([MAIN, SQUARE, HEADER], FLAGS).content
    assert is_bitcode(content) and b"square" in content


@pytest.mark.needs("libc")
def test_a_unit_is_in_the_language_that_its_suffix_says() -> None:
    units = [BenchmarkSource("src/greet.cc", GREET), BenchmarkSource("src/add.c", ADD)]
    benchmark = make_benchmark(units, ["-std=c++17"])
    tree = benchmark.source_tree
    assert (tree.language, tree.units_in_c) == ("c++", ("add.c",))
    assert benchmark.program is not None and benchmark.program.command[0] == "{clang++}"
    for single in units:
        assert make_benchmark([single]).source_tree.units_in_c == ()
    content = make_benchmark(units).content
    assert is_bitcode(content)  # LLVM takes it, too


def test_runs_make_it_a_program_that_can_be_validated() -> None:
    benchmark = make_benchmark([MAIN, SQUARE, HEADER], FLAGS, runs={"two": ProgramRun(exit_status=4)})
    assert benchmark.is_validatable() and benchmark.source_form.is_validatable()


def test_inputs_that_make_no_program_are_refused(files: Path) -> None:
    with pytest.raises(BenchmarkInitError, match="no unit"):
        make_benchmark([])
    with pytest.raises(BenchmarkInitError, match="no unit"):
        make_benchmark(HEADER)
    with pytest.raises(BenchmarkInitError, match="either files or texts"):
        make_benchmark([MAIN, "src/square.c"])
    with pytest.raises(BenchmarkNotFound, match="no file"):
        make_benchmark("src/none.c")
    with pytest.raises(TypeError, match="BenchmarkSource"):
        make_benchmark([7])  # type: ignore[list-item]
    (files / "a.ll").write_text("; nothing\n")
    with pytest.raises(BenchmarkInitError, match="is no source"):
        make_benchmark("a.ll")


@needs_gcc
@pytest.mark.parametrize("name", ["qsort", "fft", "polygon"])
def test_a_program_of_ours_needs_no_header_of_the_machine(name: str, tmp_path: Path) -> None:
    messages = compile_with_gcc(ProgramsDataset()[name], tmp_path, "-H", "-Wall", "-Wextra", "-Werror")
    headers = [line.lstrip(". ") for line in messages.splitlines() if line.startswith(".")]
    assert headers and not [path for path in headers if path.startswith("/usr/include")]
    assert "error" not in messages


@pytest.mark.sampled
@needs_gcc
@pytest.mark.slow
@pytest.mark.parametrize("level", ["-O0", "-O2", "-Os", "-O3"])
def test_all_programs_of_ours_compile_without_a_warning(level: str, tmp_path: Path) -> None:
    said = {
        str(benchmark): compile_with_gcc(benchmark, tmp_path, level, "-Wall", "-Wextra", "-Werror")
        for benchmark in ProgramsDataset().benchmarks()
    }
    assert len(said) == 42 and not {name: words for name, words in said.items() if words}


@needs_gcc
@pytest.mark.parametrize("name", ["generator://aiocg-v0/7?size=300", "generator://csmith-v0/3"])
def test_generated_programs_are_sources_too(name: str, tmp_path: Path) -> None:
    if "csmith" in name:
        try:
            csmith_identity()
        except ToolchainNotFound as error:
            pytest.skip(str(error))
        if not default_datasets()["csmith-v0"].installed:
            pytest.skip("there is no Csmith on this machine")
    benchmark = default_datasets().benchmark(name)
    assert benchmark.source_tree.freestanding
    assert compile_with_gcc(benchmark, tmp_path, "-w") == ""
    assert not any(os.path.isabs(path) for path in benchmark.source_tree.files)
