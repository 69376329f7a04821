"""What elements of tensors the body of a nest reads and writes, and how they lie for its loops."""

import math
from collections.abc import Sequence, Set

from aiocg.workers.loops.expression import Affine, Read, Stage
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.tile import span

__all__ = ["accesses", "stride", "touched", "varies"]


def accesses(stage: Stage) -> list[Read]:
    """Return the element that a stage writes, and then the different ones that it reads, in the order of the text."""
    written = Read(stage.tensor, tuple(Affine(0, ((axis.name, 1),)) for axis in stage.spatial))
    return [written, *dict.fromkeys(stage.reads())]


def varies(nest: Nest, access: Read, variable: str) -> bool:
    """Return whether the element depends on a loop."""
    return any(variable in nest.dependencies[axis] for index in access.indices for axis, _ in index.terms)


def stride(nest: Nest, access: Read, shape: Sequence[int], variable: str) -> int:
    """Return how many elements further an access is when one loop is in its second turn and all others in their first.

    Args:
        nest: the loops.
        access: the element.
        shape: of its tensor.
        variable: of the loop.
    """
    values = nest.values({loop.variable: int(loop.variable == variable) for loop in nest.loops})
    return sum(
        math.prod(shape[dimension + 1 :]) * factor * values[axis]
        for dimension, index in enumerate(access.indices)
        for axis, factor in index.terms
    )


def touched(nest: Nest, access: Read, shape: Sequence[int], inside: Set[str]) -> int:
    """Return how many elements of a tensor loops touch by one access, at most.

    Args:
        nest: the loops.
        access: the element.
        shape: of its tensor.
        inside: the loops that run; the others stand still.
    """
    extents = {loop.variable: loop.extent for loop in nest.loops}
    needed: set[str] = set()
    box = combinations = 1
    for index, most in zip(access.indices, shape, strict=True):
        extent = 1
        for variable, factor in index.terms:
            values = span(nest, variable, inside) or nest.extent[variable]
            extent += abs(factor) * (values - 1)
            combinations *= values
            needed |= nest.dependencies[variable] & inside
        box *= min(extent, most)
    return min(box, combinations, math.prod(extents[variable] for variable in needed))
