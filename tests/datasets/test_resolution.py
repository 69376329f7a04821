from pathlib import Path

import pytest

from aiocg.datasets._files import FilesDataset
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.errors import BenchmarkInitError, BenchmarkNotFound, DatasetNotFound, InvalidBenchmarkUri
from aiocg.datasets.registry import default_datasets, resolve
from aiocg.datasets.uri import BenchmarkUri

IR = "define void @f() {\n  ret void\n}\n"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with two files of IR."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x.ll").write_text(IR)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/y.ll").write_text(IR)
    return tmp_path


@pytest.fixture
def datasets() -> Datasets:
    return default_datasets()


@pytest.mark.parametrize("target", ["x.ll", "./x.ll", "~/x.ll", "sub/../x.ll", "file://{here}/x.ll", "{here}/x.ll"])
def test_paths_of_every_form_are_files(here: Path, datasets: Datasets, target: str) -> None:
    assert resolve(target.format(here=here), datasets).uri == BenchmarkUri.from_file(f"{here}/x.ll")
    assert resolve(Path("x.ll"), datasets).uri.path == f"{here}/x.ll"


@pytest.mark.parametrize("target", ["programs-v0/matmul", "benchmark://programs-v0/matmul"])
def test_uris_of_every_form_are_benchmarks(datasets: Datasets, target: str) -> None:
    benchmark = resolve(target, datasets)
    assert str(benchmark.uri) == "benchmark://programs-v0/matmul"
    assert resolve(benchmark.uri, datasets) == benchmark
    assert resolve(benchmark, datasets) is benchmark


def test_flags_are_given_to_files(here: Path, datasets: Datasets) -> None:
    (here / "x.c").write_text("int x;\n")
    benchmark = resolve("x.c", datasets, ["-D", "X", "-I", "sub"])
    assert benchmark.uri.param("flag") == ("-DX", f"-I{here}/sub")
    assert resolve(str(benchmark.uri), datasets) == benchmark
    with pytest.raises(BenchmarkInitError, match="-DX can have no effect"):
        resolve("x.ll", datasets, ["-DX"])


def test_a_missing_file_is_not_taken_for_a_dataset(here: Path, datasets: Datasets) -> None:
    with pytest.raises(BenchmarkNotFound, match="did you mean") as caught:
        resolve("sub/yy.ll", datasets)
    assert caught.value.nearest == ("sub/y.ll",)


def test_a_file_beats_a_dataset_of_the_same_name_and_a_dataset_a_missing_file(here: Path) -> None:
    (here / "elsewhere").mkdir()
    for name in ("y.ll", "z.ll"):
        (here / "elsewhere" / name).write_text(IR)
    datasets = Datasets([FilesDataset("sub", here / "elsewhere")])
    assert resolve("sub/y.ll", datasets).uri.scheme == "file"
    assert str(resolve("sub/z.ll", datasets).uri) == "benchmark://sub/z.ll"
    assert str(resolve("benchmark://sub/y.ll", datasets).uri) == "benchmark://sub/y.ll"


def test_a_known_dataset_is_not_hidden_by_a_directory(here: Path, datasets: Datasets) -> None:
    (here / "programs-v0").mkdir()
    (here / "programs-v0/matmul").write_text("an executable, say")
    assert str(resolve("programs-v0/matmul", datasets).uri) == "benchmark://programs-v0/matmul"


@pytest.mark.parametrize("target", ["sub", "./sub", ".", "..", "/"])
def test_a_directory_is_refused_as_one(here: Path, datasets: Datasets, target: str) -> None:
    with pytest.raises(BenchmarkInitError, match="is a directory"):
        resolve(target, datasets)


def test_an_existing_file_of_another_kind_is_refused_as_one(here: Path, datasets: Datasets) -> None:
    (here / "main.rs").write_text("fn main() {}")
    with pytest.raises(BenchmarkInitError, match=r"unknown suffix '\.rs'"):
        resolve("main.rs", datasets)


def test_a_word_that_is_nothing_is_an_unknown_dataset(here: Path, datasets: Datasets) -> None:
    with pytest.raises(DatasetNotFound):
        resolve("matmul", datasets)


@pytest.mark.parametrize("target", ["", "a\0b.c", "a\0b"])
def test_text_that_can_be_neither_is_refused(datasets: Datasets, target: str) -> None:
    with pytest.raises(InvalidBenchmarkUri, match="neither"):
        resolve(target, datasets)


def test_a_benchmark_of_the_users_own_needs_no_dataset(datasets: Datasets) -> None:
    own = Benchmark.from_file_contents("mine-v0/x", IR.encode())
    assert resolve(own, datasets) is own
