"""Programs and actions that killed workers, and are not tried again."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiocg.errors import Quarantined
from aiocg.fleet.requests import Pending, PendingExpand, PendingOpen, PendingStep
from aiocg.transport.status import NO_CANDIDATE

ROUNDING = 1e-7  # seconds; rounding error of a timeout that was converted to a clock time and back
MAX_SUSPECTS = 1024  # the suspects that killed a worker longest ago are forgotten
MAX_LOADED = 1 << 14  # programs remembered as loaded


@dataclass(frozen=True, slots=True)
class Question:
    """What a compiler is asked. A state is named by its hash: how it was reached makes no difference.

    Attributes:
        kind: of the compiler.
        start: hash of the starting state; for a reset, the key of the program.
        actions: the actions to apply, in order.
        observe: names of the observations to compute then.
    """

    kind: str
    start: int | str
    actions: tuple[Any, ...]
    observe: tuple[str, ...]


@dataclass(slots=True)
class Suspect:
    """A question that has killed workers.

    Attributes:
        question: what was asked.
        program: URI of the program.
        doing: the question in words.
        causes: how each of the workers died.
        timeouts: the timeouts in seconds that were overrun; None for deaths by other causes.
    """

    question: Question
    program: str
    doing: str
    causes: list[str] = field(default_factory=list)
    timeouts: list[float | None] = field(default_factory=list)

    def deaths(self, timeout: float | None) -> int:
        """Count the deaths that speak against trying again; an overrun deadline does not if the timeout is longer."""
        return sum(1 for had in self.timeouts if had is None or timeout is None or timeout <= had + ROUNDING)


class Quarantine:
    """The questions that killed workers, for all compilers of a runtime::

        for suspect in runtime.quarantine:
            print(suspect.program, suspect.doing, suspect.causes)
        runtime.quarantine.clear()

    Only deaths that speak against the program count: crashes, exits and overrun deadlines, never kills from outside.

    Attributes:
        suspects: everything that killed a worker, by question.

    Args:
        deaths: number of deaths after which a question is refused; 0 to refuse none.
    """

    def __init__(self, deaths: int) -> None:
        self._deaths = deaths
        self.suspects: OrderedDict[Question, Suspect] = OrderedDict()
        self._loaded: OrderedDict[tuple[str, str], None] = OrderedDict()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Suspect]:
        """Iterate over the questions that are refused."""
        return (suspect for suspect in list(self.suspects.values()) if suspect.deaths(None) >= self._deaths)

    def clear(self, program: str | None = None) -> None:
        """Forget everything, or everything about one program, given by URI; it is then tried again."""
        for question, suspect in list(self.suspects.items()):
            if program is None or suspect.program == program:
                del self.suspects[question]

    def loaded(self, kind: str, key: str) -> None:
        """Remember that a compiler loaded a program; if loading it crashes later, it is tried again."""
        self._loaded[kind, key] = None
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)

    def was_loaded(self, kind: str, key: str) -> bool:
        """Has a compiler loaded that program before?"""
        return (kind, key) in self._loaded

    def blame(self, kind: str, request: Pending, candidate: int, cause: str, timeout: float | None) -> None:
        """Record a death.

        Args:
            kind: of the compiler.
            request: the request over which the worker died.
            candidate: index of the guilty candidate, for an expansion.
            cause: how the worker died.
            timeout: the timeout in seconds, if it was overrun.
        """
        question = _question(kind, request, candidate)
        if question is None or not self._deaths:
            return
        suspect = self.suspects.pop(question, None) or Suspect(question, _program(request), _doing(question))
        suspect.causes.append(cause)
        suspect.timeouts.append(timeout)
        del suspect.causes[: -self._deaths], suspect.timeouts[: -self._deaths]
        self.suspects[question] = suspect
        while len(self.suspects) > MAX_SUSPECTS:
            self.suspects.popitem(last=False)

    def refusal(self, kind: str, request: Pending, candidate: int) -> Quarantined | None:
        """Return the error of a request that must not be tried again, None for all others.

        The request is assumed to start from the last known state of its session.
        """
        question = _question(kind, request, candidate)
        suspect = self.suspects.get(question) if question is not None else None
        if suspect is None or suspect.deaths(request.timeout) < self._deaths:  # type: ignore[attr-defined]
            return None
        return Quarantined(suspect.program, suspect.doing, suspect.causes)


def _question(kind: str, request: Pending, candidate: int) -> Question | None:
    """Return what a request asks of the compiler, None if it cannot be asked again."""
    if isinstance(request, PendingOpen):
        return Question(kind, request.benchmark.key, (), request.observe)
    trajectory = request.session.trajectory if request.session is not None else None
    if trajectory is None:
        return None
    if isinstance(request, PendingStep):
        return Question(kind, trajectory.state, request.actions, request.observe)
    if isinstance(request, PendingExpand) and candidate != NO_CANDIDATE:
        return Question(kind, trajectory.state, request.candidates[candidate], request.observe)
    return None


def _program(request: Pending) -> str:
    if isinstance(request, PendingOpen):
        return str(request.benchmark.uri)
    assert request.session is not None and request.session.trajectory is not None
    return str(request.session.trajectory.benchmark.uri)


def _doing(question: Question) -> str:
    if isinstance(question.start, str):
        return "a reset"
    text = f"the actions {list(question.actions)}" if question.actions else "an observation"
    text += f" with {', '.join(question.observe)}" if question.observe else ""
    return f"{_shortened(text)} in state {question.start:016x}"


def _shortened(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:160]} ... {text[-30:]}"
