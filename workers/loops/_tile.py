"""Tiles of tensors in shared memory: their shape and origin."""

import math
from collections.abc import Sequence, Set
from typing import NamedTuple

from aiocg.workers.loops._expression import ELEMENT_BYTES, Affine
from aiocg.workers.loops._nest import THREADS, Fusion, Nest, Refusal, Staging

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
    inside = frozenset(variables[variables.index(staging.variable) + 1 :]) | {
        loop.variable for loop in nest.loops if loop.kind in THREADS
    }
    reads = [read for read in nest.stage.reads() if read.tensor == staging.tensor]
    first, *others = reads
    for other in others:
        if any(a.terms != b.terms for a, b in zip(first.indices, other.indices, strict=True)):
            raise Refusal(f"{nest.stage.tensor} reads {staging.tensor} in more than one order")
    ranges = [_range(nest, [read.indices[i] for read in reads], inside) for i in range(len(first.indices))]
    return Tile(
        staging.tensor, tuple(extent for extent, _ in ranges), tuple(start for _, start in ranges), frozenset(inside)
    )


def staged_bytes(nest: Nest) -> int:
    """Return the bytes of all tiles, each of which begins where a vector may lie.

    A pipelined loop has two of each, one to compute with and one to copy to.
    """
    kinds = {loop.variable: loop.kind for loop in nest.loops}
    return sum(
        -(-staged_tile(nest, staging).size // ALIGNMENT)
        * ALIGNMENT
        * (2 if kinds[staging.variable] == "pipelined" else 1)
        for staging in nest.stagings
    )


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
