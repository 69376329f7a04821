"""llvm-stress: the system's, where there is one; and what is said where there is none."""

import os
import shutil
from pathlib import Path

import pytest

from aiocg.datasets import BenchmarkInitError, InvalidBenchmarkUri, ToolchainNotFound
from aiocg.datasets.frontend import is_bitcode
from aiocg.datasets.generators.llvm_stress import LlvmStressDataset, find_llvm_stress


@pytest.fixture
def dataset() -> LlvmStressDataset:
    return LlvmStressDataset()


@pytest.fixture
def tool() -> Path:
    """The llvm-stress of this machine."""
    try:
        return find_llvm_stress()
    except ToolchainNotFound as error:
        pytest.skip(str(error))


def test_a_seed_is_a_function_in_bitcode(dataset: LlvmStressDataset, tool: Path, own_cache: Path) -> None:
    benchmark = dataset["1"]
    assert is_bitcode(benchmark.content) and b"autogen_SD1" in benchmark.content
    assert benchmark.description.startswith("llvm-stress --seed=1 (LLVM version ")
    assert (benchmark.program, benchmark.sources, benchmark.is_validatable()) == (None, (), False)
    assert dataset["2"].content != benchmark.content
    shutil.rmtree(own_cache)
    assert LlvmStressDataset()["1"].content == benchmark.content


def test_the_size_can_be_chosen(dataset: LlvmStressDataset, tool: Path) -> None:
    small, large = (len(dataset.benchmark_from_seed(1, size=size).content) for size in (10, 1000))
    assert small < len(dataset["1"].content) < large
    with pytest.raises(InvalidBenchmarkUri, match="whole number from 1"):
        dataset["1?size=0"]


def test_the_newest_release_is_taken_where_none_is_the_default(
    dataset: LlvmStressDataset, tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("llvm-stress-9", "llvm-stress-14", "llvm-stress-old"):
        (tmp_path / name).symlink_to(tool.resolve())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_llvm_stress() == tmp_path / "llvm-stress-14"
    assert is_bitcode(dataset["1"].content)


def test_its_absence_is_reported_when_content_is_wanted_with_the_package_to_install(
    dataset: LlvmStressDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert str(dataset["1"]) == "generator://llvm-stress-v0/1"
    assert dataset["1"].description == "llvm-stress --seed=1 (there is no llvm-stress on PATH)"
    with pytest.raises(ToolchainNotFound, match="Debian and Ubuntu: llvm") as caught:
        _ = dataset["1"].content
    assert caught.value.reason == "there is no llvm-stress on PATH"
    assert not dataset.installed
    with pytest.raises(ToolchainNotFound):
        dataset.install()


def test_an_llvm_stress_without_its_assembler_is_reported(
    dataset: LlvmStressDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "llvm-stress"
    script.write_text("#!/bin/sh\necho LLVM version 22.1.8\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path), "/bin")))
    with pytest.raises(ToolchainNotFound, match="there is no llvm-as beside"):
        _ = dataset["1"].content


@pytest.mark.parametrize("writing", ["true", ": > function.bc"])
def test_tools_that_write_nothing_are_reported_and_nothing_is_kept(
    dataset: LlvmStressDataset, tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch, writing: str
) -> None:
    for name, command in (("llvm-stress", "echo LLVM version 22.1.8"), ("llvm-as", writing)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{command}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join((str(tmp_path), "/bin")))
    with pytest.raises(BenchmarkInitError, match=r"llvm-as \(LLVM version 22.*\) has written nothing to function\.bc"):
        _ = dataset["1"].content
    assert not (own_cache / "generated").exists()
