"""How large a tile in shared memory is and where it begins: all that is read is in it, and no dimension is too long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.loops._expression import Affine
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest, Refusal, Staging, fuse, initial_nest, set_kind, split, stage, swap
from aiocg.workers.loops._rules import staged_tile
from aiocg.workers.loops._schedule import Schedule

from . import strategies
from .interpreter import iterations

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME


def _nest(text: str) -> Nest:
    return initial_nest(parse(text).stages[0])


def test_tile_spans_the_loops_inside_and_the_threads() -> None:
    nest = _nest("C[i:64, j:64] = sum(k:64) A[i, k] * B[k, j]")
    nest = split(split(split(nest, 2, 8), 1, 16), 0, 4)  # i.0 i.1 j.0 j.1 k.0 k.1
    nest = swap(nest, 1)
    for position, kind in enumerate(("block.y", "block.x", "thread.y", "thread.x")):
        nest = set_kind(nest, position, kind)
    tile = staged_tile(nest, Staging("A", "k.0"))
    assert tile.shape == (4, 8)
    assert tile.start == (Affine(0, (("i", 1),)), Affine(0, (("k", 1),)))
    assert tile.inside == {"i.1", "j.1", "k.1"}
    assert tile.size == 4 * 4 * 8
    assert staged_tile(nest, Staging("B", "k.0")).shape == (8, 16)
    assert staged_tile(nest, Staging("B", "k.1")).shape == (1, 16)


def test_tile_of_a_window_has_its_edges() -> None:
    nest = _nest("Y[y:8, x:8] = sum(r:3, s:3) X[2*y + r, x + s + 1]")
    tile = staged_tile(nest, Staging("X", "y"))
    assert tile.shape == (3, 10)
    assert tile.start[1] == Affine(1, (("x", 1), ("s", 1)))


def test_tile_of_reads_that_differ_by_constants_holds_them_all() -> None:
    tile = staged_tile(_nest("B[i:9, j:8] = A[i, j + 2] - A[i, j] + A[i, j + 5]"), Staging("A", "i"))
    assert tile.shape == (1, 13)
    assert tile.start[1].constant == 0


def test_tile_that_is_read_backwards_begins_at_its_lowest_index() -> None:
    tile = staged_tile(split(_nest("B[i:12] = A[11 - i]"), 0, 4), Staging("A", "i.0"))
    assert tile.shape == (4,)
    assert tile.start == (Affine(8, (("i", -1),)),)


def test_tile_is_no_longer_than_the_axis() -> None:
    assert staged_tile(split(_nest("B[o:2, i:10] = A[i]"), 1, 8), Staging("A", "o")).shape == (10,)


def test_tile_refuses_reads_in_different_orders() -> None:
    with pytest.raises(Refusal, match="B reads A in more than one order"):
        staged_tile(_nest("B[i:8, j:8] = A[i, j] + A[j, i]"), Staging("A", "i"))


def test_tile_refuses_a_part_of_a_fused_loop() -> None:
    nest = split(fuse(_nest("B[i:8, j:6] = A[i, j]"), 0), 0, 4)
    assert staged_tile(nest, Staging("A", "(i*j).1")).shape == (1, 1)
    with pytest.raises(Refusal, match="i is computed from fused loops of which not all are inside"):
        staged_tile(nest, Staging("A", "(i*j).0"))


def test_tile_holds_the_whole_of_a_fused_loop() -> None:
    nest = fuse(_nest("B[o:3, i:8, j:6] = A[o, i, j]"), 1)
    assert staged_tile(nest, Staging("A", "o")).shape == (1, 8, 6)


def _check(nest: Nest, staging: Staging) -> None:
    tile = staged_tile(nest, staging)
    still = [loop.variable for loop in nest.loops if loop.variable not in tile.inside]
    reads = [read for read in nest.stage.reads() if read.tensor == staging.tensor]
    seen: dict[tuple[int, ...], list[int]] = {}  # by the turns of the loops outside: how far along each dimension
    for values in iterations(nest):
        turns = {loop.variable: 0 if loop.variable in tile.inside else values[loop.variable] for loop in nest.loops}
        begin = nest.values(turns)
        key = tuple(values[variable] for variable in still)
        for read in reads:
            for dimension, (index, start) in enumerate(zip(read.indices, tile.start, strict=True)):
                place = index.constant + sum(factor * values[axis] for axis, factor in index.terms)
                first = start.constant + sum(factor * begin[axis] for axis, factor in start.terms)
                assert 0 <= place - first < tile.shape[dimension]
                reach = seen.setdefault(key, [0] * len(tile.shape))
                reach[dimension] = max(reach[dimension], place - first + 1)
    if not nest.guards:  # then no dimension is longer than needed
        assert {tuple(reach) for reach in seen.values()} == {tile.shape}


@ALWAYS_THE_SAME
@given(schedule=strategies.schedules("cuda"), data=st.data())
def test_all_that_is_read_is_in_the_tile(schedule: Schedule, data: st.DataObject) -> None:
    nest = data.draw(st.sampled_from(schedule.nests))
    tensors = sorted({read.tensor for read in nest.stage.reads()})
    if not tensors:
        return
    staging = Staging(data.draw(st.sampled_from(tensors)), data.draw(st.sampled_from(nest.loops)).variable)
    try:
        staged_tile(nest, staging)
    except Refusal:
        return
    _check(nest, staging)


def test_staged_tensor_is_named_in_the_nest() -> None:
    assert stage(_nest("B[i:8] = A[i]"), 0, "A").stagings == (Staging("A", "i"),)
