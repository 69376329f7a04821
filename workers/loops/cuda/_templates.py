"""Layout templates for GPUs, derived from memory accesses.

There are four kinds. Where nothing is reduced, threads go along the axis by which elements are neighbours. Where
many results are sums of few, each thread of a block has several of them in registers, and reads tiles in shared memory.
Where few results are sums of many, threads share each sum. On tensor cores, each warp of a
block has several of their tiles.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product

from aiocg.workers.loops._features import accesses, stride
from aiocg.workers.loops._layout import Layout, Place, arranged
from aiocg.workers.loops._nest import Nest, Refusal
from aiocg.workers.loops._rules import Rules, check
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops._tensor_cores import SHAPE

MOST = 60  # templates of a statement
WARP = 32
STREAMS = tuple(product((256, 128, 512), (4, 1, 2, 8)))  # threads of a block, and elements of each
TRANSPOSED = ((32, 4), (32, 8), (16, 4), (64, 4), (32, 2))  # the edge of a tile, and elements of each thread
TILES = ((16, 16, 8, 8), (16, 16, 4, 4), (8, 16, 8, 4), (8, 8, 8, 8), (8, 8, 4, 4), (16, 16, 4, 8), (16, 16, 2, 2),
         (8, 32, 8, 4), (16, 16, 1, 1), (32, 32, 4, 4))  # threads along both axes, and elements of each  # fmt: skip
WARPS = ((2, 2, 4, 8), (2, 4, 4, 4), (2, 2, 2, 4), (4, 2, 2, 8), (2, 2, 4, 4), (4, 2, 4, 8), (1, 4, 4, 4), (2, 2, 2, 2),
         (1, 2, 1, 2))  # down and across, and tiles of tensor cores that each has  # fmt: skip
DEPTHS = (16, 8, 32)  # of a tile, in turns of the longest sum
ROWS = tuple(product((256, 128, 32, 512, 64, 1024), (1, 4)))  # threads that share a sum, and neighbours that each adds
COLUMNS = tuple(product((32, 64, 128), (1, 8, 16, 4, 32)))  # results side by side, and threads that share each sum


def templates(schedule: Schedule, rules: Rules, multiprocessors: int) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for each statement, the most promising first.

    Args:
        schedule: the initial schedule.
        rules: those of the device.
        multiprocessors: of the device.
    """
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    return tuple(
        tuple(dict.fromkeys(_legal(nest, _Templates(nest, shapes, multiprocessors, rules).all(), rules)))[:MOST]
        for nest in schedule.nests
    )


def _legal(nest: Nest, layouts: Iterator[Layout], rules: Rules) -> Iterator[Layout]:
    for layout in layouts:
        fitting = _fitted(layout, nest)
        try:
            check(arranged(nest, fitting), rules)
        except Refusal:
            continue
        yield fitting


def _fitted(layout: Layout, nest: Nest) -> Layout:
    """Return a layout in which no axis has more turns than elements; the innermost loops keep theirs."""
    left, places = dict(nest.extent), []
    for place in reversed(layout):
        if place.turns:
            place = place._replace(turns=min(place.turns, left[place.axis]))
            left[place.axis] //= place.turns
        places.append(place)
    return tuple(reversed(places))


