"""loop_tool's loop structure: its actions, its lowering, and its listing."""

from collections.abc import Iterator
from typing import NamedTuple

from aiocg.workers.loops import primitives
from aiocg.workers.loops.expression import Call, Expression, Read, Stage
from aiocg.workers.loops.nest import Kind, Nest, initial_nest

ACTIONS = {
    "toggle_mode": "switch between changing the size of the loop at the cursor, and moving the cursor",
    "up": "make the loop larger, and the one around it smaller; or move the cursor inwards",
    "down": "make the loop smaller, and the one around it larger; or move the cursor outwards",
    "toggle_thread": "have the turns of the loop carried out in parallel, or not",
    "split": "make the loop two, the inner one of size 2",
}
MAX_LOOPS = 8


class Level(NamedTuple):
    """A loop.

    Attributes:
        size: the number of iterations.
        tail: elements left over for one more iteration.
        thread: whether its iterations run in parallel.
    """

    size: int
    tail: int = 0
    thread: bool = False


class Structure(NamedTuple):
    """The loops, from the outermost to the innermost, and the target of the next action.

    Attributes:
        loops: the loops; the innermost has no tail.
        cursor: the index of the loop that actions change.
        selecting: whether `up` and `down` move the cursor; otherwise they change sizes.
    """

    loops: tuple[Level, ...]
    cursor: int = 0
    selecting: bool = False

    @classmethod
    def initial(cls, elements: int) -> "Structure":
        """Return three loops; the outermost, which is parallel, covers all elements."""
        return cls((Level(elements, thread=True), Level(1), Level(1)))

    @property
    def current(self) -> Level:
        """The loop at the cursor."""
        return self.loops[self.cursor]

    def elements(self, index: int = 0) -> int:
        """Return the elements covered by a loop, including inner loops; 1 beyond the innermost."""
        count = 1
        for loop in reversed(self.loops[index:]):
            count = loop.size * count + loop.tail
        return count

    def after(self, action: str) -> "Structure":
        """Return the structure after an action, one of `ACTIONS`; the same one if the action is not possible."""
        match action:
            case "toggle_mode":
                return self._replace(selecting=not self.selecting)
            case "toggle_thread":
                return self._with(self.cursor, self.current._replace(thread=not self.current.thread))
            case "split":
                return self._split()
        step = 1 if action == "up" else -1
        if self.selecting:
            return self._replace(cursor=(self.cursor + step) % len(self.loops))
        return self._resized(self.cursor, step)

    def _with(self, index: int, *loops: Level) -> "Structure":
        return self._replace(loops=(*self.loops[:index], *loops, *self.loops[index + len(loops) :]))

    def _resized(self, index: int, step: int) -> "Structure":
        """Make the loop larger or smaller by one, without a tail, which is first moved to the loop around it."""
        loop = self.loops[index]
        size = loop.size if step < 0 and loop.tail else loop.size + step
        if index == 0 or size < 1:
            return self
        around, tail = divmod(self.elements(index - 1), size * self.elements(index + 1))
        if around < 1:
            return self
        outer = self.loops[index - 1]._replace(size=around, tail=tail)
        return self._with(index - 1, outer, loop._replace(size=size, tail=0))

    def _split(self) -> "Structure":
        """Put another loop of size 2 inside the loop, if it is large enough."""
        if len(self.loops) == MAX_LOOPS or self.current.size < 2:
            return self
        place = self.cursor + 1
        grown = self._replace(loops=(*self.loops[:place], Level(1), *self.loops[place:]))
        return grown._resized(place, 1)


THREADS_PER_BLOCK = 256
GRID: tuple[Kind, ...] = ("block.x", "block.y", "block.z")


