"""Every observation on real programs: its form, its bounds, and that it depends on nothing but the state."""

import hashlib
import json
import random
import struct
from collections.abc import Callable
from typing import Any

import pytest

from aiocg.datasets import default_datasets
from aiocg.transport.arrays import Array
from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm import _passes as passes
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._walker import AUTOPHASE_NAMES, INST_COUNT_NAMES
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.states import State, Transitions
from aiocg.workers.programs.parameters import Parameters
from aiocg.workers.programs.recipe import decode_program

from .subject import Subject

Compile = Callable[..., bytes]


DETERMINISTIC = [name for name, one in OBSERVATIONS.items() if one.spec.deterministic]
TYPES = {
    **{"integer": int, "real": float, "array": Array, "mapping": dict, "text": str, "texts": list, "binary": bytes},
    "record": dict,
}


def observe(benchmark: Benchmark, state: State, name: str) -> Any:
    return OBSERVATIONS[name].compute(Subject(benchmark, state, Parameters()))


def assert_fits(spec: ObservationSpec, value: Any) -> None:
    """Check that a value is what its space promises."""
    if spec.kind == "json":
        json.dumps(value, allow_nan=False)
        return
    assert type(value) is TYPES[spec.kind]
    elements = [value] if spec.kind in ("integer", "real") else []
    if spec.kind == "array":
        assert value.dtype == spec.dtype and len(value.shape) == len(spec.shape)
        assert all(expected in (-1, length) for expected, length in zip(spec.shape, value.shape, strict=True))
        elements = value.elements()
    if spec.kind == "mapping":
        assert tuple(value) == spec.keys
        elements = list(value.values())
    if spec.kind == "texts":
        assert all(type(item) is str for item in value)
    if spec.kind == "record":
        assert list(value) == [field.name for field in spec.fields]
        for field in spec.fields:
            assert_fits(field, value[field.name])
    assert all(spec.low is None or element >= spec.low for element in elements)
    assert all(spec.high is None or element <= spec.high for element in elements)


@pytest.fixture
def benchmark(engine: Engine, compile_program: Compile) -> Benchmark:
    return Benchmark(engine, engine.load(compile_program("calculator.c")))


@pytest.fixture(scope="session")
def crc32() -> tuple[bytes, bytes]:
    """The bitcode of a program that can be built and run, and how that is done."""
    program = default_datasets()["programs-v0"].benchmark("crc32")
    return program.content, program.recipe


def load(engine: Engine, program: tuple[bytes, bytes]) -> Benchmark:
    content, recipe = program
    return Benchmark(engine, engine.load(content), decode_program(recipe))


def test_every_observation_of_compiler_gym_that_a_worker_makes_is_there() -> None:
    names = """
        Ir IrSha1 Bitcode BitcodeFile LexedIr CpuInfo
        InstCount InstCountDict InstCountNorm InstCountNormDict Autophase AutophaseDict
        IrInstructionCount IrInstructionCountO0 IrInstructionCountO3 IrInstructionCountOz
        ObjectTextSizeBytes ObjectTextSizeO0 ObjectTextSizeO3 ObjectTextSizeOz
        TextSizeBytes TextSizeO0 TextSizeO3 TextSizeOz IsBuildable IsRunnable Buildtime Runtime
    """
    assert set(names.split()) <= set(OBSERVATIONS)


@pytest.mark.parametrize("name", OBSERVATIONS)
def test_each_is_described_and_has_a_default_that_fits(name: str) -> None:
    spec = OBSERVATIONS[name].spec
    assert spec.name == name
    assert spec.description.endswith(".") and "\n" not in spec.description
    if spec.default is not None:  # else the client makes one
        assert_fits(spec, spec.default)


def test_values_are_what_the_spaces_promise(engine: Engine, crc32: tuple[bytes, bytes]) -> None:
    benchmark = load(engine, crc32)
    for pipeline in ("verify", "default<O2>", "reg2mem"):
        state = engine.apply(benchmark.initial, pipeline)
        for name, observation in OBSERVATIONS.items():
            if not name.startswith(
                "Execution"
            ):  # each builds and runs the program; see test_program and test_sanitizers
                assert_fits(observation.spec, observe(benchmark, state, name))


@pytest.mark.slow
def test_values_do_not_depend_on_what_was_done_before(
    engine: Engine, library: Library, natives: NativeLibraries, crc32: tuple[bytes, bytes]
) -> None:
    """A state just made by a pass, the same one observed again, and a fresh engine that has only the bitcode."""
    path = [one.pipeline for one in random.Random(1).choices(passes.available(library), k=4)]
    benchmark = load(engine, crc32)
    for name in DETERMINISTIC:
        state = benchmark.initial
        engine.transitions = Transitions(0)
        for pipeline in path:
            state = engine.apply(state, pipeline)
        state.memo.clear()
        first = observe(benchmark, state, name)
        assert observe(benchmark, state, DETERMINISTIC[0]) is not None
        assert observe(benchmark, state, name) == first, name
        fresh = Engine(library, natives)
        assert observe(load(fresh, crc32), fresh.load(engine.bitcode(state)), name) == first, name


def test_program_without_instructions_has_zero_densities(engine: Engine) -> None:
    benchmark = Benchmark(engine, engine.load(b"declare i32 @f(i32)\n"))
    assert observe(benchmark, benchmark.initial, "InstCountNorm").elements() == [0.0] * 69
    assert observe(benchmark, benchmark.initial, "IrInstructionCount") == 0


def test_baseline_counts_do_not_depend_on_the_state(engine: Engine, benchmark: Benchmark) -> None:
    state = engine.apply(benchmark.initial, "mem2reg")
    for level in ("O0", "O3", "Oz"):
        counts = {observe(benchmark, one, f"IrInstructionCount{level}") for one in (benchmark.initial, state)}
        assert counts == {benchmark.at(level).instructions}


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


def test_sha1_is_of_the_text_without_the_names_of_the_module(benchmark: Benchmark) -> None:
    text = observe(benchmark, benchmark.initial, "Ir")
    first, second, rest = text.split("\n", 2)
    assert first.startswith("; ModuleID")
    assert second.startswith("source_filename = ")
    assert observe(benchmark, benchmark.initial, "IrSha1") == hashlib.sha1(rest.encode()).hexdigest()


def test_bitcode_of_a_program_that_came_as_text_is_that_program(engine: Engine, simple: bytes) -> None:
    benchmark = Benchmark(engine, engine.load(simple))
    bitcode = observe(benchmark, benchmark.initial, "Bitcode")
    assert bitcode.startswith(b"BC")
    with Module.parse(engine.library, bitcode) as module:
        assert "define i32 @simple(i32 %0, i32 %1)" in module.to_text()  # names of local values are no part of it
        assert module.to_text() == observe(benchmark, benchmark.initial, "Ir")


def test_array_shares_the_packed_counts(engine: Engine, benchmark: Benchmark) -> None:
    packed = engine.autophase(benchmark.initial)
    assert observe(benchmark, benchmark.initial, "Autophase").elements() == list(struct.unpack("<56q", packed))
