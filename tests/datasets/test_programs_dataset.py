from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkNotFound
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.programs import PROGRAMS_DIRECTORY, RUN_SIZES, ProgramsDataset, program_flags

PROGRAMS = list(ProgramsDataset())


def test_every_source_is_a_benchmark() -> None:
    sources = sorted(path.stem for path in PROGRAMS_DIRECTORY.iterdir() if path.suffix in (".c", ".cc"))
    assert [benchmark.uri.path for benchmark in PROGRAMS] == sources
    assert len(ProgramsDataset()) == len(sources) == len(set(sources))


def test_the_dataset_can_be_validated() -> None:
    dataset = ProgramsDataset()
    assert (dataset.name, dataset.version, dataset.license, dataset.validatable) == ("programs-v0", 0, "MIT", True)


@pytest.mark.parametrize("benchmark", PROGRAMS, ids=str)
def test_every_program_is_described(benchmark: Benchmark) -> None:
    assert len(benchmark.description) > 10
    assert not benchmark.description.startswith(("//", benchmark.uri.path))
    assert benchmark.program is not None
    assert benchmark.program.freestanding
    assert set(benchmark.program.runs) == set(RUN_SIZES)
    assert all(run.arguments == (size,) for size, run in benchmark.program.runs.items())
    (source,) = benchmark.sources
    assert source.contents == (PROGRAMS_DIRECTORY / source.filename).read_bytes()


@pytest.mark.slow
def test_a_program_is_compiled_once_and_kept(logging_clang: Any) -> None:
    assert is_bitcode(ProgramsDataset()["matmul"].content)
    assert is_bitcode(ProgramsDataset()["matmul"].content)
    assert logging_clang.runs == 1
    key = ProgramsDataset()["matmul"].key  # which takes the runtime that it is linked with
    runs = logging_clang.runs
    assert ProgramsDataset()["matmul"].key == key
    assert logging_clang.runs == runs


def test_everybody_gets_the_same_benchmark_while_somebody_holds_it() -> None:
    dataset = ProgramsDataset()
    held = dataset["matmul"]
    assert dataset.benchmark("benchmark://programs-v0/matmul") is held


def test_the_level_of_the_front_end_can_be_given() -> None:
    dataset = ProgramsDataset()
    usual, fast = dataset["matmul"], dataset.benchmark("benchmark://programs-v0/matmul?flag=-O3")
    assert str(fast.uri) == "benchmark://programs-v0/matmul?flag=-O3" and fast.content != usual.content
    assert fast.program == usual.program
    assert b"llvm.loop.unroll.disable" in usual.content and b"llvm.loop.unroll.disable" not in fast.content


@pytest.mark.parametrize(
    "name", ["matmull", "matmul.c", "sub/matmul", "matmul?x=1", "matmul?flag=-O9", "matmul#x", "expected/matmul"]
)
def test_an_unknown_program_is_not_found(name: str) -> None:
    with pytest.raises(BenchmarkNotFound, match="no program"):
        ProgramsDataset().benchmark(name)


@pytest.mark.parametrize("language", ["c", "c++"])
def test_the_machines_own_headers_are_shut_out(language: str) -> None:
    flags = program_flags(language)
    assert "-nostdlibinc" in flags
    assert "--target=x86_64-unknown-linux-gnu" in flags
    folders = [Path(flags[i + 1]) for i, flag in enumerate(flags) if flag == "-isystem"]
    assert folders
    assert all(folder.is_relative_to(PROGRAMS_DIRECTORY) for folder in folders)
