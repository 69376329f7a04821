"""Loop nests run element by element: they agree with NumPy, and a nest that is wrong does not."""

import runpy
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.language import parse
from aiocg.workers.loops.nest import Guard, Nest, Staging, initial_nest
from aiocg.workers.loops.primitives import set_kind, split
from aiocg.workers.loops.reference import compare, expect, random_inputs
from aiocg.workers.loops.schedule import Schedule, Step
from aiocg.workers.loops.tile import Tile, staged_tile

from . import interpreter
from .interpreter import iterations, run

STRATEGIES = runpy.run_path(str(Path(__file__).with_name("strategies.py")))
ALWAYS_THE_SAME = STRATEGIES["ALWAYS_THE_SAME"]
MATMUL = "C[i:6, j:10] = sum(k:7) A[i, k] * B[k, j]"

Floats = NDArray[np.float32]


class Ran(NamedTuple):
    """The arrays after a run, and what NumPy says."""

    arrays: list[Floats]
    problem: str


def _run(computation: Computation, nests: Sequence[Nest], seed: int = 0) -> Ran:
    inputs = random_inputs(computation, seed)
    results = [np.full(stage.result.shape, np.nan, np.float32) for stage in computation.stages]
    before = [array.copy() for array in inputs]
    run(computation, nests, [*inputs, *results])
    assert all(np.array_equal(now, then) for now, then in zip(inputs, before, strict=True))
    wrong = compare(computation, results, expect(computation, inputs))
    return Ran([*inputs, *results], str(wrong or ""))


def _scheduled(text: str, target_name: str, *steps: str) -> Schedule:
    schedule = Schedule.of(parse(text), target_name)
    for step in steps:
        schedule = schedule.apply(Step.parse(step))
    return schedule


# ------------------------------------------------------------------------------------------------- by hand


def test_known_product_of_matrices() -> None:
    computation = parse("C[i:2, j:2] = sum(k:2) A[i, k] * B[k, j]")
    arrays = [np.array(rows, np.float32) for rows in ([[1, 2], [3, 4]], [[5, 6], [7, 8]], [[0, 0], [0, 0]])]
    run(computation, [initial_nest(computation.stages[0])], arrays)
    assert arrays[2].tolist() == [[19, 22], [43, 50]]


def test_reductions_begin_with_their_neutral_element() -> None:
    computation = parse("M[o:1] = max(i:3) A[i]\nN[o:1] = min(i:3) A[i]\nS[o:1] = sum(i:3) A[i]")
    arrays = [np.array([-3, -1, -2], np.float32), *(np.full(1, 77, np.float32) for _ in range(3))]
    run(computation, [initial_nest(stage) for stage in computation.stages], arrays)
    assert [float(array[0]) for array in arrays[1:]] == [-1, -3, -6]


def test_every_operation_is_in_float32() -> None:
    computation = parse("B[i:2] = A[i] * A[i] / A[i]")
    arrays = [np.array([1e30, 3e-30], np.float32), np.zeros(2, np.float32)]
    run(computation, [initial_nest(computation.stages[0])], arrays)
    assert arrays[1].tolist() == [np.inf, 0]


def test_body_is_left_out_beyond_the_extent() -> None:
    nest = split(split(initial_nest(parse("B[i:10] = A[i]").stages[0]), 0, 4), 0, 2)
    found = [(values["i.0.0"], values["i.0.1"], values["i.1"], values["i"]) for values in iterations(nest)]
    assert len(found) == 10
    assert found[-1] == (1, 0, 1, 9)


def test_what_may_happen_in_any_order_happens_backwards() -> None:
    nest = initial_nest(parse("B[i:2, j:2] = A[i, j]").stages[0])
    forwards = [(values["i"], values["j"]) for values in iterations(set_kind(nest, 1, "unrolled"))]
    assert forwards == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for kind in ("parallel", "block.x", "thread.z"):
        assert [values["i"] for values in iterations(set_kind(nest, 0, kind))] == [1, 1, 0, 0]
    assert [values["j"] for values in iterations(set_kind(nest, 1, "vectorized"))] == [1, 0, 1, 0]


TILED = ("split<loop=2;factor=3>", "split<loop=1;factor=4>", "split<loop=0;factor=4>", "reorder<loop=1>",
         "bind<loop=0;to=block.y>", "bind<loop=1;to=block.x>", "bind<loop=2;to=thread.y>", "bind<loop=3;to=thread.x>",
         "stage<loop=4;tensor=0>", "stage<loop=4;tensor=1>")  # fmt: skip


def test_tiled_product_with_staged_operands_is_right() -> None:
    schedule = _scheduled(MATMUL, "cuda", *TILED)
    assert [loop.variable for loop in schedule.nests[0].loops] == ["i.0", "j.0", "i.1", "j.1", "k.0", "k.1"]
    assert _run(schedule.computation, schedule.nests).problem == ""


# ---------------------------------------------------------------------------------------- what is wrong shows


def test_missing_guard_reads_outside() -> None:
    schedule = _scheduled(MATMUL, "cpu", "split<loop=2;factor=4>")
    object.__setattr__(schedule.nests[0], "guards", ())
    with pytest.raises(IndexError):
        _run(schedule.computation, schedule.nests)


def test_bound_that_is_too_low_leaves_elements_out() -> None:
    schedule = _scheduled(MATMUL, "cpu", "split<loop=2;factor=4>")
    object.__setattr__(schedule.nests[0], "guards", (Guard("k", 6),))
    assert "elements are wrong" in _run(schedule.computation, schedule.nests).problem


def test_tile_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def smaller(nest: Nest, staging: Staging) -> Tile:
        tile = staged_tile(nest, staging)
        return tile._replace(shape=(*tile.shape[:-1], tile.shape[-1] - 1))

    monkeypatch.setattr(interpreter, "staged_tile", smaller)
    schedule = _scheduled(MATMUL, "cuda", *TILED)
    with pytest.raises(IndexError):
        _run(schedule.computation, schedule.nests)


def test_tile_for_one_thread_alone_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def alone(nest: Nest, staging: Staging) -> Tile:
        tile = staged_tile(nest, staging)
        return tile._replace(inside=tile.inside - {"i.1", "j.1"})

    monkeypatch.setattr(interpreter, "staged_tile", alone)
    schedule = _scheduled(MATMUL, "cuda", *TILED)
    with pytest.raises(AssertionError, match="before the tile of"):
        _run(schedule.computation, schedule.nests)


# ---------------------------------------------------------------------------------------------- all schedules


@pytest.mark.slow
@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_random_schedules_agree_with_numpy(target_name: str) -> None:
    @ALWAYS_THE_SAME
    @given(schedule=STRATEGIES["schedules"](target_name), seed=st.integers(0, 99))
    def agrees(schedule: Schedule, seed: int) -> None:
        assert _run(schedule.computation, schedule.nests, seed).problem == ""

    agrees()


@pytest.mark.slow
@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_many_random_schedules_agree_with_numpy(target_name: str) -> None:
    @settings(ALWAYS_THE_SAME, max_examples=300, derandomize=False)
    @given(schedule=STRATEGIES["schedules"](target_name, most_steps=25), seed=st.integers(0, 99))
    def agrees(schedule: Schedule, seed: int) -> None:
        assert _run(schedule.computation, schedule.nests, seed).problem == ""

    agrees()
