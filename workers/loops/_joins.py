"""Stages that share their outermost loop.

A nest whose outermost loop is joined is computed in the turns of the nest before it: after each turn of that one's
outermost loop comes the same turn of its own. So a row of a matrix can go through several stages while a cache holds
it. The turns may be shared by threads or blocks, so whatever a turn reads of the stages before has to come from the
same turn of theirs.
"""

from collections.abc import Sequence

from aiocg.workers.loops._expression import Affine
from aiocg.workers.loops._nest import BLOCKS, Nest, Split
from aiocg.workers.loops._primitives import Refusal
from aiocg.workers.loops._rules import Rules, block_threads, shared_by_reduction
from aiocg.workers.loops._tile import staged_bytes

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
            raise Refusal(
                f"the turns of {nest.loops[0].variable} of {nest.stage.tensor} are not those of {leader.stage.tensor}"
            )
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
