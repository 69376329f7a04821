"""Programs of `aiocg-v0`, compiled and run: of the size asked for, the same at every level, never undefined."""

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aiocg
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.generators.random_c import MAX_SIZE, MIN_SIZE, RandomProgramsDataset
from aiocg.datasets.linking import freestanding_flags, link
from aiocg.datasets.toolchain import find_toolchain
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module

from .test_programs import optimized

DATASET = RandomProgramsDataset()

PIPELINES = (
    "default<O1>",
    "default<O2>",
    "default<O3>",
    "default<Os>",
    "default<Oz>",
    "function(sroa,early-cse,jump-threading,loop-vectorize,slp-vectorizer,instcombine<no-verify-fixpoint>,dse,adce),globalopt",
    "cgscc(inline),function(sroa,tailcallelim,reassociate,nary-reassociate,newgvn,loop-idiom,sink),mergefunc",
)
SIZES = (50, 120, 300, 1000, 3000)

TRAPS = ("-fsanitize=undefined,float-cast-overflow,float-divide-by-zero", "-fsanitize-trap=all")
"""UndefinedBehaviorSanitizer without a runtime: what is undefined ends the program with a signal."""


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.find()


def printed(bitcode: bytes, executable: Path, *, level: str = "-O0", argument: str = "1") -> bytes:
    """Build and run a program."""
    link(bitcode, executable, find_toolchain(), optimization=level)
    execution = subprocess.run([executable, argument], capture_output=True, timeout=20)
    assert (execution.returncode, execution.stderr) == (0, b"")
    assert re.fullmatch(rb"[0-9a-f]{16}\n", execution.stdout)
    return execution.stdout


def instruction_count(library: Library, bitcode: bytes) -> int:
    with Module.parse(library, bitcode) as module:
        return len(re.findall(r"^  [^ \]]", module.to_text(), re.MULTILINE))


def trapping(benchmark: Benchmark) -> bytes:
    recompiled = benchmark.recompiled(TRAPS)
    assert recompiled is not None
    return recompiled.content


def outputs(seed: int, size: int, library: Library, executable: Path) -> set[bytes]:
    """Return what a program prints as it is, under one of the pipelines, and with traps for what is undefined."""
    benchmark = DATASET.benchmark_from_seed(seed, size=size)
    pipeline = PIPELINES[seed % len(PIPELINES)]
    return {
        printed(benchmark.content, executable),
        printed(optimized(library, benchmark.content, pipeline), executable, level="-O2"),
        printed(trapping(benchmark), executable),
    }


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize(("seed", "size"), [*enumerate(SIZES), pytest.param(1, MAX_SIZE, marks=pytest.mark.slow)])
def test_a_program_does_the_same_however_it_is_optimised(
    seed: int, size: int, library: Library, tmp_path: Path
) -> None:
    assert len(outputs(seed, size, library, tmp_path / "program")) == 1


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("block", range(8))
def test_hundreds_of_programs_do_the_same_however_they_are_optimised(
    block: int, library: Library, tmp_path: Path
) -> None:
    for seed in range(1000 + 25 * block, 1025 + 25 * block):
        assert len(outputs(seed, SIZES[seed % len(SIZES)], library, tmp_path / "program")) == 1, seed


def test_traps_end_a_program_that_is_undefined(tmp_path: Path) -> None:
    source = "int main(int argc, char **argv) { return 2147483647 + argc > 0; }"
    broken = tmp_path / "broken.c"
    broken.write_text(source)
    benchmark = Benchmark.from_file(broken, freestanding_flags("c")).recompiled(TRAPS)
    assert benchmark is not None
    link(benchmark.content, tmp_path / "program", find_toolchain(), optimization="-O0")
    assert subprocess.run([tmp_path / "program"]).returncode < 0


def with_gcc(benchmark: Benchmark, level: str, executable: Path) -> bytes:
    (source,) = benchmark.sources
    command = ["gcc", "-w", "-ffp-contract=off", level, "-x", "c", "-", "-o", str(executable), "-lm"]
    subprocess.run(command, input=source.contents, check=True, timeout=120)
    return subprocess.run([executable, "1"], capture_output=True, timeout=20).stdout


@pytest.mark.slow
@pytest.mark.needs("gcc")
@pytest.mark.parametrize("count", [2, pytest.param(8, marks=pytest.mark.slow)])
def test_gcc_makes_the_same_of_a_program(count: int, tmp_path: Path) -> None:
    for seed in range(2000, 2000 + count):
        benchmark = DATASET.benchmark_from_seed(seed, size=SIZES[seed % len(SIZES)])
        wanted = printed(benchmark.content, tmp_path / "program")
        for level in ("-O0", "-O3"):
            assert with_gcc(benchmark, level, tmp_path / "program") == wanted, (seed, level)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 2**32 - 1), size=st.integers(MIN_SIZE, 2000))
def test_every_seed_and_size_compile(seed: int, size: int, library: Library) -> None:
    count = instruction_count(library, DATASET.benchmark_from_seed(seed, size=size).content)
    assert abs(count - size) <= max(0.4 * size, 60)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("size", "seeds"),
    [
        (50, 12),
        (100, 12),
        (300, 8),
        (1000, 5),
        *(pytest.param(size, 60, marks=pytest.mark.slow) for size in (50, 100, 300, 1000, 3000)),
        *(pytest.param(size, 8, marks=pytest.mark.slow) for size in (10_000, MAX_SIZE)),
    ],
)
def test_most_programs_have_the_size_that_was_asked_for(size: int, seeds: int, library: Library) -> None:
    counts = [instruction_count(library, DATASET.benchmark_from_seed(seed, size=size).content) for seed in range(seeds)]
    close = [count for count in counts if abs(count - size) <= size / 4]
    assert len(close) >= 0.8 * seeds, counts


@pytest.mark.parametrize("seed", [3, pytest.param(4, marks=pytest.mark.slow), pytest.param(5, marks=pytest.mark.slow)])
def test_runs_differ_and_end_soon_even_unoptimised(seed: int, library: Library, tmp_path: Path) -> None:
    benchmark = DATASET.benchmark_from_seed(seed, size=1000)
    assert benchmark.program is not None
    runs = benchmark.program.runs
    assert list(runs) == ["small", "medium", "large"]
    arguments = [planned.arguments[0] for planned in runs.values()]
    outputs = {printed(benchmark.content, tmp_path / "program", argument=argument) for argument in arguments}
    assert len(outputs) == len(runs)
    best = optimized(library, benchmark.content, "default<O3>")
    assert instruction_count(library, best) > 100  # nothing computes the whole of it beforehand
    assert {printed(best, tmp_path / "program", argument=argument) for argument in arguments} == outputs


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("count", [1, pytest.param(10, marks=pytest.mark.slow)])
async def test_environments_optimise_and_validate_it(count: int) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark=DATASET.benchmark_from_seed(3000, size=300))
        for seed in range(3000, 3000 + count):
            await env.reset(benchmark=DATASET.benchmark_from_seed(seed, size=300))
            before = await env.observe("IrInstructionCount")
            await env.step_texts(("default<O2>",))
            assert await env.observe("IrInstructionCount") < before
            result = await env.validate(runs=("small",))
            assert (result.errors, result.benchmark_semantics_validated) == ((), True)
            assert all("does not work on this machine" in reason for reason in result.skipped)
