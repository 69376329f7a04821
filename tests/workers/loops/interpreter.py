"""Runs loop nests element by element: slow, and simple enough to be what generated code is compared with.

Everything happens one after another, and what may happen in any order happens from the last turn to the first: those
of parallel and vectorized loops, blocks and threads. A tile is filled by the first thread of a block that comes to a
turn of its loop, for all of them; what is staged is read from there alone, where nothing but what was copied is a
number. Joined stages take turns, and what a turn has not computed yet is not a number.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops._expression import REDUCERS, Affine, Call, Computation, Expression, Number, Read
from aiocg.workers.loops._nest import THREADS, Kind, Loop, Nest, Staging
from aiocg.workers.loops._rules import Tile, groups, staged_tile

__all__ = ["iterations", "run"]

Array = NDArray[np.float32]
Variables = dict[str, int]
Value = Callable[[Variables], np.float32]

ORDERED: frozenset[Kind] = frozenset({"serial", "unrolled", "pipelined"})
OPERATIONS: Mapping[str, Callable[..., np.float32]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "max": np.maximum, "min": np.minimum,
    "neg": np.negative, "abs": np.abs, "sqrt": np.sqrt, "exp": np.exp, "log": np.log, "tanh": np.tanh,
}  # fmt: skip
COMBINATIONS = {"sum": np.add, "max": np.maximum, "min": np.minimum}


def run(computation: Computation, nests: Sequence[Nest], arrays: Sequence[Array]) -> None:
    """Carry out all stages once, in place.

    Args:
        computation: what is computed.
        nests: the loops of each of its stages.
        arrays: one for each of `Computation.tensors`, in that order: inputs are read, the others written whole.
    """
    memory = {tensor.name: array for tensor, array in zip(computation.tensors, arrays, strict=True)}
    with np.errstate(all="ignore"):
        for nest in nests:
            memory[nest.stage.tensor][...] = np.nan
        for group in groups(nests):
            bodies = [_turn_of(nest, memory) for nest in group]
            for turn in _turns(group[0].loops[0]):
                for body in bodies:
                    body(turn)


def iterations(nest: Nest) -> Iterator[Variables]:
    """Yield the values of all variables for each time that the body is carried out, axes among them, in that order."""
    return _iterations(nest, {})


def _turn_of(nest: Nest, memory: Mapping[str, Array]) -> Callable[[int], None]:
    """Return a function that carries out a turn of the outermost loop."""
    stage = nest.stage
    result = memory[stage.tensor]
    fills: dict[str, list[_Staged]] = {}
    tiles: dict[str, Callable[[tuple[int, ...]], np.float32]] = {}
    for staging in nest.stagings:
        staged = _Staged(nest, staged_tile(nest, staging), staging, memory)
        fills.setdefault(staging.variable, []).append(staged)
        tiles[staging.tensor] = staged.read
    body = _compiled(stage.body, tiles, memory)
    where = tuple(axis.name for axis in stage.spatial)
    begun = np.zeros(result.shape, bool)

    def turn(number: int) -> None:
        for variables in _iterations(nest, fills, first=(number,)):
            place = tuple(variables[name] for name in where)
            value = body(variables)
            if stage.reducer:
                before = result[place] if begun[place] else np.float32(REDUCERS[stage.reducer])
                value = COMBINATIONS[stage.reducer](before, value)
            result[place], begun[place] = value, True

    return turn


def _iterations(nest: Nest, fills: "Mapping[str, Sequence[_Staged]]", depth: int = 0,
                variables: Variables | None = None, first: Sequence[int] = ()) -> Iterator[Variables]:  # fmt: skip
    values: Variables = {} if variables is None else variables
    if depth == len(nest.loops):
        complete = nest.values(values)
        if all(complete[guard.variable] < guard.bound for guard in nest.guards):
            yield complete
        return
    loop = nest.loops[depth]
    for turn in first or _turns(loop):
        values[loop.variable] = turn
        for staged in fills.get(loop.variable, ()):
            staged.fill(values)
        yield from _iterations(nest, fills, depth + 1, values)


def _turns(loop: Loop) -> range:
    return range(loop.extent) if loop.kind in ORDERED else range(loop.extent - 1, -1, -1)


class _Staged:
    """What a tensor's tiles hold in the memory that a block's threads share, and the places they were copied from."""

    def __init__(self, nest: Nest, tile: Tile, staging: Staging, memory: Mapping[str, Array]) -> None:
        self._nest = nest
        self._tile = tile
        self._whole = memory[tile.tensor]
        variables = [loop.variable for loop in nest.loops]
        self._outside = [
            loop.variable for loop in nest.loops[: variables.index(staging.variable) + 1] if loop.kind not in THREADS
        ]
        self._filled: dict[tuple[int, ...], tuple[tuple[int, ...], Array]] = {}
        self._start: tuple[int, ...] = ()
        self._copy = np.empty(tile.shape, np.float32)

    def fill(self, loops: Variables) -> None:
        """Copy what all threads read in a turn, unless another thread has done so."""
        key = tuple(loops[variable] for variable in self._outside)
        if key not in self._filled:
            self._filled[key] = self._copied(loops)
        self._start, self._copy = self._filled[key]

    def _copied(self, loops: Variables) -> tuple[tuple[int, ...], Array]:
        """Return where a tile begins, and the tile; what is beyond the tensor is no number."""
        still = {variable: value for variable, value in loops.items() if variable not in self._tile.inside}
        variables = self._nest.values(dict.fromkeys(self._tile.inside, 0) | still)
        start = tuple(_index(index, variables) for index in self._tile.start)
        copy = np.full(self._tile.shape, np.nan, np.float32)
        for place in np.ndindex(self._tile.shape):
            source = tuple(begin + offset for begin, offset in zip(start, place, strict=True))
            if all(0 <= index < extent for index, extent in zip(source, self._whole.shape, strict=True)):
                copy[place] = self._whole[source]
        return start, copy

    def read(self, place: tuple[int, ...]) -> np.float32:
        """Return an element by its place in the whole tensor."""
        inside = tuple(index - begin for index, begin in zip(place, self._start, strict=True))
        assert min(inside) >= 0, f"{place} is before the tile of {self._tile.tensor}"
        return np.float32(self._copy[inside])


def _compiled(expression: Expression, tiles: Mapping[str, Callable[[tuple[int, ...]], np.float32]],
              memory: Mapping[str, Array]) -> Value:  # fmt: skip
    """Return a function of the variables that evaluates an expression, in float32 throughout."""
    match expression:
        case Number(value):
            constant = np.float32(value)
            return lambda variables: constant
        case Read(tensor, indices):
            read = tiles.get(tensor, memory[tensor].__getitem__)
            return lambda variables: read(tuple(_index(index, variables) for index in indices))
        case Call(function, arguments):
            operation = OPERATIONS[function]
            values = [_compiled(argument, tiles, memory) for argument in arguments]
            return lambda variables: operation(*(value(variables) for value in values))


def _index(index: Affine, variables: Variables) -> int:
    return index.constant + sum(factor * variables[name] for name, factor in index.terms)
