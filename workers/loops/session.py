"""Sessions of `loops-v0`: the schedule of a computation."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops.actions import CURSOR_MOVES, RECIPE, action_spaces, at_cursor, offered, read_recipe, resolve
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.joined_layouts import joined_layouts
from aiocg.workers.loops.kernel_session import KernelSession
from aiocg.workers.loops.language import LanguageError, parse
from aiocg.workers.loops.layout import Layout, arrange, read_layouts
from aiocg.workers.loops.observations import OBSERVATIONS, observation_spaces
from aiocg.workers.loops.schedule import MAX_LOOPS, Refusal, Schedule, Step


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
        cls.action_spaces = action_spaces(cls.target)
        cls.observation_spaces = observation_spaces(len(offered(cls.target)))

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
                found = read_recipe(cls.target, action) if _is_recipe(action) else (resolve(action, 0),)
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
            action = offered(self.target)[action]
        if action in CURSOR_MOVES:
            self.acted(changed=False)
            return self._go(self.cursor + CURSOR_MOVES[action])
        if _is_recipe(action):
            return self._become(_cooked(self._first, read_recipe(self.target, action)))
        if (layouts := read_layouts(action)) is not None:
            return self._become(self._arranged(layouts))
        step = resolve(action, self.cursor)
        changed = self._become(_applied(self._schedule, step))
        if changed and step.primitive == "reorder" and at_cursor(action):
            self._go(self.cursor + 1)  # the cursor follows the loop
        return changed

    def _arranged(self, layouts: tuple[Layout, ...]) -> Schedule:
        try:
            return arrange(self._first, layouts)
        except Refusal:
            return self._schedule

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


def _applied(schedule: Schedule, step: Step) -> Schedule:
    """Return the schedule after a step, unchanged if it is illegal."""
    try:
        return schedule.apply(step)
    except Refusal:
        return schedule


def _cooked(schedule: Schedule, recipe: Iterable[Step]) -> Schedule:
    """Apply the steps of a recipe, with loop numbers wrapped around."""
    for step in recipe:
        schedule = _applied(schedule, step._replace(loop=step.loop % len(schedule.loops)))
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
