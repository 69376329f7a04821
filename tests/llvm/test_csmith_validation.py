"""Programs that others test compilers with: those of Csmith keep their checksum, and one that is broken is found."""

import dataclasses
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.datasets import Benchmark, DatasetError, DownloadError, ProgramRun
from aiocg.datasets.generators.csmith import CsmithDataset, find_csmith
from aiocg.datasets.generators.llvm_stress import LlvmStressDataset, find_llvm_stress
from aiocg.validation import ErrorKind, ValidationResult

pytestmark = pytest.mark.asyncio(loop_scope="session")

LEVELS = ("default<O1>", "default<O2>", "default<Oz>")
FEW = (1, 2, 7)
ENDLESS = 20  # the first program of Csmith 2.3.0 that does not end, whatever compiles it

POLYNOMIAL = "-306674912"  # of CRC-32, 0xEDB88320, as LLVM writes it


@pytest.fixture
def dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CsmithDataset:
    """The programs of the published Csmith, whichever is installed."""
    if shutil.which("csmith"):
        monkeypatch.setenv("PATH", str(tmp_path))
    try:
        find_csmith()
    except DownloadError as error:
        pytest.skip(f"no package index: {error}")
    return CsmithDataset()


def check_validated(result: ValidationResult) -> None:
    assert (result.errors, result.benchmark_semantics_validated) == ((), True)


async def checksum(env: aiocg.Env) -> str:
    (run,) = await env.observe("Execution")
    assert (run["exit_code"], run["timed_out"]) == (0, False)
    assert re.fullmatch(r"checksum = [0-9A-F]+\n", run["stdout"]["head"])
    return str(run["stdout"]["head"])


@pytest.mark.slow
@pytest.mark.parametrize("seed", FEW)
async def test_no_level_of_optimisation_changes_a_program(
    dataset: CsmithDataset, at: Callable[..., Any], seed: int
) -> None:
    benchmark = dataset.benchmark_from_seed(seed)
    unoptimised = await checksum(await at(benchmark))
    for level in LEVELS:
        env = await at(benchmark, level)
        assert await env.observe("IrInstructionCount") < await env.observe("IrInstructionCountO0")
        assert await checksum(env) == unoptimised
        check_validated(await env.validate(sanitizers=()))


@pytest.mark.slow
async def test_a_program_with_floating_point_is_not_changed_either(
    dataset: CsmithDataset, at: Callable[..., Any]
) -> None:
    env = await at(dataset.benchmark_from_seed(4, float=True), "default<O2>")
    check_validated(await env.validate(sanitizers=()))


@pytest.mark.slow
async def test_no_level_of_optimisation_changes_any_of_many_programs(
    dataset: CsmithDataset, at: Callable[..., Any]
) -> None:
    env = await at(dataset.benchmark_from_seed(0))
    for seed in range(0, ENDLESS, 3):
        await env.reset(benchmark=dataset.benchmark_from_seed(seed))
        await env.step_texts((LEVELS[seed % len(LEVELS)],))
        check_validated(await env.validate(sanitizers=()))


@pytest.mark.slow
async def test_sanitizers_find_nothing_in_a_program(dataset: CsmithDataset, at: Callable[..., Any]) -> None:
    env = await at(dataset.benchmark_from_seed(7), "default<O1>")
    result = await env.validate()
    check_validated(result)
    assert all("does not work on this machine" in reason for reason in result.skipped)


@pytest.mark.slow
async def test_a_changed_constant_is_found_out(dataset: CsmithDataset, at: Callable[..., Any], tmp_path: Path) -> None:
    benchmark = dataset.benchmark_from_seed(1)
    env = await at(benchmark)
    right = await checksum(env)
    text = await env.observe("Ir")
    assert POLYNOMIAL in text
    broken = text.replace(POLYNOMIAL, str(int(POLYNOMIAL) + 1))
    known = tmp_path / "expected.txt"
    known.write_text(right)
    assert benchmark.program is not None
    promised = dataclasses.replace(benchmark.program, runs={"checksum": ProgramRun((), known)})
    for content, okay in ((text, True), (broken, False)):
        variant = Benchmark("benchmark://mine-v0/variant", lambda content=content: content.encode(), program=promised)
        result = await (await at(variant, LEVELS[0])).validate(sanitizers=(), flakiness=1)
        assert result.okay() is okay
        assert [error.kind for error in result.errors] == ([] if okay else [ErrorKind.WRONG_OUTPUT])


@pytest.mark.slow
async def test_a_program_that_does_not_end_is_not_held_against_the_optimisation(
    dataset: CsmithDataset, at: Callable[..., Any]
) -> None:
    benchmark = dataset.benchmark_from_seed(ENDLESS)
    assert benchmark.program is not None
    impatient = dataclasses.replace(benchmark.program, runs={"checksum": ProgramRun(timeout=0.5)})
    env = await at(benchmark.replace(program=impatient), "default<O1>")
    (error,) = (await env.validate(sanitizers=(), flakiness=1)).errors
    assert (error.kind, error.by_itself) == (ErrorKind.EXECUTION_TIMEOUT, True)


@pytest.mark.parametrize("count", [10, pytest.param(100, marks=pytest.mark.slow)])
async def test_functions_of_llvm_stress_are_read_and_optimised(make: Callable[..., Any], count: int) -> None:
    try:
        find_llvm_stress()
    except DatasetError as error:
        pytest.skip(str(error))
    dataset, env = LlvmStressDataset(), await make()
    for seed in range(count):
        await env.reset(benchmark=dataset.benchmark_from_seed(seed))
        before = await env.observe("IrInstructionCount")
        _, _, terminated, _, info = await env.step_texts(("default<Oz>",))
        assert not terminated, info["error_details"]
        assert 0 < await env.observe("IrInstructionCount") < before
