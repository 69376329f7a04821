"""Sessions of `loops-v0`: the schedule of a computation."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product, starmap
from typing import Any, ClassVar, ParamSpec

from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.transport.options import UNSET, Option, OptionReader
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._kernel_session import KernelSession
from aiocg.workers.loops._language import LanguageError, parse
from aiocg.workers.loops._nest import BLOCKS, THREADS, Nest, Refusal
from aiocg.workers.loops._observations import OBSERVATIONS, observation_spaces
from aiocg.workers.loops._rules import Rules, check_joins
from aiocg.workers.loops._schedule import (
    MAX_LOOPS,
    Layout,
    Place,
    Schedule,
    Step,
    arrange,
    arranged,
    read_layouts,
    steps,
)

# ------------------ The actions of `loops-v0`: schedule steps, for a loop given by number or for the loop at the cursor

# A step without `loop=` applies to the loop at the cursor: `reorder`, `split<factor=8>`. Two more actions move the
# cursor.
#
# A recipe is a whole schedule as one action: up to `PLACES` steps, applied to the initial schedule. Illegal steps are
# skipped, and loop numbers wrap around, so that most steps have an effect. The recipe `schedule
# 1:split<loop=2;factor=8> 3:reorder<loop=0>` has two steps, at places 1 and 3. A schedule is thus one choice per place,
# as a command line is one per option, and can be searched in the same way.

P = ParamSpec("P")
CURSOR_MOVES = {"cursor_up": -1, "cursor_down": 1}
RECIPE = "schedule"  # the first word of a recipe
PLACES = 12  # maximal steps in a recipe
_LOOPS = 12  # loops that recipe steps can name; few nests have more
_FACTORS = (2, 4, 8, 16, 32, 64)  # split factors in recipes

_AT_CURSOR = re.compile(r"(?P<primitive>[a-z]+)(?:<(?P<argument>[a-z]+=[a-z0-9.]+)>)?")

_WHAT = {
    "split": "make two loops of one, the inner one of so many turns",
    "reorder": "exchange a loop and the next inner one",
    "fuse": "make one loop of a loop and the next inner one",
    "unroll": "repeat the body of a loop for each of its turns",
    "vectorize": "do all turns of a loop at once, by vector instructions",
    "parallel": "distribute the turns of a loop over threads",
    "serial": "do the turns of a loop one after the other",
    "pipeline": "copy what the next turn of a loop reads of the tensors staged in it while a turn is computed",
    "tensorize": "have tensor cores carry out a loop of 16 turns and the two of 8 inside it",
    "join": "do each turn of a stage's outermost loop after the same turn of that of the stage before",
    "bind": "have each turn of a loop done by another block or thread of the device",
    "stage": "copy what each turn of a loop reads of a tensor to the memory that a block shares",
}


@cache
def _offered(target: str) -> tuple[str, ...]:
    """Return the texts of the steps that are offered for a target, in the order of the first space."""
    return tuple(step.text for step in steps(target))


def _resolve(action: str, cursor: int) -> Step:
    """Parse an action that is a step, not a move of the cursor.

    Args:
        action: a text.
        cursor: the number of the loop to use if the text names none.

    Raises:
        ValueError: if it is not a step.
    """
    found = _AT_CURSOR.fullmatch(action)
    if found and "loop=" not in action:
        argument = f";{found['argument']}" if found["argument"] else ""
        action = f"{found['primitive']}<loop={cursor}{argument}>"
    return Step.parse(action)


def _action_spaces(target: str) -> tuple[ActionSpaceSpec, ...]:
    """Return the action spaces for a target."""
    primitives = _primitives(target)
    moved = [
        ActionSpec("cursor_up", "go to the loop before, which is the next outer one of a stage"),
        ActionSpec("cursor_down", "go to the loop behind, which is the next inner one of a stage"),
    ]
    for primitive, arguments in primitives.items():
        names = [f"{primitive}<{argument}>" for argument in arguments] or [primitive]
        moved += [ActionSpec(name, _WHAT[primitive]) for name in names]
    single = tuple(ActionSpec(step.text, _WHAT[step.primitive]) for step in steps(target))
    return (
        ActionSpaceSpec("steps", single, description="one change of one loop"),
        ActionSpaceSpec(
            "primitives",
            tuple(starmap(_parametrized, primitives.items())),
            kind="parametrized",
            description="a primitive, the number of a loop, and what else the primitive takes",
        ),
        ActionSpaceSpec("cursor", tuple(moved), description="moves of a cursor, and changes of the loop that it is at"),
        ActionSpaceSpec(
            "recipes",
            kind="options",
            options=_places(target),
            program=RECIPE,
            description=f"whole schedules: {PLACES} steps from the start, or fewer",
        ),
    )


def _read_recipe(target: str, text: str) -> tuple[Step, ...]:
    """Return the steps of a recipe.

    Raises:
        ValueError: if it is not a recipe.
    """
    options = _places(target)
    choices = _reader(target).read(text.split(" ")[1:])
    made = (option.word(choice) for option, choice in zip(options, choices, strict=True) if choice != UNSET)
    return tuple(Step.parse(word.partition(":")[2]) for word in made)


@cache
def _places(target: str) -> tuple[Option, ...]:
    offered = steps(target, loops=_LOOPS)
    kept = [one for one in offered if one.primitive not in ("split", "serial") or one.argument in _FACTORS]
    texts = [(place, tuple(f"{place}:{one.text}" for one in kept)) for place in range(1, PLACES + 1)]
    return tuple(Option(str(place), "enum", f"the step at place {place}", own) for place, own in texts)


@cache
def _reader(target: str) -> OptionReader:
    return OptionReader(_places(target))


def _primitives(target: str) -> dict[str, list[str]]:
    """Return the primitives on offer, in the order of the steps.

    Returns:
        by primitive the texts after the loop, such as `factor=8`; none if the primitive takes only a loop.
    """
    found: dict[str, list[str]] = {}
    for step in steps(target):
        if step.loop == 0:
            _, _, argument = step.text.removesuffix(">").partition(";")
            found.setdefault(step.primitive, []).extend([argument] if argument else [])
    return found


def _parametrized(primitive: str, arguments: Sequence[str]) -> ActionSpec:
    parameters = [ActionParameter("loop", tuple(f"loop={number}" for number in range(MAX_LOOPS)))]
    if arguments:
        parameters.append(ActionParameter(arguments[0].partition("=")[0], tuple(arguments)))
    return ActionSpec(primitive, _WHAT[primitive], text=f"{primitive}$<>", parameters=tuple(parameters))


# ----------------------------------------- Layouts in which stages are joined, derived from the templates of each stage

# The templates' loops stay as they are, but for the shared axis, which becomes the outermost loop. Stages fit together
# if a turn of it has as many elements in each, and a block as many threads.

MOST = 24  # schedules
LENGTHS = {"cpu": (1, 8, 4, 2, 16), "cuda": (1, 4)}  # elements of the shared axis in a turn
SHARING = (256, 128, 512, 64, 32, 1024)  # threads that go along another axis
RANKS = 3  # of the templates of a stage that are tried

Key = tuple[int, int]  # the length of a turn, and the threads of a block


def joined_layouts(schedule: Schedule, templates: Sequence[Sequence[Layout]]) -> tuple[tuple[Layout, ...], ...]:
    """Return layouts for all stages in which some are joined, the most promising first; none if none can be.

    Args:
        schedule: the initial schedule.
        templates: layouts for each stage, the most promising first.
    """
    alone = tuple(layouts[0] if layouts else () for layouts in templates)
    together: list[list[tuple[Layout, ...]]] = []
    first = 0
    while first < len(alone):
        after = first + 1
        for axes in _joinable(schedule.nests[first:], schedule.rules):
            found = _combinations(schedule.nests[first:], axes, templates[first:], schedule.rules)
            if found:
                after = first + len(axes)
                together.append([(*alone[:first], *layouts, *alone[after:]) for layouts in found])
                break
        first = after
    legal: dict[tuple[Layout, ...], None] = {}
    for rank in range(max(map(len, together), default=0)):
        for group in together:
            if rank < len(group) and _is_legal(schedule, group[rank]):
                legal[group[rank]] = None
    return tuple(legal)[:MOST]


def _is_legal(schedule: Schedule, layouts: tuple[Layout, ...]) -> bool:
    try:
        arrange(schedule, layouts)
    except Refusal:
        return False
    return True


def _joinable(nests: Sequence[Nest], rules: Rules) -> list[list[str]]:
    """Return axes by which stages can be joined to the first one, those of the most stages first."""
    grown = (_grown(nests, axis.name, rules) for axis in nests[0].stage.spatial)
    return sorted((axes for axes in grown if len(axes) > 1), key=len, reverse=True)


def _grown(nests: Sequence[Nest], axis: str, rules: Rules) -> list[str]:
    """Return the axes by which stages can be joined to the first one along one of its axes."""
    axes, group = [axis], [_outermost(nests[0], axis, "block.x" if rules.shared_memory else "")]
    for nest in nests[1:]:
        for own in nest.stage.spatial:
            trial = _outermost(nest, own.name, "join")
            try:
                check_joins([*group, trial], rules)
            except Refusal:
                continue
            axes.append(own.name)
            group.append(trial)
            break
        else:
            break
    return axes


def _outermost(nest: Nest, axis: str, kind: str) -> Nest:
    return arranged(nest, (Place(axis, kind=kind), *(Place(one) for one in nest.axes if one != axis)))


def _combinations(
    nests: Sequence[Nest], axes: Sequence[str], templates: Sequence[Sequence[Layout]], rules: Rules
) -> list[tuple[Layout, ...]]:
    """Return layouts of joined stages that fit together, those of the best templates first."""
    members: list[dict[Key, list[Layout]]] = []
    for nest, axis, layouts in zip(nests, axes, templates, strict=False):
        found: dict[Key, list[Layout]] = {}
        for layout in layouts:
            for key, own in _led(layout, axis, nest.extent, rules, leads=not members):
                if own not in found.setdefault(key, []):
                    found[key].append(own)
        members.append(found)
    common = [key for key in members[0] if all(key in member for member in members)]
    ranks = sorted(product(range(RANKS), repeat=2), key=sum)  # of stages with sums, and of those without
    chosen = [[pair[not nest.stage.reducer] for nest in nests[: len(members)]] for pair in ranks]
    return [
        tuple(member[key][min(at, len(member[key]) - 1)] for at, member in zip(rank, members, strict=True))
        for rank in chosen
        for key in common
    ]


def _led(
    layout: Layout, axis: str, extent: Mapping[str, int], rules: Rules, *, leads: bool
) -> Iterator[tuple[Key, Layout]]:
    """Yield variants of a layout in which an axis is outermost, for several lengths and blocks."""
    others = [place for place in layout if (place.axis, place.turns) != (axis, 0)]
    if len(others) == len(layout):
        return  # there is no loop that goes over the whole axis
    inner = [place._replace(kind="") if place.kind in (*BLOCKS, "parallel") else place for place in others]
    inner = [place for place in inner if place.kind not in THREADS]
    kind = "parallel" * any(place.kind == "parallel" for place in layout)
    threads: list[list[Place]] = [[]]
    if rules.shared_memory:
        kind = "block.x"
        bound = [place for place in layout if place.kind == "thread.x" and place.axis != axis]
        threads = [[one._replace(turns=count)] for one in bound for count in SHARING if count <= extent[one.axis]]
    for length, own in product(LENGTHS[rules.target], threads):
        kept = inner
        inside = math.prod(place.turns for place in inner if place.axis == axis)
        if length % inside:  # what is unrolled of the axis can be left out
            kept = [place for place in inner if (place.axis, place.kind) != (axis, "unroll")]
            inside = math.prod(place.turns for place in kept if place.axis == axis)
        if length % inside == 0 and length <= extent[axis]:
            between = [Place(axis, length // inside)] if length > inside else []
            key = (length, math.prod(place.turns for place in own))
            yield key, (Place(axis, kind=kind if leads else "join"), *own, *between, *kept)


# ---------------------------------------------------------------- Sessions of `loops-v0`: the schedule of a computation


class LoopsSession(KernelSession):
    """One session: the schedule of a computation, and a cursor at one of its loops.

    Nothing is compiled before an observation needs it.
    """

    observations = OBSERVATIONS
    target: ClassVar[str] = "cpu"

    @classmethod
    def start(cls, options: Mapping[str, Any]) -> None:
        """Open the device.

        Args:
            options: `target` (`cpu` or `cuda`) and the options of `targets.open_target`; all optional.

        Raises:
            CompilationError: with `FailureCode.UNSUPPORTED`, naming what this machine lacks.
        """
        cls.options = dict(options)
        cls.target = options.get("target", "cpu")
        cls.compiler_version = cls.device(cls.target).target.description
        cls.action_spaces = _action_spaces(cls.target)
        cls.observation_spaces = observation_spaces(len(_offered(cls.target)))

    @classmethod
    def load_benchmark(cls, content: bytes, program: bytes = b"") -> Schedule:
        """Parse a computation in the language of `language`.

        Raises:
            CompilationError: with `FailureCode.BENCHMARK` if it is not one.
        """
        return initial_schedule(content, cls.target)

    @classmethod
    def check_action(cls, action: Any) -> None:
        """Raise if an action is neither a step, a move of the cursor, a recipe, layouts nor the index of a step.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN`.
        """
        if not isinstance(action, str):
            super().check_action(action)
        elif action not in CURSOR_MOVES:
            try:
                if read_layouts(action) is not None:
                    return
                found = _read_recipe(cls.target, action) if _is_recipe(action) else (_resolve(action, 0),)
            except ValueError as error:
                raise CompilationError(FailureCode.ACTION_UNKNOWN, str(error)) from None
            if any(step.loop >= MAX_LOOPS for step in found):
                raise CompilationError(FailureCode.ACTION_UNKNOWN, f"there are never more than {MAX_LOOPS} loops")

    def __init__(self, benchmark: Schedule) -> None:
        super().__init__(self.target)
        self._first = self._schedule = replace(benchmark, rules=self.kernels.target.rules)
        self.cursor = 0

    @property
    def schedule(self) -> Schedule:
        """The current schedule."""
        return self._schedule

    def templates(self) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement that are likely to be fast, the likeliest first."""
        return self.kernels.target.templates(self._first)

    def joined_layouts(self) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for all statements in which some share their outermost loop; see `joined_layouts`."""
        return joined_layouts(self._first, self.templates())

    def apply_action(self, action: Any) -> bool:
        """Change the schedule, or move the cursor; illegal steps change nothing."""
        if isinstance(action, int):
            action = _offered(self.target)[action]
        if action in CURSOR_MOVES:
            self.acted(changed=False)
            return self._go(self.cursor + CURSOR_MOVES[action])
        if _is_recipe(action):
            return self._become(_cooked(self._first, _read_recipe(self.target, action)))
        if (layouts := read_layouts(action)) is not None:
            return self._become(_unless_refused(self._schedule, arrange, self._first, layouts))
        step = _resolve(action, self.cursor)
        changed = self._become(_unless_refused(self._schedule, Schedule.apply, self._schedule, step))
        if changed and step.primitive == "reorder" and "loop=" not in action:
            self._go(self.cursor + 1)  # the cursor follows the loop
        return changed

    def _become(self, schedule: Schedule) -> bool:
        changed = schedule.nests != self._schedule.nests
        if changed:
            self._schedule = schedule
            self._go(self.cursor)
        self.acted(changed)
        return changed

    def _go(self, cursor: int) -> bool:
        """Move the cursor, clamped to the loops."""
        before = self.cursor
        self.cursor = min(max(cursor, 0), len(self._schedule.loops) - 1)
        return self.cursor != before

    def state_hash(self) -> int:
        """Return a hash of the schedule and the cursor."""
        return (int(self._schedule.digest[:16], 16) + self.cursor) % 2**64


def _is_recipe(action: str) -> bool:
    return action.partition(" ")[0] == RECIPE


def _unless_refused(schedule: Schedule, change: Callable[P, Schedule], *given: P.args, **more: P.kwargs) -> Schedule:
    """Return the schedule that a change makes, or the one given if the change is illegal."""
    try:
        return change(*given, **more)
    except Refusal:
        return schedule


def _cooked(schedule: Schedule, recipe: Iterable[Step]) -> Schedule:
    """Apply the steps of a recipe, with loop numbers wrapped around."""
    for step in recipe:
        wrapped = step._replace(loop=step.loop % len(schedule.loops))
        schedule = _unless_refused(schedule, schedule.apply, wrapped)
    return schedule


def initial_schedule(content: bytes, target: str) -> Schedule:
    """Return the initial schedule of a computation, given as text.

    Raises:
        CompilationError: with `FailureCode.BENCHMARK` if it is not one, or has too many loops.
    """
    try:
        computation: Computation = parse(content)
        return Schedule.of(computation, target)
    except (LanguageError, Refusal) as error:
        raise CompilationError(FailureCode.BENCHMARK, f"this is not a computation: {error}") from None
