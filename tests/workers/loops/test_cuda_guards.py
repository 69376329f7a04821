"""Guards that a reduction does without: only where what is computed beyond them is never stored, or adds nothing."""

import re
from typing import Any

import numpy as np
import pytest

from aiocg.workers.loops._reference import random_inputs
from aiocg.workers.loops._schedule import Schedule

from . import cuda_schedules as written
from .emulation import check

BLOCKS = "split<loop=0;factor=4> bind<loop=0;to=block.x> bind<loop=1;to=thread.x>"


def guards(schedule: Schedule) -> list[str]:
    """Return the conditions under which a kernel does anything at all, in the order of its lines."""
    source = written.program(schedule).source.partition("<<<")[2]
    found = re.findall(r"if \((.*)\) \{", source)
    return [condition for condition in found if "element" not in condition]


def rows(text: str, reduction: str = "split<loop=2;factor=8> stage<loop=2;tensor=0>") -> Schedule:
    """Return a schedule of a reduction of rows: four threads, and steps over what is reduced."""
    return written.scheduled(text, f"{BLOCKS} {reduction}")  # type: ignore[no-any-return]


@pytest.mark.slow
def test_a_product_of_tiles_has_guards_only_around_its_stores(emulator: Any) -> None:
    schedule = written.register_matmul(21, 18, 13, tile=8, each=2, depth=4)
    lines = written.program(schedule).source.splitlines()
    step = next(at for at, line in enumerate(lines) if "+=" in line)
    stored = next(at for at, line in enumerate(lines) if "C[" in line)
    assert not any("if (" in line for line in lines[:step])
    assert [line.strip() for line in lines[step:stored] if "if (" in line] == [
        "if (i < 21 && j_0 * 8 + j_1_0 * 2 < 18) {"  # 18 is even, so it has both columns of a thread or none
    ]
    check(emulator, schedule)


REDUCTIONS = {
    "S[i:6] = sum(k:13) A[i, k] * 0.5": ["i < 6"],  # a sum of products
    "S[i:6] = sum(k:13) -A[i, k] / 3": ["i < 6"],  # a sum of quotients
    "S[i:6] = max(k:13) A[i, k]": ["k < 13", "i < 6"],  # a maximum
    "S[i:6] = min(k:13) A[i, k]": ["k < 13", "i < 6"],  # a minimum
    "S[i:6] = sum(k:13) exp(A[i, k])": ["k < 13", "i < 6"],  # exponentials
    "S[i:6] = sum(k:13) A[i, k] + 1": ["k < 13", "i < 6"],  # more than products
    "S[i:6] = sum(k:13) A[i, k] * V[k]": ["k < 13", "i < 6"],  # a factor without a tile
    "S[i:6] = sum(k:13) A[i, k] * A[i, k + 1]": ["k < 13", "i < 6"],  # a factor that is no zero
    "S[i:6] = sum(k:13) A[i, k] / V[i]": ["k < 13", "i < 6"],  # a divisor that may be zero
}


@pytest.mark.parametrize("text", REDUCTIONS)
def test_what_is_reduced_is_guarded_unless_zeros_add_nothing(text: str) -> None:
    assert guards(rows(text)) == REDUCTIONS[text]


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("text", REDUCTIONS)
def test_what_is_guarded_or_not_computes_what_it_should(emulator: Any, text: str) -> None:
    schedule = rows(text)
    inputs = [-1 - np.abs(array) for array in random_inputs(schedule.computation, seed=1)]  # so that 0 is the greatest
    check(emulator, schedule, inputs=inputs)


@pytest.mark.slow
def test_zero_times_infinity_is_not_taken_for_nothing(emulator: Any) -> None:
    schedule = rows("S[i:6] = sum(k:13) A[i, k] * V[i]")
    assert guards(schedule) == ["k < 13", "i < 6"]
    program = written.program(schedule)
    (sums,) = emulator.run(
        schedule.computation, program, [np.ones((6, 13), np.float32), np.full(6, np.inf, np.float32)]
    )
    assert np.isposinf(sums).all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "steps", "kept"),
    [
        (  # what a split of a split repeats is not added twice
            "S[i:6] = sum(k:32) A[i, k]",
            "split<loop=2;factor=16> split<loop=3;factor=5> stage<loop=3;tensor=0>",
            ["k_1 < 16", "i < 6"],
        ),
        (  # X has elements where W has none, and they may be infinite
            "Y[x:6] = sum(r:5) X[x + r] * W[r]",
            "split<loop=2;factor=2> stage<loop=2;tensor=0> stage<loop=2;tensor=1>",
            ["r < 5", "x < 6"],
        ),
    ],
    ids=["a split of a split", "a window"],
)
def test_guards_that_are_needed_stay(emulator: Any, text: str, steps: str, kept: list[str]) -> None:
    schedule = rows(text, steps)
    assert guards(schedule) == kept
    check(emulator, schedule)


@pytest.mark.slow
def test_a_tile_that_ends_with_its_tensor_is_not_read_beyond_it(emulator: Any) -> None:
    schedule = rows("S[i:6] = sum(o:2, k:13) A[o, i, k]", "split<loop=3;factor=4> stage<loop=2;tensor=0>")
    assert "float A_tile[52];" in written.program(schedule).source  # 4 x 13
    assert guards(schedule) == ["k < 13", "i < 6"]
    check(emulator, schedule)


@pytest.mark.slow
def test_a_tensor_without_a_tile_is_read_at_its_last_row_instead_of_beyond_it(emulator: Any) -> None:
    schedule = written.scheduled(
        "C[i:6, j:7] = max(k:5) A[i, k] + B[k, j]",
        """split<loop=0;factor=4> split<loop=2;factor=4> reorder<loop=1> reorder<loop=2> reorder<loop=3> reorder<loop=2>
        bind<loop=0;to=block.y> bind<loop=1;to=block.x> stage<loop=2;tensor=1>""",
    )
    source = written.program(schedule).source
    assert "const int i_within = i < 5 ? i : 5;" in source
    assert "j_within" not in source
    assert guards(schedule) == ["j < 7", "i < 6"]
    check(emulator, schedule)


@pytest.mark.slow
def test_a_guard_outside_of_the_reduction_is_tested_there(emulator: Any) -> None:
    schedule = written.scheduled("S[i:6] = sum(k:13) A[i, k]", BLOCKS)
    assert guards(schedule) == ["i < 6"]
    assert "within" not in written.program(schedule).source
    check(emulator, schedule)


def test_a_guard_is_not_tested_outside_of_a_loop_that_it_does_not_depend_on() -> None:
    schedule = written.scheduled("S[i:1, j:3] = sum(k:5) A[i, k] * V[j]", "split<loop=2;factor=2>")
    lines = [line.strip() for line in written.program(schedule).source.splitlines()]
    assert lines.index("if (k < 5) {") > lines.index("for (int k_1 = 0; k_1 < 2; ++k_1) {")


def test_what_a_guard_asks_is_defined_where_a_loop_of_a_single_turn_follows() -> None:
    schedule = written.scheduled(
        "S[i:2] = sum(k:5, r:1) A[i, k] * V[i]", "split<loop=1;factor=2> stage<loop=1;tensor=0>"
    )
    lines = [line.strip() for line in written.program(schedule).source.splitlines()]
    assert lines.index("const int k = k_0 * 2 + k_1;") + 1 == lines.index("if (k < 5) {")
