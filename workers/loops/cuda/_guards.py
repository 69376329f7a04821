"""Guards that a reduction can do without, and loops that a guard need not be tested in.

Beyond a guard, an accumulator may hold anything, since it is never stored. So a guard of the result is dropped where
all that is read is in a tile, or can be read elsewhere instead. A guard of the reduction is dropped where the body is
zero beyond it and is summed up: zeros fill what tiles have outside of their tensors. Zero times infinity is no number,
so all factors have to be zeros or constants.
"""

from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple

import numpy as np

from aiocg.workers.loops.cuda._vectors import VECTORS, coefficient, divisor
from aiocg.workers.loops.expression import Call, Expression, Number, Read
from aiocg.workers.loops.nest import Guard, Loop, Nest, Split
from aiocg.workers.loops.tile import Tile, span

KEEP_ZERO = frozenset({"neg", "abs", "sqrt", "tanh", "add", "sub", "max", "min"})  # if all arguments are zeros


class _Dropped(NamedTuple):
    """What a reduction into registers can do without.

    Attributes:
        guards: the guards.
        axes: the axes that may leave their extent without them, and by which a tensor is read that is not staged.
    """

    guards: frozenset[Guard]
    axes: frozenset[str]

    def without_axes(self, nest: Nest) -> "_Dropped":
        """Return what it can do without if no axis may leave its extent."""
        return _Dropped(
            frozenset(guard for guard in self.guards if nest.axes[guard.variable].isdisjoint(self.axes)), frozenset()
        )


NOTHING = _Dropped(frozenset(), frozenset())


def dropped(
    nest: Nest, guards: Sequence[Guard], tiles: Mapping[str, Tile], shapes: Mapping[str, tuple[int, ...]]
) -> _Dropped:
    """Return the guards that a nest's reduction into registers can do without.

    Args:
        nest: the loops.
        guards: those that are not tested outside of the reduction.
        tiles: the tiles of the tensors that are staged.
        shapes: of all tensors.
    """
    found: set[Guard] = set()
    axes: set[str] = set()
    for guard in guards:
        affected = nest.axes[guard.variable]
        reads = [(read, affected & read.axes) for read in nest.stage.reads()]
        reads = [(read, own) for read, own in reads if own]
        if not all(_covers(nest, tiles[read.tensor], own) for read, own in reads if read.tensor in tiles):
            continue
        if guard.variable not in nest.reductions:
            found.add(guard)
            axes |= {axis for read, own in reads if read.tensor not in tiles for axis in own}
        elif nest.stage.reducer == "sum" and all(read.tensor in tiles for read, _ in reads):
            zeros = {read for read, _ in reads if _lies_outside(read, guard, shapes[read.tensor])}
            if _is_zero(nest.stage.body, zeros):
                found.add(guard)
    return _Dropped(frozenset(found), frozenset(axes))


def uniform_turns(nest: Nest, guard: Guard, loop: Loop) -> int:
    """Return for how many consecutive turns of a loop a guard holds for all or for none, other loops fixed.

    That is the loop's extent, or a vector's length by which it can be divided; 1 if neither is known.

    Args:
        nest: the loops.
        guard: the guard; it depends on the loop.
        loop: the loop.
    """
    first = divisor(nest, guard.variable, {loop.variable})
    for turns in (loop.extent, *VECTORS):
        step = coefficient(nest, guard.variable, loop.variable, turns)
        if step and loop.extent % turns == guard.bound % (step * turns) == first % (step * turns) == 0:
            return turns
    return 1


def _covers(nest: Nest, tile: Tile, axes: Set[str]) -> bool:
    """Return whether a tile has all that is read by these axes, guarded or not."""
    return all(_unguarded_span(nest, axis, tile.inside) == span(nest, axis, tile.inside) for axis in axes)


def _unguarded_span(nest: Nest, variable: str, inside: Set[str]) -> int:
    """Return what `span` would be without guards."""
    if not nest.dependencies[variable] & inside:
        return 1
    relation = nest.sources.get(variable)
    if relation is None:
        return nest.extent[variable]
    if isinstance(relation, Split):
        outer, inner = (_unguarded_span(nest, each, inside) for each in (relation.outer, relation.inner))
        return (outer - 1) * relation.factor + inner
    if variable == relation.inner:
        return relation.extent
    return (_unguarded_span(nest, relation.fused, inside) - 1) // relation.extent + 1


def _lies_outside(read: Read, guard: Guard, shape: tuple[int, ...]) -> bool:
    """Return whether an element is outside of its tensor wherever an axis is beyond its guard."""
    for index, extent in zip(read.indices, shape, strict=True):
        factors = dict(index.terms)
        factor = factors.get(guard.variable, 0)
        if factor and min(factors.values()) > 0 and index.constant + factor * guard.bound >= extent:
            return True
    return False


def _is_zero(expression: Expression, zeros: Set[Read]) -> bool:
    """Return whether an expression is 0 or -0 if some elements are 0, whatever the others are."""
    match expression:
        case Read():
            return expression in zeros
        case Number(value):
            return value == 0
        case Call("mul", (one, other)):
            return (_is_zero(one, zeros) and _is_finite(other, zeros)) or (
                _is_zero(other, zeros) and _is_finite(one, zeros)
            )
        case Call("div", (one, Number(value))):
            return _is_zero(one, zeros) and bool(np.float32(value) != 0)
        case Call(function, arguments):
            return function in KEEP_ZERO and all(_is_zero(argument, zeros) for argument in arguments)


def _is_finite(expression: Expression, zeros: Set[Read]) -> bool:
    if isinstance(expression, Number):
        return bool(np.isfinite(np.float32(expression.value)))
    return _is_zero(expression, zeros)