class _Templates:
    """The templates of one statement, of which some may not be legal."""

    def __init__(self, nest: Nest, shapes: dict[str, tuple[int, ...]], multiprocessors: int, rules: Rules) -> None:
        self._nest = nest
        self._tensor_cores = "tensor" in rules.kinds
        self._multiprocessors = multiprocessors
        self._read = accesses(nest.stage)[1:]
        self._strides = {
            axis: [stride(nest, read, shapes[read.tensor], axis) for read in self._read] for axis in nest.extent
        }
        long = [axis.name for axis in nest.stage.axes if axis.extent > 1]
        self._short = [Place(axis.name) for axis in nest.stage.axes if axis.extent == 1]
        self._spatial = [axis.name for axis in nest.stage.spatial if axis.name in long]
        self._reduction = [axis.name for axis in nest.stage.reduction if axis.name in long]

    def all(self) -> Iterator[Layout]:
        """Yield layouts, the most promising first."""
        if not self._reduction:
            yield from self._transposed()
            yield from self._streaming()
            return
        if self._tensor_cores and len(self._spatial) > 1:
            yield from self._for_tensor_cores()
        results = math.prod(self._nest.extent[axis] for axis in self._spatial)
        tiled = sorted(self._tiled(), key=self._cost) if len(self._spatial) > 1 else []
        rows, columns = list(self._rows()), list(self._columns())
        beside = any(self._beside(axis) for axis in self._reduction)
        if beside and results < WARP * WARP * self._multiprocessors:
            yield from (*rows, *tiled, *columns)
        else:
            yield from (*tiled, *columns, *rows)

    def _beside(self, axis: str) -> bool:
        """Return whether something is read that lies side by side along an axis."""
        return 1 in self._strides[axis]

    def _around(self, but: Sequence[str], kinds: Sequence[str]) -> tuple[list[Place], list[Place]]:
        """Return places of the other axes of the result: those that are bound to blocks, and those that are not."""
        left = [axis for axis in self._spatial if axis not in but]
        bound = [Place(axis, kind=kind) for axis, kind in zip(reversed(left), kinds, strict=False)]
        return bound, [Place(axis) for axis in left[: len(left) - len(bound)]] + self._short

    # ------------------------------------------------------------------------------------------- without sums

    def _streaming(self) -> Iterator[Layout]:
        """Yield layouts in which neighbouring threads have neighbouring results."""
        if not self._spatial:
            return
        last = self._spatial[-1]
        blocks, rest = self._around([last], ("block.y", "block.z"))
        for threads, each in STREAMS:
            places = [*blocks, Place(last, kind="block.x")]
            if blocks and threads >= 2 * self._nest.extent[last]:  # rows are short: a block has several
                places.append(Place(blocks[0].axis, threads // self._nest.extent[last], "thread.y"))
            places.append(Place(last, threads, "thread.x"))
            yield (*places, *rest, *([Place(last, each, "unroll")] if each > 1 else []))

    def _transposed(self) -> Iterator[Layout]:
        """Yield layouts in which a block copies a tile of what is read along another axis than it is written."""
        if len(self._spatial) < 2:
            return
        last = self._spatial[-1]
        turned = {
            read.tensor: axis
            for read, *along in zip(self._read, *(self._strides[axis] for axis in self._spatial), strict=True)
            for axis, step in zip(self._spatial, along, strict=True)
            if step == 1 and axis != last and along[-1]  # it lies across what is written, and differs along that
        }
        for other in dict.fromkeys(turned.values()):
            staged = tuple(tensor for tensor, axis in turned.items() if axis == other)
            blocks, rest = self._around([last, other], ("block.z",))
            for edge, each in TRANSPOSED:
                yield (
                    *blocks, Place(other, kind="block.y"), Place(last, kind="block.x"),
                    Place(other, edge // each, "thread.y"), Place(last, edge, "thread.x"), *rest,
                    Place(other, 1, staged=staged), Place(other, each, "unroll"),
                )  # fmt: skip

    # ------------------------------------------------------------------------------------------- with sums

    def _tiled(self) -> Iterator[Layout]:
        """Yield layouts in which a thread has several results along two axes, and tiles are in shared memory."""
        last, other = self._edges()
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [axis for axis in self._reduction if axis != longest]
        blocks, rest = self._around([last, other], ("block.z",))
        tensors = tuple(dict.fromkeys(read.tensor for read in self._read))
        for (down, across, high, wide), depth, kind in product(TILES, DEPTHS, ("pipeline", "serial", "")):
            steps = [Place(longest, kind=kind, staged=tensors if kind else ())]
            if 1 < depth < self._nest.extent[longest]:
                steps.append(Place(longest, depth, "unroll"))
            elif kind:
                steps = [Place(longest, 1, kind, tensors), Place(longest)]
            steps[1:1] = [Place(axis) for axis in sums]
            yield (
                *blocks, Place(other, kind="block.y"), Place(last, kind="block.x"),
                Place(other, down, "thread.y"), Place(last, across, "thread.x"), *rest, *steps,
                *(Place(axis, count, "unroll") for axis, count in ((other, high), (last, wide)) if count > 1),
            )  # fmt: skip

    def _for_tensor_cores(self) -> Iterator[Layout]:
        """Yield layouts in which a warp has several tiles of tensor cores, whose operands are in shared memory."""
        last, other = self._edges()
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [Place(axis) for axis in self._reduction if axis != longest]
        blocks, rest = self._around([last, other], ("block.z",))
        tensors = tuple(dict.fromkeys(read.tensor for read in self._read))
        rows, columns, terms = SHAPE
        for (rows_axis, columns_axis), (down, across, high, wide), depth in product(
            ((other, last), (last, other)), WARPS, (32, 16, 64, 8)
        ):
            yield (
                *blocks, Place(rows_axis, kind="block.y"), Place(columns_axis, kind="block.x"),
                Place(rows_axis, down, "thread.y"), Place(columns_axis, across, "thread.z"), *rest,
                Place(longest, kind="pipeline", staged=tensors), *sums,
                *([Place(longest, depth // terms, "unroll")] if depth > terms else []),
                Place(rows_axis, high, "unroll"), Place(columns_axis, wide, "unroll"),
                Place(rows_axis, rows, "tensorize"), Place(columns_axis, columns, "tensorize"),
                Place(longest, terms, "tensorize"),
            )  # fmt: skip

    def _edges(self) -> tuple[str, str]:
        """Return the two axes of the result along which a block has a tile: the last one, and another."""
        last, *others = reversed(self._spatial)
        return last, max(others, key=lambda axis: (self._saved(axis, last), self._nest.extent[axis]))

    def _saved(self, axis: str, last: str) -> int:
        """Return how many reads are the same along one of two axes and differ along the other."""
        return sum((one == 0) != (two == 0) for one, two in zip(self._strides[axis], self._strides[last], strict=True))

    def _cost(self, layout: Layout) -> float:
        """Return a sort key: what threads read for a multiply-add, times how little of the device they fill."""
        counts = {
            kind: [place for place in layout if place.kind == kind] for kind in ("unroll", "thread.x", "thread.y")
        }
        results = [place.turns for place in counts["unroll"] if place.axis in self._spatial]
        threads = math.prod(place.turns for kind in ("thread.x", "thread.y") for place in counts[kind])
        tile = threads * math.prod(results)
        blocks = math.prod(self._nest.extent[axis] for axis in self._spatial) / tile
        filled = min(1.0, blocks * threads / (8 * WARP * self._multiprocessors))
        staged = 1 if any(place.staged for place in layout) else 3
        waiting = 1.0 if any(place.kind == "pipeline" for place in layout) else 1.1
        return staged * waiting * (1 + sum(1 / count for count in results or [1])) / filled

    def _rows(self) -> Iterator[Layout]:
        """Yield layouts in which the threads of a row share a sum."""
        axes = sorted(self._reduction, key=lambda axis: (not self._beside(axis), -self._nest.extent[axis]))
        shared, sums = axes[0], [Place(axis) for axis in self._reduction if axis != axes[0]]
        blocks, rest = self._around([], ("block.x", "block.y", "block.z"))
        for threads, each in ROWS:
            if threads > WARP and threads * each >= 2 * self._nest.extent[shared]:
                continue
            rows = [Place(blocks[0].axis, 256 // threads, "thread.y")] if blocks and threads < 256 else []
            unrolled = [Place(shared, each, "unroll")] if each > 1 else []
            yield (*blocks, *rows, Place(shared, threads, "thread.x"), *rest, *sums, Place(shared), *unrolled)

    def _columns(self) -> Iterator[Layout]:
        """Yield layouts in which neighbouring threads have neighbouring results, and others share the sums."""
        if not self._spatial:
            return
        last = self._spatial[-1]
        longest = max(self._reduction, key=self._nest.extent.__getitem__)
        sums = [Place(axis) for axis in self._reduction]
        blocks, rest = self._around([last], ("block.y", "block.z"))
        for wide, sharing in COLUMNS:
            shared = [Place(longest, sharing, "thread.y")] if sharing > 1 else []
            yield (*blocks, Place(last, kind="block.x"), *shared, Place(last, wide, "thread.x"), *rest, *sums)