def lowered(structure: Structure, stage: Stage, target_name: str, chunks: int) -> Nest:
    """Return the nest.

    Args:
        structure: the loops.
        stage: a computation along one axis.
        target_name: `cpu` or `cuda`.
        chunks: the number of chunks of a parallel loop on a CPU, one per thread.
    """
    nest, parallel = _split(structure, stage)
    if not parallel:
        return nest
    return _for_blocks(nest, parallel) if target_name == "cuda" else _for_threads(nest, parallel, chunks)


def _split(structure: Structure, stage: Stage) -> tuple[Nest, list[str]]:
    """Return the loops with more than one iteration, all still serial, and the variables of the parallel ones."""
    nest = initial_nest(stage)
    parallel = []
    for index, loop in enumerate(structure.loops):
        inside, (*_, innermost) = structure.elements(index + 1), nest.loops
        if innermost.extent == inside:  # only one iteration
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
    """Split the longest parallel loop into one chunk per thread; the others stay serial."""
    variable = max(parallel, key=nest.extent.__getitem__)
    position = _position(nest, variable)
    size = -(-nest.extent[variable] // chunks)
    if size > 1 and position:
        nest = primitives.split(nest, position, size)
        variable = nest.loops[position].variable
    return primitives.set_kind(_outermost(nest, variable, 0), 0, "parallel")


def _for_blocks(nest: Nest, parallel: list[str]) -> Nest:
    """Bind the innermost parallel loop to threads, and the others, and what exceeds a block, to blocks."""
    *around, variable = parallel
    if nest.extent[variable] > THREADS_PER_BLOCK:
        nest = primitives.split(nest, _position(nest, variable), THREADS_PER_BLOCK)
        outer, inner = nest.loops[_position(nest, f"{variable}.0") :][:2]
        around, variable = [*around, outer.variable], inner.variable
    around.sort(key=nest.extent.__getitem__, reverse=True)  # only x has room for long loops
    blocks = around[: len(GRID)]
    for place, (bound, kind) in enumerate(zip(blocks, GRID, strict=False)):
        nest = primitives.set_kind(_outermost(nest, bound, place), place, kind)
    return primitives.set_kind(_outermost(nest, variable, len(blocks)), len(blocks), "thread.x")


def _position(nest: Nest, variable: str) -> int:
    return [loop.variable for loop in nest.loops].index(variable)


def _outermost(nest: Nest, variable: str, place: int) -> Nest:
    """Move a loop outwards to a position."""
    for position in range(_position(nest, variable), place, -1):
        nest = primitives.swap(nest, position - 1)
    return nest


def listing(structure: Structure, stage: Stage, mark: str) -> str:
    """Return the structure as text.

    Args:
        structure: the loops.
        stage: the computation inside them.
        mark: the text before `[thread]` at parallel loops.
    """
    innermost = len(structure.loops) - 1
    lines = [_head(structure, index, index, mark) for index in range(innermost)]
    for number, operation in enumerate(_operations(stage.body)):
        lines.append(_head(structure, innermost, innermost + 2 * number, mark))
        lines.append(f"{' ' * (innermost + 1)}%{number}[a] <- {operation}")
    return "\n".join(lines) + "\n"


def _head(structure: Structure, index: int, label: int, mark: str) -> str:
    loop = structure.loops[index]
    tail = f" r {loop.tail}" if loop.tail else ""
    thread = f" {mark}[thread]" if loop.thread else ""
    return f"{' ' * index}for a{chr(39) * index} in {loop.size}{tail} : L{label}{thread}"


def _operations(body: Expression) -> Iterator[str]:
    """Yield each operation, in the order of their numbers: reads, computations and the write."""
    found: list[str] = []

    def visit(expression: Expression) -> str:
        if isinstance(expression, Read):
            found.append("read()")
        elif isinstance(expression, Call):
            found.append(f"{expression.function}({', '.join([visit(one) for one in expression.arguments])})")
        else:
            found.append(f"constant({expression.value:g})")
        return f"%{len(found) - 1}"

    result = visit(body)
    yield from found
    yield f"write({result})"
