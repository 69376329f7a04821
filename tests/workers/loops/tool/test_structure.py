"""The loops of loop_tool: what each action makes of them, as text and as a nest that runs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._rules import RULES, check
from aiocg.workers.loops.tool.session import ACTIONS, MAX_LOOPS, Level, _listing, _lowered, _Structure

from ..interpreter import run


def after(structure: _Structure, *actions: str) -> _Structure:
    for action in actions:
        structure = structure.after(action)
    return structure


def sizes(structure: _Structure) -> list[int | tuple[int, int]]:
    return [(loop.size, loop.tail) if loop.tail else loop.size for loop in structure.loops]


def test_three_loops_of_which_the_outermost_is_parallel_are_the_first_state() -> None:
    assert _Structure.initial(1024) == ((Level(1024, 0, True), Level(1), Level(1)), 0, False)


def test_the_example_of_the_original() -> None:
    """What the original's source says should happen; where the cursor is is chosen by hand."""
    state = _Structure.initial(1024)
    expected = [
        (1, "up", [512, 2, 1]),
        (1, "up", [(341, 1), 3, 1]),
        (1, "up", [256, 4, 1]),
        (2, "up", [256, 2, 2]),
        (2, "up", [256, (1, 1), 3]),
        (1, "down", [(341, 1), 1, 3]),
        (2, "down", [(341, 1), (1, 1), 2]),
        (1, "down", [512, 1, 2]),
    ]
    for cursor, action, loops in expected:
        state = state._replace(cursor=cursor).after(action)
        assert sizes(state) == loops


def test_the_outermost_loop_has_no_size_of_its_own_to_change() -> None:
    start = _Structure.initial(8)
    assert after(start, "up") == after(start, "down") == start


def test_no_loop_becomes_larger_than_there_are_elements_or_smaller_than_one() -> None:
    inner = after(_Structure.initial(4), "toggle_mode", "up", "toggle_mode")
    assert sizes(after(inner, *["up"] * 9)) == [1, 4, 1]
    assert sizes(after(inner, *["down"] * 3)) == [4, 1, 1]


def test_the_cursor_goes_around() -> None:
    selecting = after(_Structure.initial(8), "toggle_mode")
    assert [after(selecting, *["up"] * n).cursor for n in range(4)] == [0, 1, 2, 0]
    assert [after(selecting, *["down"] * n).cursor for n in range(4)] == [0, 2, 1, 0]


def test_a_thread_is_toggled_at_the_cursor() -> None:
    toggled = after(_Structure.initial(8), "toggle_thread", "toggle_mode", "up", "toggle_thread")
    assert [loop.thread for loop in toggled.loops] == [False, True, False]


def test_a_split_makes_an_inner_loop_of_two_turns() -> None:
    start = _Structure.initial(1001)
    assert sizes(after(start, "split")) == [(500, 1), 2, 1, 1]
    assert sizes(after(start, "split", "split")) == [(250, 1), 2, 2, 1, 1]
    assert after(_Structure.initial(1), "split") == _Structure.initial(1)
    assert len(after(_Structure.initial(2**20), *["split"] * 20).loops) == MAX_LOOPS


@given(st.integers(1, 300), st.lists(st.sampled_from([*ACTIONS]), max_size=60))
def test_whatever_is_done_the_elements_stay(elements: int, actions: list[str]) -> None:
    state = _Structure.initial(elements)
    for action in actions:
        state = state.after(action)
        assert state.elements() == elements
        assert state.loops[-1].tail == 0
        assert 0 <= state.cursor < len(state.loops) <= MAX_LOOPS
        for index, loop in enumerate(state.loops):
            assert loop.size >= 1 and 0 <= loop.tail < state.elements(index + 1)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@settings(max_examples=60, deadline=None)
@given(
    elements=st.integers(1, 700),
    actions=st.lists(st.sampled_from([*ACTIONS, "up", "up", "split"]), max_size=40),
    chunks=st.integers(1, 5),
)
def test_every_state_is_a_nest_that_the_target_can_have_and_that_computes_the_same(
    target: str, elements: int, actions: list[str], chunks: int
) -> None:
    computation = parse(f"C[i:{elements}] = A[i] + B[i]")
    nest = _lowered(after(_Structure.initial(elements), *actions), computation.stages[0], target, chunks)
    check(nest, RULES[target])
    inputs = random_inputs(computation)
    result = np.full(elements, np.nan, np.float32)
    run(computation, [nest], [*inputs, result])
    assert compare(computation, [result], expect(computation, inputs)) is None


def test_parallel_loops_are_shared_by_threads_and_blocks() -> None:
    (stage,) = parse("C[i:4096] = A[i] + B[i]").stages

    def kinds(structure: _Structure, target: str) -> list[tuple[int, str]]:
        return [(loop.extent, loop.kind) for loop in _lowered(structure, stage, target, 2).loops]

    start = _Structure.initial(4096)
    inner = after(start, "toggle_thread", "toggle_mode", "up", "toggle_thread", "toggle_mode", *["up"] * 1023)
    assert sizes(inner) == [4, 1024, 1]
    both = after(inner, "toggle_mode", "down", "toggle_thread")
    assert kinds(start, "cpu") == [(4096, "parallel")]
    assert kinds(after(start, "toggle_thread"), "cpu") == [(4096, "serial")]
    assert kinds(inner, "cpu") == [(2, "parallel"), (4, "serial"), (512, "serial")]
    assert kinds(start, "cuda") == [(16, "block.x"), (256, "thread.x")]
    assert kinds(inner, "cuda") == [(4, "block.x"), (256, "thread.x"), (4, "serial")]
    assert kinds(both, "cuda") == [(4, "block.x"), (4, "block.y"), (256, "thread.x")]


def listed(structure: _Structure, mark: str) -> str:
    (stage,) = parse("C[i:1024] = A[i] + B[i]").stages
    return _listing(structure, stage, mark)


@pytest.mark.parametrize("mark", ["cpu_parallel ", ""])
def test_the_text_is_the_originals(mark: str) -> None:
    state = after(_Structure.initial(1024), "toggle_mode", "up", "toggle_mode", "up", "up")
    assert (
        listed(state, mark)
        == f"""\
for a in 341 r 1 : L0 {mark}[thread]
 for a' in 3 : L1
  for a'' in 1 : L2
   %0[a] <- read()
  for a'' in 1 : L4
   %1[a] <- read()
  for a'' in 1 : L6
   %2[a] <- add(%0, %1)
  for a'' in 1 : L8
   %3[a] <- write(%2)
"""
    )


def test_the_text_has_every_loop_of_a_split_and_every_operation() -> None:
    (stage,) = parse("C[i:6] = exp(2 * A[i])").stages
    assert (
        _listing(after(_Structure.initial(6), "toggle_thread", "split"), stage, "")
        == """\
for a in 3 : L0
 for a' in 2 : L1
  for a'' in 1 : L2
   for a''' in 1 : L3
    %0[a] <- constant(2)
   for a''' in 1 : L5
    %1[a] <- read()
   for a''' in 1 : L7
    %2[a] <- mul(%0, %1)
   for a''' in 1 : L9
    %3[a] <- exp(%2)
   for a''' in 1 : L11
    %4[a] <- write(%3)
"""
    )
