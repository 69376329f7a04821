"""Vectors: neighbouring elements that one instruction reads or writes."""

import math
from collections.abc import Set

from aiocg.workers.loops._expression import Affine, Read
from aiocg.workers.loops._nest import Fusion, Loop, Nest, Split

VECTORS = (4, 2)  # elements


def width(nest: Nest, access: Read, shape: tuple[int, ...], loop: Loop) -> int:
    """Return how many elements an access can touch at once in consecutive turns of a loop; 1 if these are no vector.

    Vectors lie at multiples of their length, as do tensors in memory.

    Args:
        nest: the loops.
        access: the element.
        shape: the shape of its tensor.
        loop: the loop.
    """
    *others, last = access.indices
    firsts = (factor * divisor(nest, axis, {loop.variable}) for axis, factor in last.terms)
    most = longest(loop.extent, shape[-1], last.constant, *firsts)
    for length in VECTORS:
        steps = [_step(nest, index, loop.variable, length) for index in (*others, last)]
        if length <= most and steps == [0] * len(others) + [1]:
            return length
    return 1


def longest(*multiples: int) -> int:
    """Return the length of the longest vector of which all these are multiples; 1 if there is none."""
    common = math.gcd(*multiples)
    return next((length for length in VECTORS if common % length == 0), 1)


def coefficient(nest: Nest, variable: str, loop: str, turns: int) -> int | None:
    """Return by how much a variable grows in each of so many turns of a loop; None if not by a constant.

    Args:
        nest: the loops.
        variable: any of `nest.extents`.
        loop: the loop's variable.
        turns: the length of a group of turns, which begins at a multiple of that.
    """
    if variable == loop:
        return 1
    if loop not in nest.dependencies[variable]:
        return 0
    relation = nest.sources[variable]
    if isinstance(relation, Split):
        outer, inner = (coefficient(nest, each, loop, turns) for each in (relation.outer, relation.inner))
        return None if outer is None or inner is None else outer * relation.factor + inner
    fused = coefficient(nest, relation.fused, loop, turns)
    if fused != 1:
        return 0 if fused == 0 else None
    if relation.extent % turns or divisor(nest, relation.fused, {loop}) % turns:
        return None  # the outer variable may change within a group
    return 1 if variable == relation.inner else 0


def divisor(nest: Nest, variable: str, inside: Set[str]) -> int:
    """Return a number that divides each value of a variable with the variables of the loops `inside` as 0.

    It is 0 if all these values are.
    """
    if nest.dependencies[variable] <= inside:
        return 0
    relation = nest.sources.get(variable)
    if isinstance(relation, Split):
        return math.gcd(divisor(nest, relation.outer, inside) * relation.factor, divisor(nest, relation.inner, inside))
    if isinstance(relation, Fusion) and variable == relation.inner:
        return math.gcd(divisor(nest, relation.fused, inside), relation.extent)
    return 1


def _step(nest: Nest, index: Affine, loop: str, turns: int) -> int | None:
    """Return by how much an index grows in each of so many turns of a loop; None if not by a constant."""
    steps = [(factor, coefficient(nest, axis, loop, turns)) for axis, factor in index.terms]
    return None if None in (step for _, step in steps) else sum(factor * (step or 0) for factor, step in steps)
