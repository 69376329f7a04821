"""Loop nests run element by element agree with NumPy."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest, initial_nest, set_kind, split
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule

from . import strategies
from .interpreter import iterations, run

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME


def _run(computation: Computation, nests: Sequence[Nest], seed: int) -> str:
    inputs = random_inputs(computation, seed)
    results = [np.full(stage.result.shape, np.nan, np.float32) for stage in computation.stages]
    before = [array.copy() for array in inputs]
    run(computation, nests, [*inputs, *results])
    assert all(np.array_equal(now, then) for now, then in zip(inputs, before, strict=True))
    wrong = compare(computation, results, expect(computation, inputs))
    return str(wrong or "")


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


@pytest.mark.slow
@pytest.mark.parametrize("target_name", ["cpu", "cuda"])
def test_random_schedules_agree_with_numpy(target_name: str) -> None:
    @settings(ALWAYS_THE_SAME, max_examples=40, derandomize=False)
    @given(schedule=strategies.schedules(target_name, most_steps=25), seed=st.integers(0, 99))
    def agrees(schedule: Schedule, seed: int) -> None:
        assert _run(schedule.computation, schedule.nests, seed) == ""

    agrees()
