"""The environment `loop_tool-v0` as a worker sees it."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.workers.compilation import CompilationError, Observation
from aiocg.workers.loops import _nest as nests
from aiocg.workers.loops._expression import Call, Computation, Expression, Read, Stage
from aiocg.workers.loops._kernel_session import KernelSession
from aiocg.workers.loops._nest import Kind, Nest, initial_nest
from aiocg.workers.loops._observations import FLOPS
from aiocg.workers.loops._rules import RULES
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops._targets import TARGETS, threads
from aiocg.workers.loops.session import initial_schedule

# ----------------------------------------------- loop_tool's loop structure: its actions, its lowering, and its listing

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


class _Structure(NamedTuple):
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
    def initial(cls, elements: int) -> "_Structure":
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

    def after(self, action: str) -> "_Structure":
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

    def _with(self, index: int, *loops: Level) -> "_Structure":
        return self._replace(loops=(*self.loops[:index], *loops, *self.loops[index + len(loops) :]))

    def _resized(self, index: int, step: int) -> "_Structure":
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

    def _split(self) -> "_Structure":
        """Put another loop of size 2 inside the loop, if it is large enough."""
        if len(self.loops) == MAX_LOOPS or self.current.size < 2:
            return self
        place = self.cursor + 1
        grown = self._replace(loops=(*self.loops[:place], Level(1), *self.loops[place:]))
        return grown._resized(place, 1)


THREADS_PER_BLOCK = 256
GRID: tuple[Kind, ...] = ("block.x", "block.y", "block.z")


def _lowered(structure: _Structure, stage: Stage, target_name: str, chunks: int) -> Nest:
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


def _split(structure: _Structure, stage: Stage) -> tuple[Nest, list[str]]:
    """Return the loops with more than one iteration, all still serial, and the variables of the parallel ones."""
    nest = initial_nest(stage)
    parallel = []
    for index, loop in enumerate(structure.loops):
        inside, (*_, innermost) = structure.elements(index + 1), nest.loops
        if innermost.extent == inside:  # only one iteration
            continue
        if inside > 1:
            nest = nests.split(nest, len(nest.loops) - 1, inside)
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
        nest = nests.split(nest, position, size)
        variable = nest.loops[position].variable
    return nests.set_kind(_outermost(nest, variable, 0), 0, "parallel")


def _for_blocks(nest: Nest, parallel: list[str]) -> Nest:
    """Bind the innermost parallel loop to threads, and the others, and what exceeds a block, to blocks."""
    *around, variable = parallel
    if nest.extent[variable] > THREADS_PER_BLOCK:
        nest = nests.split(nest, _position(nest, variable), THREADS_PER_BLOCK)
        outer, inner = nest.loops[_position(nest, f"{variable}.0") :][:2]
        around, variable = [*around, outer.variable], inner.variable
    around.sort(key=nest.extent.__getitem__, reverse=True)  # only x has room for long loops
    blocks = around[: len(GRID)]
    for place, (bound, kind) in enumerate(zip(blocks, GRID, strict=False)):
        nest = nests.set_kind(_outermost(nest, bound, place), place, kind)
    return nests.set_kind(_outermost(nest, variable, len(blocks)), len(blocks), "thread.x")


def _position(nest: Nest, variable: str) -> int:
    return [loop.variable for loop in nest.loops].index(variable)


def _outermost(nest: Nest, variable: str, place: int) -> Nest:
    """Move a loop outwards to a position."""
    for position in range(_position(nest, variable), place, -1):
        nest = nests.swap(nest, position - 1)
    return nest


def _listing(structure: _Structure, stage: Stage, mark: str) -> str:
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


def _head(structure: _Structure, index: int, label: int, mark: str) -> str:
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


# ------------------------------------------------------------------- The environment `loop_tool-v0` as a worker sees it

SPLITTING = tuple(ActionSpec(name, description) for name, description in ACTIONS.items())  # ends with split
SIMPLE = SPLITTING[:-1]
MARKS = {"cpu": "cpu_parallel ", "cuda": ""}


class _Benchmark(NamedTuple):
    """A computation along one axis, and its target.

    Attributes:
        target: `cpu` or `cuda`.
        computation: has one stage.
    """

    target: str
    computation: Computation


def _action_state(session: "LoopToolSession") -> NDArray[np.int64]:
    loop = session.structure.current
    return np.array([session.structure.cursor, loop.size, loop.tail], np.int64)


_ALL = (
    Observation.of(
        "action_state",
        "array",
        "The cursor, and size and tail of the loop that it is at.",
        _action_state,
        shape=(3,),
        low=0,
    ),
    Observation.of(
        "loop_tree",
        "text",
        "The loops around each operation, parallel ones marked.",
        lambda session: _listing(session.structure, session.stage, MARKS[session.benchmark.target]),
    ),
    FLOPS,
)
OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _ALL}


class LoopToolSession(KernelSession):
    """One environment: a computation on vectors, the sizes of its loops, and which of them are parallel."""

    observations = OBSERVATIONS
    compiler_version = "loop_tool, as aiocg has it"
    action_spaces = (
        ActionSpaceSpec("simple", SIMPLE, description="the sizes of three loops, and which are parallel"),
        ActionSpaceSpec("split", SPLITTING, description="the same, and making two loops of one"),
    )

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Store the options, those of `targets.open_target`. A device is opened when a benchmark targets it."""
        cls.options = dict(options)
        cls.observation_spaces = tuple(observation.spec for observation in OBSERVATIONS.values())

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> _Benchmark:
        """Parse a first line, `target cpu` or `target cuda`, followed by a computation along one axis.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if it is not one.
        """
        head, _, text = content.partition(b"\n")
        word, _, target = head.decode(errors="replace").strip().partition(" ")
        if word != "target" or target not in TARGETS:
            expected = " or ".join(f"'target {name}'" for name in TARGETS)
            raise CompilationError(FailureCode.BENCHMARK, f"the first line is to be {expected}, not {head[:40]!r}")
        computation = initial_schedule(text, target).computation
        if len(computation.stages) != 1 or len(computation.stages[0].spatial) != 1 or computation.stages[0].reduction:
            reason = "loop_tool has one statement without a reduction, for the elements of one vector"
            raise CompilationError(FailureCode.BENCHMARK, reason)
        return _Benchmark(target, computation)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise if an action is neither a name nor an index in the first space.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        if isinstance(action, str):
            if action not in ACTIONS:
                reason = f"{action!r} is not an action: there are {', '.join(ACTIONS)}"
                raise CompilationError(FailureCode.ACTION_UNKNOWN, reason)
        else:
            super().check_action(action)

    def __init__(self, benchmark: _Benchmark) -> None:
        super().__init__(benchmark.target)
        self.benchmark = benchmark
        (stage,) = benchmark.computation.stages
        self.stage = stage
        self.structure = _Structure.initial(stage.result.size)
        self._schedule: Schedule | None = None

    @property
    def schedule(self) -> Schedule:
        """The current schedule."""
        if self._schedule is None:
            target = self.benchmark.target
            nest = _lowered(self.structure, self.stage, target, threads(self.options))
            self._schedule = Schedule(self.benchmark.computation, (nest,), RULES[target])
        return self._schedule

    def apply_action(self, action: Any) -> bool:
        """Change the loops, the cursor or the mode, and return whether anything changed."""
        before = self.structure
        self.structure = before.after(SIMPLE[action].name if isinstance(action, int) else action)
        changed = self.structure.loops != before.loops
        self.acted(changed)
        if changed:
            self._schedule = None
        return self.structure != before

    def state_hash(self) -> int:
        """Return a hash of the computation, its loops, the cursor and the mode."""
        text = repr((self.benchmark, self.structure))
        return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
