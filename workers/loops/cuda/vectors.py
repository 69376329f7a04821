"""Vectors: neighbouring elements that one instruction reads or writes."""

import math
from collections.abc import Set

from aiocg.workers.loops.expression import Read
from aiocg.workers.loops.nest import Loop, Nest, Split

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
    *others, last = (
        [(factor, coefficient(nest, axis, loop.variable)) for axis, factor in index.terms] for index in access.indices
    )
    if any(step != 0 for index in others for _, step in index) or None in (step for _, step in last):
        return 1
    if sum(factor * (step or 0) for factor, step in last) != 1:
        return 1
    index = access.indices[-1]
    firsts = (factor * divisor(nest, axis, {loop.variable}) for axis, factor in index.terms)
    return longest(loop.extent, shape[-1], index.constant, *firsts)


def longest(*multiples: int) -> int:
    """Return the length of the longest vector of which all these are multiples; 1 if there is none."""
    common = math.gcd(*multiples)
    return next((length for length in VECTORS if common % length == 0), 1)


def coefficient(nest: Nest, variable: str, loop: str) -> int | None:
    """Return by how much a variable grows in each turn of a loop; None if not by a constant."""
    if variable == loop:
        return 1
    if loop not in nest.dependencies[variable]:
        return 0
    relation = nest.sources[variable]
    if not isinstance(relation, Split):
        return None
    outer, inner = coefficient(nest, relation.outer, loop), coefficient(nest, relation.inner, loop)
    return None if outer is None or inner is None else outer * relation.factor + inner


def divisor(nest: Nest, variable: str, inside: Set[str]) -> int:
    """Return a number that divides each value of a variable with the variables of the loops `inside` as 0.

    It is 0 if all these values are.
    """
    if nest.dependencies[variable] <= inside:
        return 0
    relation = nest.sources.get(variable)
    if not isinstance(relation, Split):
        return 1
    return math.gcd(divisor(nest, relation.outer, inside) * relation.factor, divisor(nest, relation.inner, inside))
