"""Benchmarks of tensor expressions of one's own."""

import asyncio
from pathlib import Path

import pytest

from aiocg.datasets import BenchmarkInitError, BenchmarkNotFound, DatasetError, Datasets
from aiocg.datasets.loop_nests.dataset import LoopNestsDataset
from aiocg.loops import make_benchmark
from aiocg.programs.corpus import measure

TEXT = "C[i:8, j:8] = sum(k:8) A[i, k] * B[k, j]\n"


def test_a_text_is_a_benchmark() -> None:
    benchmark = make_benchmark(TEXT, name="product")
    assert benchmark.content == TEXT.encode()
    assert (benchmark.uri.dataset, benchmark.uri.path) == ("user-v0", "product")
    assert benchmark == make_benchmark(TEXT, name="product")
    assert benchmark.uri != make_benchmark(f"# mine\n{TEXT}", name="product").uri
    assert make_benchmark(TEXT).uri.path == "expression"


def test_a_file_is_a_benchmark(tmp_path: Path) -> None:
    path = tmp_path / "product.txt"
    path.write_text(TEXT)
    assert make_benchmark(path).content == TEXT.encode()
    assert make_benchmark(path).uri.path == "product"
    assert make_benchmark(path, name="mine").uri.path == "mine"


@pytest.mark.parametrize("text", ["", " \n\t", "C[i:4] = \ud800"])
def test_what_is_no_text_is_refused(text: str) -> None:
    with pytest.raises(BenchmarkInitError, match=r"empty|UTF-8"):
        make_benchmark(text)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BenchmarkNotFound):
        make_benchmark(tmp_path / "none.txt")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    for path in (tmp_path, tmp_path / "binary"):
        with pytest.raises(BenchmarkInitError, match="cannot be read"):
            make_benchmark(path)
    with pytest.raises(TypeError):
        make_benchmark(3)  # type: ignore[arg-type]


def test_datasets_of_expressions_are_not_measured_by_llvm() -> None:
    with pytest.raises(DatasetError, match="no programs that LLVM could load"):
        asyncio.run(measure(LoopNestsDataset()))


def test_where_there_are_only_expressions_no_program_is_drawn() -> None:
    with pytest.raises(DatasetError, match="none is of the kind 'program'; there are tensor expression"):
        Datasets([LoopNestsDataset()]).random_benchmark()
