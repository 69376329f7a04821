"""Every observation on real programs: its form, its bounds, and that it depends on nothing but the state."""

import hashlib
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm import passes
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.observations import OBSERVATIONS, Subject
from aiocg.workers.llvm.parameters import Parameters
from aiocg.workers.llvm.states import State
from aiocg.workers.llvm.walker import AUTOPHASE_NAMES, INST_COUNT_NAMES, Walker

Compile = Callable[..., bytes]


def observe(benchmark: Benchmark, state: State, name: str) -> Any:
    return OBSERVATIONS[name].compute(Subject(benchmark, state, Parameters()))


def assert_fits(spec: ObservationSpec, value: Any) -> None:
    """Check that a value is what its space promises."""
    kind = {"integer": int, "real": float, "array": Array, "mapping": dict, "text": str, "binary": bytes}[spec.kind]
    assert type(value) is kind
    elements = [value] if spec.kind in ("integer", "real") else []
    if spec.kind == "array":
        assert (value.dtype, value.shape) == (spec.dtype, spec.shape)
        elements = value.elements()
    if spec.kind == "mapping":
        assert tuple(value) == spec.keys
        elements = list(value.values())
    assert all(spec.low is None or element >= spec.low for element in elements)
    assert all(spec.high is None or element <= spec.high for element in elements)


@pytest.fixture
def benchmark(engine: Engine, compile_program: Compile) -> Benchmark:
    return Benchmark(engine, engine.load(compile_program("calculator.c")))


def test_all_observations_are_there() -> None:
    assert set(OBSERVATIONS) == {
        "Ir", "IrSha1", "Bitcode", "IrInstructionCount", "IrInstructionCountO0", "IrInstructionCountO3",
        "IrInstructionCountOz", "InstCount", "InstCountDict", "InstCountNorm", "InstCountNormDict", "Autophase",
        "AutophaseDict",
    }  # fmt: skip


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_value_and_default_are_what_the_space_promises(engine: Engine, compile_program: Compile, name: str) -> None:
    spec = OBSERVATIONS[name].spec
    assert spec.name == name
    assert spec.description
    assert_fits(spec, spec.default)
    for program in ("sorting.c", "matrix.c", "shapes.cc"):
        benchmark = Benchmark(engine, engine.load(compile_program(program)))
        for pipeline in ("verify", "default<O2>", "reg2mem"):
            assert_fits(spec, observe(benchmark, engine.apply(benchmark.initial, pipeline), name))


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_value_does_not_depend_on_what_was_done_before(
    engine: Engine, library: Library, walker: Walker, compile_program: Compile, name: str
) -> None:
    """A state just made by a pass, the same one observed again, and a fresh engine that has only the bitcode."""
    chance = random.Random(name)
    content = compile_program("calculator.c")
    path = [one.pipeline for one in chance.choices(passes.available(library), k=8)]
    benchmark = Benchmark(engine, engine.load(content))
    state = benchmark.initial
    for pipeline in path:
        state = engine.apply(state, pipeline)
    first = observe(benchmark, state, name)
    for other in OBSERVATIONS:
        observe(benchmark, state, other)
    assert observe(benchmark, state, name) == first
    fresh = Engine(library, walker)
    again = Benchmark(fresh, fresh.load(content))
    assert observe(again, fresh.load(state.content), name) == first


def test_program_without_instructions_has_zero_densities(engine: Engine) -> None:
    benchmark = Benchmark(engine, engine.load(b"declare i32 @f(i32)\n"))
    assert observe(benchmark, benchmark.initial, "InstCountNorm").elements() == [0.0] * 69
    assert observe(benchmark, benchmark.initial, "IrInstructionCount") == 0


def test_baseline_counts_do_not_depend_on_the_state(engine: Engine, benchmark: Benchmark) -> None:
    state = engine.apply(benchmark.initial, "mem2reg")
    for level in ("O0", "O3", "Oz"):
        counts = {observe(benchmark, one, f"IrInstructionCount{level}") for one in (benchmark.initial, state)}
        assert counts == {engine.instruction_count(benchmark.at(level))}


def test_forms_of_inst_count_agree(benchmark: Benchmark) -> None:
    state = benchmark.initial
    counts = observe(benchmark, state, "InstCount").elements()
    assert counts[0] == observe(benchmark, state, "IrInstructionCount") > 0
    named = observe(benchmark, state, "InstCountDict")
    assert list(named.values()) == counts
    assert list(named)[:4] == ["TotalInstsCount", "TotalBlocksCount", "TotalFuncsCount", "RetCount"]
    densities = observe(benchmark, state, "InstCountNorm").elements()
    assert densities == [count / counts[0] for count in counts[1:]]
    assert list(observe(benchmark, state, "InstCountNormDict").items())[2] == ("RetDensity", densities[2])
    assert len(INST_COUNT_NAMES) == len(counts) == len(densities) + 1


def test_forms_of_autophase_agree(benchmark: Benchmark) -> None:
    values = observe(benchmark, benchmark.initial, "Autophase").elements()
    assert observe(benchmark, benchmark.initial, "AutophaseDict") == dict(zip(AUTOPHASE_NAMES, values, strict=True))
    assert values[AUTOPHASE_NAMES.index("TotalInsts")] == observe(benchmark, benchmark.initial, "IrInstructionCount")


def test_sha1_is_of_the_text_without_its_first_line(benchmark: Benchmark) -> None:
    text = observe(benchmark, benchmark.initial, "Ir")
    first, rest = text.split("\n", 1)
    assert first.startswith("; ModuleID")
    assert observe(benchmark, benchmark.initial, "IrSha1") == hashlib.sha1(rest.encode()).hexdigest()


def test_bitcode_of_a_program_that_came_as_text_is_that_program(engine: Engine, simple: bytes) -> None:
    benchmark = Benchmark(engine, engine.load(simple))
    bitcode = observe(benchmark, benchmark.initial, "Bitcode")
    assert bitcode.startswith(b"BC")
    with Module.parse(engine.library, bitcode) as module:
        assert module.to_text() == observe(benchmark, benchmark.initial, "Ir")


def test_array_shares_the_packed_counts(engine: Engine, benchmark: Benchmark) -> None:
    packed = engine.autophase(benchmark.initial)
    assert observe(benchmark, benchmark.initial, "Autophase").elements() == list(struct.unpack("<56q", packed))
