"""Layout templates for CPUs, derived from memory accesses.

They choose an axis for the vectors, results to keep in registers, parts of sums that caches hold, and the order of the
loops around. All of it follows from strides, extents and the device, so it does not matter what is computed.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from aiocg.workers.loops._features import accesses, stride
from aiocg.workers.loops._layout import Layout, Place
from aiocg.workers.loops._nest import Nest
from aiocg.workers.loops._rules import VECTORS
from aiocg.workers.loops._schedule import Schedule

MOST = 60  # templates of a statement
TILES = (8, 4)  # tiles in these with vectors along the best axis, and along the second
WORTH_THREADS = 1 << 17  # operations of a statement that are worth starting threads for
BLOCKS = (64, 128, 256)  # turns of the parts that a sum is done in
ROWS = (1, 2, 3, 4, 6, 8, 12, 14, 16, 24)  # results kept in registers along an axis, in vectors
SPARE = 2  # registers for what is read


class Machine(NamedTuple):
    """What a processor has, which decides what schedules are worth trying.

    Attributes:
        vector: `float32` elements of a vector.
        registers: vectors that registers hold.
        threads: threads that share a parallel loop.
    """

    vector: int
    registers: int
    threads: int


class _Tile(NamedTuple):
    """What is done at once: a vector, and copies of it.

    Attributes:
        axis: the axis that vectors go along.
        width: elements of a vector.
        copies: other axes with the copies along each.
    """

    axis: str
    width: int
    copies: tuple[tuple[str, int], ...]

    @property
    def inside(self) -> dict[str, int]:
        """The turns that an axis has inside the tile."""
        return {**dict(self.copies), self.axis: self.width}


def templates(schedule: Schedule, machine: Machine) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for each statement, the most promising first.

    Args:
        schedule: the initial schedule.
        machine: what the device has.
    """
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    strides = ({axis: _strides(nest, axis, shapes) for axis in nest.extent} for nest in schedule.nests)
    return tuple(_Templates(nest, found, machine).best() for nest, found in zip(schedule.nests, strides, strict=True))


