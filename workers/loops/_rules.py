"""The nests that a target supports: kinds, order and extents of loops, tiles in shared memory, and tensor cores.

A nest whose outermost loop is joined is computed in the turns of the nest before it: after each turn of that one's
outermost loop comes the same turn of its own. So a row of a matrix can go through several stages while a cache holds
it. The turns may be shared by threads or blocks, so whatever a turn reads of the stages before has to come from the
same turn of theirs.

They are the innermost ones: rows, columns and terms of a product of matrices, 16, 8 and 8. The lanes of a warp, which
are the block's threads in x, hold the operands and the result together. The operands are rounded to TF32, which has as
many bits of an exponent as `float32`, and 11 bits of precision; products and sums are those of `float32`.
"""

import math
from collections.abc import Mapping, Sequence, Set
from itertools import pairwise
from typing import NamedTuple

from aiocg.workers.loops._expression import ELEMENT_BYTES, Affine, Call, Read
from aiocg.workers.loops._nest import BLOCKS, STAGING, THREADS, Fusion, Kind, Loop, Nest, Refusal, Split, Staging

SHAPE = (16, 8, 8)  # turns of the loops over rows, columns and terms
LANES = 32  # of a warp
RESULTS = SHAPE[0] * SHAPE[1] // LANES  # that each lane accumulates


class TensorLoops(NamedTuple):
    """The loops that tensor cores carry out, and what they multiply.

    Attributes:
        rows, columns: loops over the result.
        terms: the loop that is reduced over.
        left: the operand that has the rows.
        right: the one that has the columns.
    """

    rows: Loop
    columns: Loop
    terms: Loop
    left: Read
    right: Read


def tensor_loops(nest: Nest) -> TensorLoops | None:
    """Return the loops of a nest that tensor cores carry out, None if there are none.

    Raises:
        Refusal: if tensor cores cannot carry them out.
    """
    loops = tuple(loop for loop in nest.loops if loop.kind == "tensor")
    if not loops:
        return None
    if loops != nest.loops[-len(SHAPE) :] or tuple(loop.extent for loop in loops) != SHAPE:
        found = ", ".join(f"{loop.variable}:{loop.extent}" for loop in loops)
        raise Refusal(f"tensor cores carry out the three innermost loops, of 16, 8 and 8 turns, not {found}")
    rows, columns, terms = loops
    if [loop.variable in nest.reductions for loop in loops] != [False, False, True]:
        raise Refusal(f"{rows.variable} and {columns.variable} have to be loops over the result, and {terms.variable} "
                      "one that is reduced over")  # fmt: skip
    if any(loop.kind == "thread.x" for loop in nest.loops):
        raise Refusal("thread.x is the lane of a warp where tensor cores are used, and no loop can be bound to it")
    if any(loop.kind in THREADS and loop.variable in nest.reductions for loop in nest.loops):
        raise Refusal("threads do not share a sum that tensor cores compute")
    if nest.stage.reducer == "sum" and isinstance(nest.stage.body, Call) and nest.stage.body.function == "mul":
        match nest.stage.body.arguments:
            case Read() as one, Read() as other:
                for left, right in ((one, other), (other, one)):
                    if not nest.varies(left, columns.variable) and not nest.varies(right, rows.variable):
                        return TensorLoops(rows, columns, terms, left, right)
                raise Refusal(f"both factors depend on {rows.variable}, or both on {columns.variable}")
    raise Refusal("tensor cores compute sums of products of two elements, and nothing else")


ALIGNMENT = 16  # bytes


class Tile(NamedTuple):
    """A box of a tensor.

    Attributes:
        tensor: its name.
        shape: the elements along each dimension. Some may lie outside the tensor, and are not read.
        start: the first index along each dimension, with the variables of the loops `inside` as 0; it may lie outside
            the tensor too.
        inside: the loops that the tile serves: those inside the staging loop, and those bound to threads.
    """

    tensor: str
    shape: tuple[int, ...]
    start: tuple[Affine, ...]
    inside: frozenset[str]

    @property
    def size(self) -> int:
        """The tile's size in bytes."""
        return ELEMENT_BYTES * math.prod(self.shape)


def staged_tile(nest: Nest, staging: Staging) -> Tile:
    """Return the tile that a block copies to shared memory at the start of each iteration of the staging loop.

    Raises:
        Refusal: if it is not a box of constant size.
    """
    variables = [loop.variable for loop in nest.loops]
    threads = frozenset(loop.variable for loop in nest.loops if loop.kind in THREADS)
    inside = threads.union(variables[variables.index(staging.variable) + 1 :])
    reads = [read for read in nest.stage.reads() if read.tensor == staging.tensor]
    first, *others = reads
    for other in others:
        if any(a.terms != b.terms for a, b in zip(first.indices, other.indices, strict=True)):
            raise Refusal(f"{nest.stage.tensor} reads {staging.tensor} in more than one order")
    ranges = [_range(nest, [read.indices[i] for read in reads], inside) for i in range(len(first.indices))]
    shape, start = tuple(extent for extent, _ in ranges), tuple(lowest for _, lowest in ranges)
    return Tile(staging.tensor, shape, start, inside)


