"""The loops of a `loop_tool` state as a loop nest that a device carries out.

What is inside of a loop becomes the inner half of a split, and a tail what the split's guard leaves of the last turn.
Parallel loops, in whichever order they are, are what a device does at the same time. Elements do not depend on each
other, so these loops may be moved outwards, where devices have them.
"""

from aiocg.workers.loops import primitives
from aiocg.workers.loops.expression import Stage
from aiocg.workers.loops.nest import Kind, Nest, initial_nest
from aiocg.workers.loops.tool.structure import Structure

__all__ = ["lowered"]

THREADS_PER_BLOCK = 256
GRID: tuple[Kind, ...] = ("block.x", "block.y", "block.z")


def lowered(structure: Structure, stage: Stage, target_name: str, chunks: int) -> Nest:
    """Return the nest.

    Args:
        structure: the loops.
        stage: what is computed, along one axis.
        target_name: `cpu` or `cuda`.
        chunks: in how many pieces a parallel loop is cut on a processor, one for each of its threads.
    """
    nest, parallel = _split(structure, stage)
    if not parallel:
        return nest
    return _for_blocks(nest, parallel) if target_name == "cuda" else _for_threads(nest, parallel, chunks)


def _split(structure: Structure, stage: Stage) -> tuple[Nest, list[str]]:
    """Return the loops that have more than one turn, all serial yet, and the variables of the parallel ones."""
    nest = initial_nest(stage)
    parallel = []
    for index, loop in enumerate(structure.loops):
        inside, (*_, innermost) = structure.elements(index + 1), nest.loops
        if innermost.extent == inside:  # one turn only
            continue
        if inside > 1:
            nest = primitives.split(nest, len(nest.loops) - 1, inside)
            innermost = nest.loops[-2]
        if loop.thread:
            parallel.append(innermost.variable)
        if inside == 1:
            break
    return nest, parallel


def _for_threads(nest: Nest, parallel: list[str], chunks: int) -> Nest:
    """Cut the longest parallel loop in pieces, of which each thread has one; the others stay as they are."""
    variable = max(parallel, key=nest.extent.__getitem__)
    position = _position(nest, variable)
    size = -(-nest.extent[variable] // chunks)
    if size > 1 and position:
        nest = primitives.split(nest, position, size)
        variable = nest.loops[position].variable
    return primitives.set_kind(_outermost(nest, variable, 0), 0, "parallel")


def _for_blocks(nest: Nest, parallel: list[str]) -> Nest:
    """Make threads of the innermost parallel loop, and blocks of the others and of what no block has room for."""
    *around, variable = parallel
    if nest.extent[variable] > THREADS_PER_BLOCK:
        nest = primitives.split(nest, _position(nest, variable), THREADS_PER_BLOCK)
        outer, inner = nest.loops[_position(nest, f"{variable}.0") :][:2]
        around, variable = [*around, outer.variable], inner.variable
    around.sort(key=nest.extent.__getitem__, reverse=True)  # what is long has room in x only
    blocks = around[: len(GRID)]
    for place, (bound, kind) in enumerate(zip(blocks, GRID, strict=False)):
        nest = primitives.set_kind(_outermost(nest, bound, place), place, kind)
    return primitives.set_kind(_outermost(nest, variable, len(blocks)), len(blocks), "thread.x")


def _position(nest: Nest, variable: str) -> int:
    return [loop.variable for loop in nest.loops].index(variable)


def _outermost(nest: Nest, variable: str, place: int) -> Nest:
    """Move a loop outwards to a place."""
    for position in range(_position(nest, variable), place, -1):
        nest = primitives.swap(nest, position - 1)
    return nest
