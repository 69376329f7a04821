"""What changes loop nests: whatever they make still visits each element once, and what cannot be is refused by name."""

import itertools
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import (
    Fusion,
    Loop,
    Nest,
    Refusal,
    Split,
    Staging,
    fuse,
    initial_nest,
    set_kind,
    split,
    stage,
    swap,
)

from . import strategies
from .interpreter import iterations

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME
MATMUL = "C[i:6, j:10] = sum(k:7) A[i, k] * B[k, j]"


def _nest(text: str = MATMUL) -> Nest:
    return initial_nest(parse(text).stages[0])


def _variables(nest: Nest) -> list[str]:
    return [loop.variable for loop in nest.loops]


def _points(nest: Nest) -> Counter[tuple[int, ...]]:
    """Return how often the body is carried out for each element of the axes."""
    names = [axis.name for axis in nest.stage.axes]
    return Counter(tuple(values[name] for name in names) for values in iterations(nest))


def _each_once(nest: Nest) -> Counter[tuple[int, ...]]:
    return Counter(itertools.product(*(range(axis.extent) for axis in nest.stage.axes)))


# ------------------------------------------------------------------------------------------------- one by one


def test_split_that_divides_needs_no_guard() -> None:
    nest = split(_nest(), 1, 5)
    assert nest.loops == (Loop("i", 6), Loop("j.0", 2), Loop("j.1", 5), Loop("k", 7))
    assert nest.relations == (Split("j", "j.0", "j.1", 5),)
    assert nest.guards == ()


def test_split_with_a_remainder_has_a_guard() -> None:
    nest = split(_nest(), 1, 4)
    assert nest.loops[1:3] == (Loop("j.0", 3), Loop("j.1", 4))
    assert nest.guards == (("j", 10),)
    assert _points(nest) == _each_once(nest)


def test_splits_of_splits_guard_each_remainder() -> None:
    nest = split(split(split(_nest(), 1, 4), 1, 2), 3, 3)
    assert [guard.bound for guard in nest.guards] == [10, 3, 4]
    assert _points(nest) == _each_once(nest)


@pytest.mark.parametrize("factor", [0, -1, 11])
def test_split_refuses_a_factor_that_is_no_part_of_the_extent(factor: int) -> None:
    with pytest.raises(Refusal, match=f"j has 10 turns and cannot be split by {factor}"):
        split(_nest(), 1, factor)


@pytest.mark.parametrize("factor", [1, 10])
def test_split_may_leave_a_loop_of_one_turn(factor: int) -> None:
    nest = split(_nest(), 1, factor)
    assert _points(nest) == _each_once(nest)


def test_swap_moves_a_loop_into_the_next() -> None:
    nest = swap(swap(_nest(), 1), 0)
    assert _variables(nest) == ["k", "i", "j"]
    assert swap(swap(nest, 0), 1) == _nest()


def test_swap_refuses_the_innermost_loop() -> None:
    with pytest.raises(Refusal, match="k is the innermost loop of C"):
        swap(_nest(), 2)


def test_fused_loops_become_one() -> None:
    nest = fuse(_nest(), 0)
    assert nest.loops == (Loop("(i*j)", 60), Loop("k", 7))
    assert nest.relations == (Fusion("i", "j", "(i*j)", 10),)
    assert _points(nest) == _each_once(nest)


def test_fusion_split_elsewhere_is_guarded() -> None:
    nest = split(fuse(_nest(), 0), 0, 7)
    assert nest.guards == (("(i*j)", 60),)
    assert _points(nest) == _each_once(nest)


def test_halves_of_a_split_fuse_to_the_loop_they_were() -> None:
    assert fuse(split(_nest(), 1, 4), 1) == _nest()


def test_fusion_split_by_its_inner_extent_is_undone() -> None:
    assert split(fuse(_nest(), 0), 0, 10) == _nest()


def test_fuse_refuses_parts_of_one_axis_in_another_order() -> None:
    with pytest.raises(Refusal, match=r"j\.1 and j\.0 are parts of j, but not the two halves of one split"):
        fuse(swap(split(_nest(), 1, 5), 1), 1)


def test_fuse_refuses_a_reduction_and_what_is_none() -> None:
    with pytest.raises(Refusal, match="only one of j and k is reduced over"):
        fuse(_nest(), 1)


def test_fuse_refuses_more_turns_than_fit_in_32_bits() -> None:
    nest = _nest("C[o:1] = sum(i:65536, j:32768) A[i] + B[j]")
    with pytest.raises(Refusal, match="would have 2147483648 turns, more than 2147483647"):
        fuse(nest, 1)