def _strides(nest: Nest, axis: str, shapes: dict[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return how far apart an axis' turns are in the result, and then in what is read, in elements."""
    return tuple(stride(nest, access, shapes[access.tensor], axis) for access in accesses(nest.stage))


class _Templates:
    """The templates of one statement."""

    def __init__(self, nest: Nest, strides: dict[str, tuple[int, ...]], machine: Machine) -> None:
        self.nest = nest
        self.strides = strides
        self.machine = machine
        self.spatial = [axis.name for axis in nest.stage.spatial]
        self.reduction = [axis.name for axis in nest.stage.reduction]

    def best(self) -> tuple[Layout, ...]:
        found: dict[Layout, None] = {}
        groups = [list(self._layouts(tile)) for tile in self._tiles()]
        for rank in range(max(map(len, groups), default=0)):  # each tile in its first order, before any in its second
            found |= dict.fromkeys(group[rank] for group in groups if rank < len(group))
        return tuple(found)[:MOST]

    # ------------------------------------------------------------------------------------------- tiles

    def _tiles(self) -> list[_Tile]:
        """Return tiles, those first that need the fewest loads for a result and use the registers."""
        found = []
        for axis, count in zip(self._vector_axes(), TILES, strict=False):
            found += sorted(dict.fromkeys(self._tiles_along(axis)), key=self._cost)[:count]
        return sorted(found, key=self._cost)

    def _vector_axes(self) -> list[str]:
        """Return the axes along which elements lie close to each other and which are long, the best first."""
        axes = [axis for axis, extent in self.nest.extent.items() if extent > 1]
        return sorted(axes, key=lambda axis: (self._scattered(axis) + self._narrow(self.nest.extent[axis]),
                                              axis in self.reduction, -self.nest.extent[axis]))  # fmt: skip

    def _scattered(self, axis: str) -> int:
        """Return the sum of an axis's strides over all accesses, each at most a vector; 0 and 1 count as nothing.

        What is written counts twice.
        """
        written, *read = (min(abs(step), self.machine.vector) * (step not in (0, 1)) for step in self.strides[axis])
        return 2 * written + sum(read)

    def _narrow(self, width: int) -> float:
        """Return how many times as wide a vector might be."""
        return max(1.0, self.machine.vector / width)

    def _tiles_along(self, axis: str) -> Iterator[_Tile]:
        extent, length = self.nest.extent[axis], self.machine.vector
        widths = [width for width in VECTORS if width <= extent and (width >= length or 2 * width > extent)]
        copied = sorted((one for one in self.spatial if one != axis), key=lambda one: (-self._shared(one), one))
        copied = [one for one in copied if self.nest.extent[one] > 1][:2]
        for width in widths:
            for counts in product(ROWS, repeat=len(copied)):
                copies = tuple((one, count) for one, count in zip(copied, counts, strict=True) if count > 1)
                if all(count <= self.nest.extent[one] for one, count in copies):
                    tile = _Tile(axis, width, copies)
                    if self._registers(tile) <= self.machine.registers - SPARE:
                        yield tile

    def _shared(self, axis: str) -> int:
        """Return how many reads are the same for all turns of an axis."""
        return sum(step == 0 for step in self.strides[axis][1:])

    def _registers(self, tile: _Tile) -> int:
        """Return how many registers the results of a tile take."""
        return math.prod(count for _, count in tile.copies) * max(1, tile.width // self.machine.vector)

    def _cost(self, tile: _Tile) -> tuple[float, ...]:
        """Return a sort key: the estimated cost of a vector of results, then more vectors first, then the narrower."""
        vectors = self._registers(tile)
        loads = 0.0
        for access in range(1, len(self.strides[tile.axis])):
            along = {axis: count for axis, count in tile.copies if self.strides[axis][access]}
            wide = max(1, tile.width // self.machine.vector) if self.strides[tile.axis][access] else 1
            loads += math.prod(along.values()) * wide
        waste = math.prod(-(-self.nest.extent[axis] // count) * count / self.nest.extent[axis]
                          for axis, count in tile.inside.items())  # fmt: skip
        chains = 8 / min(8, vectors) if self.reduction else 1.0  # too few sums at once wait for each other
        cost = self._scattered(tile.axis) + loads / vectors + 1
        streams = 1 + math.prod(count for _, count in tile.copies) / 100  # which caches and prefetchers follow
        return (cost * waste * chains * streams * self._narrow(tile.width), -vectors, tile.width)

    # ------------------------------------------------------------------------------------------- loops around

    def _layouts(self, tile: _Tile) -> Iterator[Layout]:
        """Yield the loops around a tile: in textual order, with the vectors' axis outermost, and sums in parts."""
        inner = [Place(axis, count, "unroll") for axis, count in tile.copies]
        inner.append(Place(tile.axis, tile.width, "vectorize"))
        around = [axis for axis in self.spatial if self.nest.extent[axis] > tile.inside.get(axis, 0)]
        sums = [Place(axis) for axis in self.reduction if self.nest.extent[axis] > tile.inside.get(axis, 0)]
        turned = sorted(around, key=lambda axis: axis != tile.axis)
        orders = [around] if turned == around else [around, turned]
        for order in orders:
            yield self._whole([Place(axis) for axis in order], sums, inner, tile)
        longest = max(self.reduction, key=self.nest.extent.__getitem__, default="")
        width = tile.inside.get(longest, 1)
        for block in (one for one in BLOCKS if longest and 2 * one <= self.nest.extent[longest] and one > width):
            parts = [Place(one.axis, block // width) if one.axis == longest else one for one in sums]
            for order in orders:
                first = [Place(axis) for axis in order]
                yield self._whole([*first[:1], Place(longest), *first[1:]], parts, inner, tile)

    def _whole(self, outer: list[Place], sums: list[Place], inner: Sequence[Place], tile: _Tile) -> Layout:
        """Return a layout with its outermost loop shared by threads, and axes that tiles take whole left to these."""
        places = [*outer, *sums, *inner]
        if self._is_shared(places[0], tile):
            places[0] = places[0]._replace(kind="parallel")
        return tuple(places)

    def _is_shared(self, place: Place, tile: _Tile) -> bool:
        turns = self.nest.extent[place.axis] // tile.inside.get(place.axis, 1)
        enough = turns >= self.machine.threads > 1 and self.nest.stage.flops >= WORTH_THREADS
        return enough and place.axis in self.spatial and not (place.turns or place.kind)
