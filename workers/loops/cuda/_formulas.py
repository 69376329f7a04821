"""Formulas of CUDA C: the values of variables, and the places of elements."""

import math
from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from aiocg.workers.loops._expression import Affine
from aiocg.workers.loops._nest import Nest, Split

BITS = {math.inf: "__int_as_float(0x7f800000)", -math.inf: "__int_as_float(0xff800000)"}


def at_start(nest: Nest, variable: str, inside: Set[str], values: Mapping[str, str]) -> str:
    """Return a variable's value with the variables of the loops `inside` as 0.

    Args:
        nest: the loops.
        variable: any of `nest.extents`.
        inside: the loops.
        values: the value of each other loop's variable.
    """
    if nest.dependencies[variable] <= inside:
        return "0"
    relation = nest.sources.get(variable)
    if relation is None:
        return values[variable]
    if isinstance(relation, Split):
        outer, inner = (at_start(nest, each, inside, values) for each in (relation.outer, relation.inner))
        return joined([product(outer, relation.factor), inner])
    sign = "/" if variable == relation.outer else "%"
    return f"({at_start(nest, relation.fused, inside, values)}) {sign} {relation.extent}"


def from_start(nest: Nest, variable: str, inside: Set[str], values: Mapping[str, str]) -> str:
    """Return how far a variable is from its value `at_start`.

    Args:
        nest: the loops.
        variable: any of `nest.extents` that is not computed from fused loops of which only some are inside.
        inside: the loops.
        values: the value of each variable.
    """
    loops = nest.dependencies[variable]
    if loops <= inside:
        return values[variable]
    if not loops & inside:
        return "0"
    relation = nest.sources[variable]
    assert isinstance(relation, Split)
    outer, inner = (from_start(nest, each, inside, values) for each in (relation.outer, relation.inner))
    return joined([product(outer, relation.factor), inner])


def recomputed(nest: Nest, names: Mapping[str, str], changed: Mapping[str, str]) -> dict[str, str]:
    """Return the values of all variables for some values of loops' variables.

    Args:
        nest: the loops.
        names: the names of variables, which are their values elsewhere.
        changed: the values by the loops' variables.
    """
    found = {**names, **changed}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            if nest.dependencies[relation.parent] & changed.keys():
                outer = product(found[relation.outer], relation.factor)
                found[relation.parent] = joined([outer, found[relation.inner]])
        elif nest.dependencies[relation.fused] & changed.keys():
            found[relation.outer] = f"({found[relation.fused]}) / {relation.extent}"
            found[relation.inner] = f"({found[relation.fused]}) % {relation.extent}"
    return found


def fits(nest: Nest, sizes: Iterable[int], most: int) -> bool:
    """Return whether no index is greater than `most`, including those of elements beyond a guard.

    Args:
        nest: the loops.
        sizes: of tensors.
        most: the greatest index.
    """
    greatest = {loop.variable: loop.extent - 1 for loop in nest.loops}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            greatest[relation.parent] = greatest[relation.outer] * relation.factor + greatest[relation.inner]
        else:
            greatest[relation.outer] = greatest[relation.fused] // relation.extent
            greatest[relation.inner] = relation.extent - 1
    indices = (
        abs(index.constant) + sum(abs(factor) * greatest[axis] for axis, factor in index.terms)
        for read in nest.stage.reads()
        for index in read.indices
    )
    return max(*greatest.values(), *sizes, *indices) <= most


def number(value: float) -> str:
    """Return a literal: the shortest decimals that round to the same `float32`."""
    single = np.float32(value)
    if np.isinf(single):
        return BITS[float(single)]
    text = str(single)
    return f"({text}f)" if text.startswith("-") else f"{text}f"


def affine(index: Affine, values: Mapping[str, str]) -> str:
    """Return a sum of multiples of variables with these values."""
    terms = [product(values[name], factor) for name, factor in index.terms]
    constant = [str(index.constant)] if index.constant or not terms else []
    return joined([*terms, *constant])


def flat(places: Sequence[str], shape: Sequence[int]) -> str:
    """Return the position of an element in C order."""
    terms, stride = [], math.prod(shape)
    for place, extent in zip(places, shape, strict=True):
        stride //= extent
        terms.append(product(place, stride))
    return joined(terms)


def product(value: str, factor: int) -> str:
    """Return a multiple."""
    if factor == 1 or value == "0":
        return value
    return f"({value}) * {factor}" if " " in value else f"{value} * {factor}"


def joined(terms: Sequence[str]) -> str:
    """Return a sum."""
    found = [term for term in terms if term != "0" and not term.startswith("0 * ")]
    return " + ".join(found).replace("+ -", "- ") or "0"