def test_only_serial_loops_are_made_into_others() -> None:
    nest = set_kind(_nest("C[i:2, j:4, k:8] = A[i, j, k]"), 1, "unrolled")
    with pytest.raises(Refusal, match="j is unrolled, and only serial loops are split"):
        split(nest, 1, 2)
    for position in (0, 1):
        with pytest.raises(Refusal, match="j is unrolled, and only serial loops are fused"):
            fuse(nest, position)


def test_kind_that_a_loop_has_is_refused() -> None:
    nest = set_kind(_nest(), 0, "parallel")
    assert nest.loops[0] == Loop("i", 6, "parallel")
    with pytest.raises(Refusal, match="i is parallel already"):
        set_kind(nest, 0, "parallel")


def test_staged_tensors_are_read_and_staged_once_in_a_serial_loop() -> None:
    nest = stage(stage(_nest(), 2, "B"), 2, "A")
    assert nest.stagings == (Staging("A", "k"), Staging("B", "k"))
    with pytest.raises(Refusal, match="A is staged already"):
        stage(nest, 0, "A")
    with pytest.raises(Refusal, match="C does not read C"):
        stage(nest, 0, "C")
    with pytest.raises(Refusal, match="i is unrolled, and tensors are staged in serial and pipelined loops"):
        stage(set_kind(_nest(), 0, "unrolled"), 0, "A")


def test_loop_that_a_tensor_is_staged_in_stays() -> None:
    nest = stage(_nest("C[i:2, j:4, k:8] = A[i, j, k]"), 1, "A")
    for change in (lambda: split(nest, 1, 2), lambda: fuse(nest, 0), lambda: fuse(nest, 1)):
        with pytest.raises(Refusal, match="A is staged in j, which therefore cannot be"):
            change()
    assert _variables(swap(nest, 0)) == ["j", "i", "k"]


def test_nests_are_equal_whatever_the_order_in_which_they_were_made() -> None:
    one = stage(stage(split(split(_nest(), 1, 5), 0, 2), 4, "A"), 4, "B")
    other = stage(stage(split(split(_nest(), 0, 2), 2, 5), 4, "B"), 4, "A")
    assert one == other
    assert hash(one) == hash(other)


# ------------------------------------------------------------------------------------------ whatever is done


@st.composite
def _nests(draw: Callable[[st.SearchStrategy[int]], int]) -> Nest:
    """Nests that primitives make of small ones, with no regard to what a target can do."""
    stages = draw(strategies.computations()).stages
    nest = initial_nest(stages[draw(st.integers(0, len(stages) - 1))])
    for _ in range(draw(st.integers(0, 12))):
        position = draw(st.integers(0, len(nest.loops) - 1))
        primitive = draw(st.integers(0, 4))
        try:
            if primitive < 2:
                nest = split(nest, position, draw(st.integers(1, max(nest.loops[position].extent, 1))))
            elif primitive == 2:
                nest = set_kind(nest, position, ("unrolled", "parallel", "vectorized")[draw(st.integers(0, 2))])
            else:
                nest = (swap, fuse)[primitive - 3](nest, position)
        except Refusal:
            pass
        if len(nest.loops) > 8:
            break
    return nest


@ALWAYS_THE_SAME
@given(nest=_nests())
def test_every_nest_carries_out_the_body_once_for_each_element(nest: Nest) -> None:
    assert _points(nest) == _each_once(nest)


@ALWAYS_THE_SAME
@given(nest=_nests())
def test_nest_says_truly_what_variables_are(nest: Nest) -> None:
    loops = _variables(nest)
    assert set(nest.extent) == set(nest.axes) == set(nest.dependencies)
    assert len(set(loops)) == len(loops)
    for values in itertools.islice(iterations(nest), 200):
        for variable, value in values.items():
            assert 0 <= value < nest.extent[variable]


@ALWAYS_THE_SAME
@given(nest=_nests())
def test_turns_of_loops_that_are_not_reduced_write_different_elements(nest: Nest) -> None:
    spatial = [axis.name for axis in nest.stage.spatial]
    loops = [loop.variable for loop in nest.loops if loop.variable not in nest.reductions]
    written: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for values in iterations(nest):
        place = tuple(values[name] for name in spatial)
        written.setdefault(place, set()).add(tuple(values[variable] for variable in loops))
    assert all(len(turns) == 1 for turns in written.values())


def test_wrong_relation_is_noticed() -> None:
    """The count of elements is no tautology: a nest without its guard fails it."""
    nest = split(_nest(), 1, 4)
    object.__setattr__(nest, "guards", ())
    assert _points(nest) != _each_once(nest)
