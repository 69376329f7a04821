"""Every program of `programs-v0`: it compiles, links, runs, and says the same however it was optimised."""

import functools
import re
import subprocess
from pathlib import Path

import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.linking import link
from aiocg.datasets.programs import RUN_SIZES, ProgramsDataset
from aiocg.datasets.toolchain import find_toolchain
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module, TargetMachine

PROGRAMS = list(ProgramsDataset())

PIPELINES = (
    "default<O3>",
    "default<Oz>",
    "function(mem2reg,instcombine<no-verify-fixpoint>,loop-simplify,loop-mssa(loop-rotate,licm),indvars,loop-unroll,gvn,simplifycfg)",
    "function(sroa,early-cse,jump-threading,loop-vectorize,slp-vectorizer,instcombine<no-verify-fixpoint>,dse,adce),globalopt",
    "cgscc(inline),function(sroa,tailcallelim,reassociate,nary-reassociate,newgvn,loop-idiom,sink),mergefunc",
    "function(lower-switch,reg2mem,structurizecfg),ipsccp,deadargelim,argpromotion,hotcoldsplit",
)

every_program = pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: str(program.uri.path))


@pytest.fixture(scope="module")
def library() -> Library:
    return Library.find()


@pytest.fixture(scope="module")
def executables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("executables")


def check_output(program: Benchmark, bitcode: bytes, sizes: tuple[str, ...], executable: Path, level: str) -> None:
    link(bitcode, executable, find_toolchain(), optimization=level)
    assert program.program is not None
    for size in sizes:
        planned = program.program.runs[size]
        execution = subprocess.run([executable, *planned.arguments], capture_output=True, timeout=60, env={})
        assert (execution.returncode, execution.stderr) == (planned.exit_status, b"")
        assert execution.stdout == planned.expected_output()
    executable.unlink()


def optimized(library: Library, bitcode: bytes, pipeline: str) -> bytes:
    with Module.parse(library, bitcode) as module:
        machine = TargetMachine.create(library, module.triple)
        module.run_passes(pipeline, machine)
        assert module.verify() is None
        if machine is not None:
            machine.close()
        return module.write_bitcode()


@functools.cache
def instruction_count(program: Benchmark) -> int:
    """Count the instructions of the unoptimised IR: lines indented by two, but for the ends of switches."""
    with Module.parse(Library.find(), program.content) as module:
        return len(re.findall(r"^  [^ \]]", module.to_text(), re.MULTILINE))


@pytest.mark.few(4)
@pytest.mark.sampled
@every_program
def test_unoptimized_program_prints_the_expected_text(program: Benchmark, executables: Path) -> None:
    check_output(program, program.content, ("small",), executables / "program", "-O0")


@pytest.mark.few(4)
@pytest.mark.sampled
@pytest.mark.parametrize("number", range(len(PROGRAMS)), ids=lambda number: str(PROGRAMS[number].uri.path))
def test_optimized_program_prints_the_expected_text(number: int, library: Library, executables: Path) -> None:
    """A sample: each program under one of the pipelines, each pipeline on several programs."""
    program, pipeline = PROGRAMS[number], PIPELINES[number % len(PIPELINES)]
    bitcode = optimized(library, program.content, pipeline)
    check_output(program, bitcode, ("small",), executables / "program", "-O2")


@pytest.mark.sampled
@pytest.mark.slow
@every_program
def test_every_size_prints_the_expected_text_at_O0(program: Benchmark, executables: Path) -> None:
    check_output(program, program.content, RUN_SIZES, executables / "program", "-O0")


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("pipeline", PIPELINES)
@every_program
def test_every_size_prints_the_expected_text_optimized(
    program: Benchmark, pipeline: str, library: Library, executables: Path
) -> None:
    bitcode = optimized(library, program.content, pipeline)
    check_output(program, bitcode, RUN_SIZES, executables / "program", "-O2")


def test_there_are_enough_programs() -> None:
    languages = [program.program.language for program in PROGRAMS if program.program is not None]
    assert languages.count("c") >= 24
    assert languages.count("c++") >= 4


@pytest.mark.slow
def test_sizes_spread_from_tiny_to_large() -> None:
    counts = sorted(instruction_count(program) for program in PROGRAMS)
    assert counts[0] <= 150
    assert counts[-1] > 10_000
    assert sum(count > 3_000 for count in counts) >= 3


@every_program
def test_expected_texts_are_there_and_differ_by_size(program: Benchmark) -> None:
    assert program.program is not None
    texts = {size: planned.expected_output() for size, planned in program.program.runs.items()}
    assert tuple(texts) == RUN_SIZES
    assert all(texts.values())
    assert len(set(texts.values())) == len(RUN_SIZES)


@pytest.mark.few(4)
@pytest.mark.sampled
@every_program
def test_program_without_argument_takes_the_small_input(program: Benchmark, executables: Path) -> None:
    executable = executables / "program"
    link(program.content, executable, find_toolchain(), optimization="-O0")
    assert program.program is not None
    done = subprocess.run([executable], capture_output=True, env={})
    assert done.stdout == program.program.runs["small"].expected_output()
