"""Tiles of tensors in shared memory: how the threads of a block copy them, by vectors where elements lie side by side.

Tiles are arrays of their own as long as a kernel may have them without being launched with more shared memory. A
pipelined loop has two tiles of each tensor: a turn reads one, while the other is filled for the next turn.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from contextlib import ExitStack

from aiocg.workers.loops._expression import ELEMENT_BYTES, Affine, Read, Tensor
from aiocg.workers.loops._nest import THREADS, Fusion, Loop, Nest, Split
from aiocg.workers.loops._rules import ALIGNMENT, Tile, block_threads, staged_tile, tensor_loops
from aiocg.workers.loops.cuda._formulas import Launch, Lines, Names, affine, at_start, flat, from_start, joined, product

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


ZEROS = {1: "0.0f", 2: "make_float2(0.0f, 0.0f)", 4: "make_float4(0.0f, 0.0f, 0.0f, 0.0f)"}
STATIC = 48 * 1024  # bytes of shared memory that a kernel may have without asking for them
COPIES_AT_ONCE = 4  # per thread, so that it waits for memory less often


# -------- The banks of shared memory, and rows of tiles that are longer than need be so that threads do not meet at one

# Consecutive words lie in consecutive banks. A warp reads one word from each bank at a time; threads that read the same
# word share it. So what a warp reads takes as many turns as there are different words in one bank.

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


def _row_length(nest: Nest, tile: Tile, vector: int) -> int:
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
        elements = range(0, min(len(warp) * together, math.prod(tile.shape)), together)
        starts = (element // shortest * length + element % shortest for element in elements)
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

    def place(index: Affine, start: Affine, values: Mapping[str, int]) -> int:
        moved = sum(factor * (values[axis] - warp[0][axis]) for axis, factor in index.terms)
        return index.constant - start.constant + moved

    pairs = list(zip(read.indices, tile.start, strict=True))
    return [[place(*pair, values) for pair in pairs] for values in warp]


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


# ------------------------------------------------------------------------------------ Tiles of tensors in shared memory


class Copies:
    """The tiles of a kernel.

    Args:
        nest: the loops.
        tensors: the kernel's tensors by name.
        launch: the kernel's threads.
        names: names for what the copies need.
        most: the shared memory of a block in bytes.
        taken: how much of that is for other things.

    Attributes:
        tiles: the tiles by the names of their tensors.
        shared: the shared memory that the kernel has to be launched with, in bytes.
        thread: the name of the thread's number in its block.
    """

    def __init__(
        self, nest: Nest, tensors: Mapping[str, Tensor], launch: Launch, names: Names, most: int, taken: int
    ) -> None:
        self.tiles = {staging.tensor: staged_tile(nest, staging) for staging in nest.stagings}
        self._nest = nest
        self._tensors = tensors
        self._launch = launch
        pipelined = {loop.variable for loop in nest.loops if loop.kind == "pipelined"}
        doubled = [staging.tensor for staging in nest.stagings if staging.variable in pipelined]
        self._buffers = {name: names.take(f"{name}_buffer") for name in doubled}
        widths = {name: self._width(name) for name in self.tiles}
        self._rows = {name: _row_length(nest, tile, widths[name]) for name, tile in self.tiles.items()}
        if self._bytes() + taken > most:
            self._rows = {name: tile.shape[-1] for name, tile in self.tiles.items()}
        self._widths = {name: longest(self._rows[name], width) for name, width in widths.items()}
        self.shared = self._bytes() if self._bytes() + taken > STATIC else 0
        self._names = {name: names.take(f"{name}_tile") for name in self.tiles}
        self._places = {
            name: [names.take(f"{name}_{at}") for at in range(len(tile.shape))] for name, tile in self.tiles.items()
        }
        self.thread, self._index, self._element = map(names.take, ("thread", "index", "element"))
        self._shared, self._inside = map(names.take, ("shared", "inside"))

    def declare(self, lines: Lines) -> None:
        """Write the definitions of the tiles."""
        if self.shared:
            lines.add(f"extern __shared__ __align__(16) float {self._shared}[];")
        offset = 0
        for name, tile in self.tiles.items():
            if self.shared:
                lines.add(f"float *const {self._names[name]} = {joined([self._shared, str(offset)])};")
            else:
                lines.add(f"__shared__ __align__(16) float {self._names[name]}[{self._all_words(tile)}];")
            offset += self._all_words(tile)

    def number(self, lines: Lines) -> None:
        """Write the definition of the thread's number in its block."""
        x, y, _ = self._launch.block
        lines.add(f"const int {self.thread} = threadIdx.x + {x} * (threadIdx.y + {y} * (int)threadIdx.z);")

    def write(self, lines: Lines, loop: Loop, values: Mapping[str, str], integer: str) -> None:
        """Write the copies of what is staged in a loop.

        Args:
            lines: get the copies.
            loop: the loop.
            values: the names of tensors and of the loops' variables.
            integer: the type of indices.
        """
        if loop.kind == "pipelined":
            turn = values[loop.variable]
            lines.add("finish_copies();", "__syncthreads();")
            for name in self._staged_in(loop):
                lines.add(f"const int {self._buffers[name]} = {turn} % 2 * {self._words(self.tiles[name])};")
            with lines.braces(f"if ({turn} < {loop.extent - 1})"):
                self._copy_all(lines, loop, {**values, loop.variable: f"{turn} + 1"}, integer, f"({turn} + 1) % 2")
            return
        lines.add("__syncthreads();")
        self._copy_all(lines, loop, values, integer)
        lines.add("__syncthreads();")

    def begin(self, lines: Lines, loop: Loop, values: Mapping[str, str], integer: str, *, again: bool) -> None:
        """Write what comes before a loop: if it is pipelined, the copies for its first turn.

        Args:
            lines: get the copies.
            loop: the loop.
            values: the names of tensors and of the loops' variables.
            integer: the type of indices.
            again: whether other threads may still be in the loop's last turn, because another loop is around it.
        """
        if loop.kind == "pipelined":
            if again:
                lines.add("__syncthreads();")
            self._copy_all(lines, loop, {**values, loop.variable: "0"}, integer)

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
        place = flat(places, self._shape(tile))
        if read.tensor in self._buffers:
            place = joined([self._buffers[read.tensor], place])
        return f"{self._names[read.tensor]}[{place}]"

    def _staged_in(self, loop: Loop) -> list[str]:
        return [staging.tensor for staging in self._nest.stagings if staging.variable == loop.variable]

    def _copy_all(self, lines: Lines, loop: Loop, values: Mapping[str, str], integer: str, buffer: str = "0") -> None:
        for name in self._staged_in(loop):
            first = "0" if buffer == "0" else f"{buffer} * {self._words(self.tiles[name])}"
            self._copy(lines, name, values, integer, first)

    def _shape(self, tile: Tile) -> tuple[int, ...]:
        """Return a tile's shape with the words between its rows."""
        return (*tile.shape[:-1], self._rows[tile.tensor])

    def _words(self, tile: Tile) -> int:
        """Return the words from a tile to the next one, which begins where a vector may lie."""
        return -(-ELEMENT_BYTES * math.prod(self._shape(tile)) // ALIGNMENT) * ALIGNMENT // ELEMENT_BYTES

    def _all_words(self, tile: Tile) -> int:
        return self._words(tile) * (2 if tile.tensor in self._buffers else 1)

    def _bytes(self) -> int:
        return ELEMENT_BYTES * sum(map(self._all_words, self.tiles.values()))

    def _copy(self, lines: Lines, name: str, values: Mapping[str, str], integer: str, first: str) -> None:
        tile, shape, places = self.tiles[name], self._tensors[name].shape, self._places[name]
        threads, size = self._launch.threads, math.prod(tile.shape)
        turn, element = self._index, self._element
        width = self._widths[name]
        lines.add(f"#pragma unroll {COPIES_AT_ONCE}")
        with ExitStack() as inside:
            step = threads * width
            inside.enter_context(lines.braces(f"for (int {turn} = 0; {turn} < {size}; {turn} += {step})"))
            lines.add(f"const int {element} = {joined([turn, product(self.thread, width)])};")
            if size % step:
                inside.enter_context(lines.braces(f"if ({element} < {size})"))
            digits = _digits(element, tile.shape)
            for place, start, digit in zip(places, tile.start, digits, strict=True):
                lines.add(f"const {integer} {place} = {joined([self._start(tile, start, values), digit])};")
            dimensions = zip(places, shape, tile.start, strict=True)
            bounds = [bound for dimension in dimensions for bound in self._bounds(*dimension)]
            condition = " && ".join(bounds)
            source = f"{values[name]}[{flat(places, shape)}]"
            at = element if tile.shape == self._shape(tile) else flat(digits, self._shape(tile))
            target = f"{self._names[name]}[{joined([first, at])}]"
            if name in self._buffers:
                lines.add(f"const bool {self._inside} = {condition or 'true'};")
                lines.add(f"copy_later<{width}>(&{target}, &{source}, {self._inside});")
                return
            if width > 1:
                source, target = f"*(const float{width} *)&{source}", f"*(float{width} *)&{target}"
            value = f"{condition} ? {source} : {ZEROS[width]}" if bounds else source
            lines.add(f"{target} = {value};")

    def _width(self, name: str) -> int:
        """Return how many elements of a tile are copied at once: all of them are in the tensor, or none."""
        tile, last = self.tiles[name], self._tensors[name].shape[-1]
        start = tile.start[-1]
        multiples = (factor * divisor(self._nest, axis, tile.inside) for axis, factor in start.terms)
        return longest(tile.shape[-1], last, start.constant, *multiples)

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
