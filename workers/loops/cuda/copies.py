"""Tiles of tensors in shared memory: how all threads of a block copy them, and where a thread finds an element."""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from aiocg.workers.loops.cuda.formulas import affine, at_start, flat, from_start, joined
from aiocg.workers.loops.cuda.geometry import Launch, Lines, Names
from aiocg.workers.loops.expression import Affine, Read, Tensor
from aiocg.workers.loops.nest import Loop, Nest
from aiocg.workers.loops.tile import Tile, staged_tile

COPIES_AT_ONCE = 4  # per thread, so that it waits for memory less often


class Copies:
    """The tiles of a kernel.

    Args:
        nest: the loops.
        tensors: the kernel's tensors by name.
        launch: the kernel's threads.
        names: names for what the copies need.

    Attributes:
        tiles: the tiles by the names of their tensors.
    """

    def __init__(self, nest: Nest, tensors: Mapping[str, Tensor], launch: Launch, names: Names) -> None:
        self.tiles = {staging.tensor: staged_tile(nest, staging) for staging in nest.stagings}
        self._nest = nest
        self._tensors = tensors
        self._launch = launch
        self._names = {name: names.take(f"{name}_tile") for name in self.tiles}
        self._places = {
            name: [names.take(f"{name}_{at}") for at in range(len(tile.shape))] for name, tile in self.tiles.items()
        }
        self._thread, self._index, self._element = map(names.take, ("thread", "index", "element"))

    def declare(self, lines: Lines) -> None:
        """Write the definitions of the tiles, and of the thread's number in its block."""
        if not self.tiles:
            return
        for name, tile in self.tiles.items():
            lines.add(f"__shared__ float {self._names[name]}[{math.prod(tile.shape)}];")
        x, y, _ = self._launch.block
        lines.add(f"const int {self._thread} = threadIdx.x + {x} * (threadIdx.y + {y} * (int)threadIdx.z);")

    def write(self, lines: Lines, loop: Loop, values: Mapping[str, str], integer: str) -> None:
        """Write the copies of what is staged in a loop.

        Args:
            lines: get the copies.
            loop: the loop.
            values: the names of tensors and of the loops' variables.
            integer: the type of indices.
        """
        lines.add("__syncthreads();")
        for staging in self._nest.stagings:
            if staging.variable == loop.variable:
                self._copy(lines, staging.tensor, values, integer)
        lines.add("__syncthreads();")

    def element(self, read: Read, values: Mapping[str, str]) -> str:
        """Return an element of a tile.

        Args:
            read: the element.
            values: the values of variables.
        """
        tile = self.tiles[read.tensor]
        places = []
        for index, start in zip(read.indices, tile.start, strict=True):
            inside = {axis: from_start(self._nest, axis, tile.inside, values) for axis, _ in index.terms}
            places.append(affine(Affine(index.constant - start.constant, index.terms), inside))
        return f"{self._names[read.tensor]}[{flat(places, tile.shape)}]"

    def _copy(self, lines: Lines, name: str, values: Mapping[str, str], integer: str) -> None:
        tile, shape, places = self.tiles[name], self._tensors[name].shape, self._places[name]
        threads, size = self._launch.threads, math.prod(tile.shape)
        turn, element = self._index, self._element
        lines.add(f"#pragma unroll {COPIES_AT_ONCE}")
        with ExitStack() as inside:
            inside.enter_context(lines.braces(f"for (int {turn} = 0; {turn} < {size}; {turn} += {threads})"))
            lines.add(f"const int {element} = {turn} + {self._thread};")
            if size % threads:
                inside.enter_context(lines.braces(f"if ({element} < {size})"))
            for place, start, digit in zip(places, tile.start, _digits(element, tile.shape), strict=True):
                lines.add(f"const {integer} {place} = {joined([self._start(tile, start, values), digit])};")
            bounds = [
                bound
                for place, extent, start in zip(places, shape, tile.start, strict=True)
                for bound in self._bounds(place, extent, start)
            ]
            source = f"{values[name]}[{flat(places, shape)}]"
            value = f"{' && '.join(bounds)} ? {source} : 0.0f" if bounds else source
            lines.add(f"{self._names[name]}[{element}] = {value};")

    def _start(self, tile: Tile, start: Affine, values: Mapping[str, str]) -> str:
        return affine(start, {axis: at_start(self._nest, axis, tile.inside, values) for axis, _ in start.terms})

    def _bounds(self, place: str, extent: int, start: Affine) -> list[str]:
        """Return the conditions under which an index is within its tensor, where a guard may let it leave that."""
        axes = {axis for axis, _ in start.terms}
        if not any(axes & self._nest.axes[guard.variable] for guard in self._nest.guards):
            return []
        first = [f"{place} >= 0"] if start.constant < 0 or any(factor < 0 for _, factor in start.terms) else []
        return [*first, f"{place} < {extent}"]


def _digits(element: str, shape: Sequence[int]) -> list[str]:
    """Return an element's index along each dimension of a shape."""
    digits, stride = [], math.prod(shape)
    for extent in shape:
        digit = element if stride == math.prod(shape) else f"{element} % {stride}"
        stride //= extent
        digits.append(digit if stride == 1 else f"{digit} / {stride}")
    return digits
