"""The states that the optimisation levels lead to."""

from collections.abc import Callable

import pytest

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.baselines import LEVELS, Benchmark
from aiocg.workers.llvm.engine import Engine


def test_level_zero_is_the_program_as_it_came(engine: Engine, simple: bytes) -> None:
    initial = engine.load(simple)
    assert Benchmark(engine, initial).at("O0") is initial
    assert engine.runs == 0


@pytest.mark.parametrize("level", LEVELS[1:])
def test_level_is_its_default_pipeline(engine: Engine, compile_program: Callable[..., bytes], level: str) -> None:
    initial = engine.load(compile_program("sorting.c"))
    state = Benchmark(engine, initial).at(level)
    assert state is engine.apply(initial, f"default<{level}>")
    assert state.instructions < initial.instructions


def test_level_is_computed_once_even_when_nothing_is_remembered(engine: Engine, simple: bytes) -> None:
    engine.transitions.limit = 0
    benchmark = Benchmark(engine, engine.load(simple))
    state = benchmark.at("Oz")
    assert benchmark.at("Oz") is state
    assert engine.runs == 1


def test_unknown_level_is_an_observation_error(engine: Engine, simple: bytes) -> None:
    with pytest.raises(CompilationError, match="baseline -O9") as caught:
        Benchmark(engine, engine.load(simple)).at("O9")
    assert caught.value.code == FailureCode.OBSERVATION