def staged_bytes(nest: Nest) -> int:
    """Return the bytes of all tiles, each of which begins where a vector may lie.

    A pipelined loop has two of each, one to compute with and one to copy to.
    """
    kinds = {loop.variable: loop.kind for loop in nest.loops}
    copies = ((staged_tile(nest, one), 2 if kinds[one.variable] == "pipelined" else 1) for one in nest.stagings)
    return sum(-(-tile.size // ALIGNMENT) * ALIGNMENT * count for tile, count in copies)


def span(nest: Nest, variable: str, inside: Set[str]) -> int | None:
    """Return the maximal number of consecutive values of a variable while loops run; None if not constant.

    The first value is that with the variables of those loops as 0.

    Args:
        nest: the loops.
        variable: any of `nest.extents`.
        inside: the loops that run; the others are fixed.
    """
    loops = nest.dependencies[variable]
    if loops <= inside:
        return nest.extent[variable]
    if not loops & inside:
        return 1
    relation = nest.sources[variable]
    if isinstance(relation, Fusion):
        return None
    outer, inner = span(nest, relation.outer, inside), span(nest, relation.inner, inside)
    if outer is None or inner is None:
        return None
    return min((outer - 1) * relation.factor + inner, nest.extent[variable])


def _range(nest: Nest, indices: Sequence[Affine], inside: Set[str]) -> tuple[int, Affine]:
    """Return the number of values of indices that differ by constants, and the first value."""
    low = min(index.constant for index in indices)
    extent = 1 + max(index.constant for index in indices) - low
    for variable, factor in indices[0].terms:
        values = span(nest, variable, inside)
        if values is None:
            raise Refusal(f"{variable} is computed from fused loops of which not all are inside")
        extent += abs(factor) * (values - 1)
        low += min(0, factor * (values - 1))
    return extent, Affine(low, indices[0].terms)


LONGEST_UNROLLED = 64
MOST_COPIES = 1024  # of a body, over all unrolled loops around it
VECTORS = (2, 4, 8, 16, 32, 64)
MOST_THREADS = 1024  # in a block
LONGEST_BOUND: Mapping[str, int] = {
    "block.x": 2**31 - 1, "block.y": 65535, "block.z": 65535, "thread.x": 1024, "thread.y": 1024, "thread.z": 64,
    "joined": 2**31 - 1,
}  # fmt: skip

MOST_SHARED = 227 * 1024  # bytes that a block can have on some device
MOST_ACCUMULATORS = 256  # per thread, which has at most 255 registers


def accumulated(nest: Nest) -> list[Loop]:
    """Return the loops over the result inside a reduction, for each turn of which a thread has an accumulator.

    Tensor cores have `RESULTS` for each turn.
    """
    free = [loop for loop in nest.loops if loop.kind not in LONGEST_BOUND and loop.kind != "tensor"]
    first = next((at for at, loop in enumerate(free) if loop.variable in nest.reductions), len(free))
    return [loop for loop in free[first:] if loop.variable not in nest.reductions]


def reduced_by_threads(nest: Nest) -> Loop | None:
    """Return the reduction loop that is bound to threads, which then combine what each has accumulated."""
    return next((loop for loop in nest.loops if loop.kind in THREADS and loop.variable in nest.reductions), None)


def shared_by_reduction(nest: Nest) -> int:
    """Return the bytes of shared memory by which the threads of a block combine what they have accumulated."""
    if reduced_by_threads(nest) is None:
        return 0
    return ELEMENT_BYTES * math.prod(loop.extent for loop in nest.loops if loop.kind in THREADS)


class Rules(NamedTuple):
    """The capabilities of a target.

    Attributes:
        target: its name.
        kinds: the kinds that loops can have.
        shared_memory: the most shared memory of a block in bytes; 0 without blocks.
    """

    target: str
    kinds: frozenset[Kind]
    shared_memory: int


RULES: Mapping[str, Rules] = {
    "cpu": Rules("cpu", frozenset({"serial", "unrolled", "vectorized", "parallel", "joined"}), 0),
    "cuda": Rules(
        "cuda", frozenset({"serial", "unrolled", "pipelined", "joined", "tensor", *BLOCKS, *THREADS}), MOST_SHARED
    ),
}


def check(nest: Nest, rules: Rules) -> None:
    """Check that a target supports a nest.

    Raises:
        Refusal: if it does not.
    """
    kinds = {loop.kind for loop in nest.loops}
    if foreign := kinds - rules.kinds:
        raise Refusal(f"no loop is {min(foreign)} on {rules.target}")
    if "unrolled" in kinds:
        _check_unrolled(nest)
    if "parallel" in kinds:
        _check_outermost(nest, "parallel")
    if "vectorized" in kinds:
        _check_vectorized(nest)
    if "joined" in kinds:
        _check_outermost(nest, "joined")
    if tensor_loops(nest) and RESULTS * math.prod(loop.extent for loop in accumulated(nest)) > MOST_ACCUMULATORS:
        raise Refusal(f"a lane of a warp has at most {MOST_ACCUMULATORS} results")
    if not kinds.isdisjoint(LONGEST_BOUND):
        _check_bound(nest)
    if nest.stagings or "pipelined" in kinds:
        _check_staged(nest, rules)


def _check_unrolled(nest: Nest) -> None:
    extents = [loop.extent for loop in nest.loops if loop.kind == "unrolled"]
    if max(extents) > LONGEST_UNROLLED:
        raise Refusal(f"a loop of {max(extents)} turns is not unrolled, {LONGEST_UNROLLED} are the most")
    if math.prod(extents) > MOST_COPIES:
        raise Refusal(f"unrolling would make {math.prod(extents)} copies of the body, {MOST_COPIES} are the most")


def _check_vectorized(nest: Nest) -> None:
    for loop, inner in pairwise(nest.loops):
        if loop.kind == "vectorized":
            raise Refusal(f"{loop.variable} would be vectorized around {inner.variable}: only the innermost can be")
    if (innermost := nest.loops[-1]).extent not in VECTORS:
        raise Refusal(
            f"{innermost.variable} has {innermost.extent} turns, and a vectorized loop has a power of two from "
            f"{VECTORS[0]} to {VECTORS[-1]}"
        )


def _check_outermost(nest: Nest, kind: Kind) -> None:
    for outer, loop in pairwise(nest.loops):
        if loop.kind == kind:
            raise Refusal(f"{loop.variable} would be {kind} inside {outer.variable}: only the outermost loop can be")
        if kind == "joined" and loop.kind in BLOCKS:
            raise Refusal(f"{loop.variable} would be {loop.kind} inside {nest.loops[0].variable}, which is joined")
    if (outermost := nest.loops[0].variable) in nest.reductions:
        raise Refusal(f"{outermost} is reduced over and cannot be {kind}")


def block_threads(nest: Nest) -> dict[str, int]:
    """Return the threads of a block along the indices that a nest uses; in x, these may be the lanes of a warp."""
    lanes = {"thread.x": LANES} if any(loop.kind == "tensor" for loop in nest.loops) else {}
    return lanes | {loop.kind: loop.extent for loop in nest.loops if loop.kind in THREADS}


def _check_bound(nest: Nest) -> None:
    """Check that bound loops are the outermost, blocks around threads, each index used once, and that at most one is
    reduced over, by threads."""
    ranks = [0 if loop.kind in (*BLOCKS, "joined") else 1 if loop.kind in THREADS else 2 for loop in nest.loops]
    for index, (outer, inner) in enumerate(pairwise(nest.loops)):
        if ranks[index] > ranks[index + 1]:
            raise Refusal(
                f"{inner.variable} would be bound to {inner.kind} inside {outer.variable}, which is {outer.kind}: "
                "blocks are the outermost loops, then threads, then all others"
            )
    bound = [loop for loop, rank in zip(nest.loops, ranks, strict=True) if rank < 2]
    for index, loop in enumerate(bound):
        if loop.variable in nest.reductions and loop.kind in BLOCKS:
            raise Refusal(f"{loop.variable} is reduced over and cannot be bound to {loop.kind}, only to threads")
        if loop.extent > LONGEST_BOUND[loop.kind]:
            raise Refusal(f"{loop.variable} has {loop.extent} turns, {loop.kind} at most {LONGEST_BOUND[loop.kind]}")
        if loop.kind in (other.kind for other in bound[:index]):
            raise Refusal(f"two loops would be bound to {loop.kind}")
    threads = math.prod(block_threads(nest).values())
    if threads > MOST_THREADS:
        raise Refusal(f"a block would have {threads} threads, {MOST_THREADS} are the most")
    reduced = [loop.variable for loop in bound if loop.variable in nest.reductions]
    if len(reduced) > 1:
        raise Refusal(f"{' and '.join(reduced)} are reduced over, and only one such loop can be bound to threads")
    if reduced and math.prod(loop.extent for loop in accumulated(nest)) > MOST_ACCUMULATORS:
        raise Refusal(f"threads that reduce together have at most {MOST_ACCUMULATORS} results each")


def _check_staged(nest: Nest, rules: Rules) -> None:
    if not rules.shared_memory:
        raise Refusal(f"no memory is shared by the threads of a block on {rules.target}")
    kinds = {loop.variable: loop.kind for loop in nest.loops}
    for staging in nest.stagings:
        if kinds[staging.variable] not in STAGING:
            raise Refusal(f"{staging.tensor} is staged in {staging.variable}, which has to be {' or '.join(STAGING)}")
    staged = {staging.variable for staging in nest.stagings}
    for variable, kind in kinds.items():
        if kind == "pipelined" and variable not in staged:
            raise Refusal(f"nothing is staged in {variable}, which therefore cannot be pipelined")
    if (size := shared(nest)) > rules.shared_memory:
        raise Refusal(f"the tiles would have {size} bytes, and a block shares {rules.shared_memory}")


MOST_SHARED_TOGETHER = 48 * 1024  # bytes of a block's shared memory for all joined stages


def _is_joined(nest: Nest) -> bool:
    """Return whether a nest is joined to the one before it."""
    return bool(nest.loops) and nest.loops[0].kind == "joined"


def groups(nests: Sequence[Nest]) -> list[tuple[Nest, ...]]:
    """Return the nests in groups of one that is not joined and those that are joined to it, in order."""
    found: list[tuple[Nest, ...]] = []
    for nest in nests:
        if found and _is_joined(nest):
            found[-1] = (*found[-1], nest)
        else:
            found.append((nest,))
    return found


def shared(nest: Nest) -> int:
    """Return the bytes of shared memory that a nest takes of a block."""
    return staged_bytes(nest) + shared_by_reduction(nest)


def check_joins(nests: Sequence[Nest], rules: Rules) -> None:
    """Check that joined nests compute what they would one after the other, and that a target supports them.

    Raises:
        Refusal: if they do not, or it does not.
    """
    if nests and _is_joined(nests[0]):
        raise Refusal(f"{nests[0].stage.tensor} is computed first, so there is nothing to join it to")
    for leader, *others in groups(nests):
        if others:
            _check_leader(leader, rules)
            _check_group((leader, *others), rules)


def _check_leader(nest: Nest, rules: Rules) -> None:
    """Check that a nest is one that others can be joined to."""
    loop = nest.loops[0]
    blocks = [one.kind for one in nest.loops if one.kind in BLOCKS]
    if loop.variable in nest.reductions:
        raise Refusal(f"{loop.variable} is reduced over, and nothing can be joined to it")
    if rules.shared_memory and blocks != ["block.x"]:
        raise Refusal(f"{nest.stage.tensor} needs a loop bound to block.x, and no other to blocks, to be joined to")
    if not rules.shared_memory and loop.kind not in ("serial", "parallel"):
        raise Refusal(f"{loop.variable} is {loop.kind}, and nothing can be joined to it")


def _check_group(nests: Sequence[Nest], rules: Rules) -> None:
    leader = nests[0]
    parts: dict[str, tuple[Nest, str]] = {}  # of the tensors that the group computes: the nest and the axis shared
    turns = [(nest.loops[0].extent, *_part(nest)[1:]) for nest in nests]
    for nest, own in zip(nests, turns, strict=True):
        if own != turns[0]:
            turns_of = f"the turns of {nest.loops[0].variable} of {nest.stage.tensor}"
            raise Refusal(f"{turns_of} are not those of {leader.stage.tensor}")
        if rules.shared_memory and block_threads(nest) != block_threads(leader):
            raise Refusal(f"{nest.stage.tensor} and {leader.stage.tensor} would have different threads in a block")
        axis = _part(nest)[0]
        for read in nest.stage.reads():
            if read.tensor in parts:
                other, along = parts[read.tensor]
                dimension = [one.name for one in other.stage.spatial].index(along)
                if read.indices[dimension] != Affine(0, ((axis, 1),)):
                    raise Refusal(f"a turn of {nest.loops[0].variable} reads of {read.tensor} what other turns compute")
        parts[nest.stage.tensor] = nest, axis
    if rules.shared_memory and (size := sum(map(shared, nests))) > MOST_SHARED_TOGETHER:
        raise Refusal(f"joined stages would share {size} bytes of a block, {MOST_SHARED_TOGETHER} are the most")


def _part(nest: Nest) -> tuple[str, int]:
    """Return the axis that the outermost loop goes over, and how many of its elements a turn has.

    Raises:
        Refusal: if a turn is no part of one axis.
    """
    variable, length = nest.loops[0].variable, 1
    outer = {one.outer: one for one in nest.relations if isinstance(one, Split)}
    while variable in outer:
        variable, length = outer[variable].parent, length * outer[variable].factor
    if variable not in (axis.name for axis in nest.stage.axes):
        raise Refusal(f"a turn of {nest.loops[0].variable} is no part of one axis, so that it cannot be joined")
    return variable, length
