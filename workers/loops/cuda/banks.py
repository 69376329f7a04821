"""The banks of shared memory, and rows of tiles that are longer than need be so that threads do not meet at one.

Consecutive words lie in consecutive banks. A warp reads one word from each bank at a time; threads that read the same
word share it. So what a warp reads takes as many turns as there are different words in one bank.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from aiocg.workers.loops._tensor_cores import tensor_loops
from aiocg.workers.loops.cuda._vectors import longest, width
from aiocg.workers.loops.expression import Read
from aiocg.workers.loops.nest import THREADS, Nest
from aiocg.workers.loops.rules import block_threads
from aiocg.workers.loops.tile import Tile

BANKS = 32
WARP = 32  # threads


def turns(starts: Iterable[int], length: int) -> int:
    """Return the turns in which a warp reads or writes.

    Args:
        starts: the first word of each thread.
        length: the words of each thread.
    """
    words = {start + offset for start in starts for offset in range(length)}
    return max(Counter(word % BANKS for word in words).values())


def row_length(nest: Nest, tile: Tile, vector: int) -> int:
    """Return the distance between a tile's rows in words at which its reads and copies take the fewest turns.

    Args:
        nest: the loops.
        tile: the tile.
        vector: how many elements are copied at once, where rows begin at multiples of that.
    """
    shortest = tile.shape[-1]
    if math.prod(tile.shape) == shortest:
        return shortest
    warp = _warp(nest)
    reads = [read for read in dict.fromkeys(nest.stage.reads()) if read.tensor == tile.tensor]
    found = [(_places(nest, tile, read, warp), *_work(nest, tile, read)) for read in reads]
    threads = math.prod(block_threads(nest).values())

    def cost(length: int) -> float:
        total = 0.0
        for places, count, vectors in found:
            together = longest(length, vectors)
            starts = (_flat(place, tile.shape, length) for place in places)
            total += count / together * turns(starts, together)
        together = longest(length, vector)
        copied = math.prod(tile.shape) / (threads * together)
        starts = (
            element // shortest * length + element % shortest
            for element in range(0, min(len(warp) * together, math.prod(tile.shape)), together)
        )
        return total + copied * (1 + turns(starts, together))

    return min(range(shortest, shortest + BANKS), key=lambda length: (cost(length), length))


def _warp(nest: Nest) -> list[dict[str, int]]:
    """Return the values of all variables for the first threads of a block, with all other loops in their first turn."""
    if tensor := tensor_loops(nest):  # the lanes, as `tensor_code` says
        groups = ({tensor.rows: lane // 4, tensor.columns: lane // 4, tensor.terms: lane % 4} for lane in range(WARP))
        return [nest.values({loop.variable: own.get(loop, 0) for loop in nest.loops}) for own in groups]
    loops = sorted((loop for loop in nest.loops if loop.kind in THREADS), key=lambda loop: loop.kind)
    found = []
    for thread in range(min(WARP, math.prod(loop.extent for loop in loops))):
        values = {loop.variable: 0 for loop in nest.loops}
        for loop in loops:
            thread, values[loop.variable] = divmod(thread, loop.extent)
        found.append(nest.values(values))
    return found


def _places(nest: Nest, tile: Tile, read: Read, warp: Sequence[dict[str, int]]) -> list[list[int]]:
    """Return where each thread of a warp reads a tile, along each dimension."""
    return [
        [
            index.constant
            - start.constant
            + sum(factor * (values[axis] - warp[0][axis]) for axis, factor in index.terms)
            for index, start in zip(read.indices, tile.start, strict=True)
        ]
        for values in warp
    ]


def _work(nest: Nest, tile: Tile, read: Read) -> tuple[int, int]:
    """Return how many elements a thread reads for each copy of a tile, and how many of them at once."""
    needed = {loop for axis in read.axes for loop in nest.dependencies[axis] & tile.inside}
    loops = [loop for loop in nest.loops if loop.variable in needed and loop.kind not in THREADS]
    unrolled = (loop for loop in loops if loop.kind == "unrolled")
    vectors = max((width(nest, read, tile.shape, loop) for loop in unrolled), default=1)
    shared = WARP if any(loop.kind == "tensor" for loop in loops) else 1
    return math.prod(loop.extent for loop in loops) // shared, vectors


def _flat(places: Sequence[int], shape: Sequence[int], length: int) -> int:
    found = 0
    for place, extent in zip(places[:-1], shape[:-1], strict=True):
        found = found * extent + place
    return found * length + places[-1]
