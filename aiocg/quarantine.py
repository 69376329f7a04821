"""What has killed its worker more than once is not tried again: which program, which actions, and how it died."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from aiocg.errors import Quarantined
from aiocg.requests import Pending, PendingExpand, PendingOpen, PendingStep
from aiocg.transport.status import NO_CANDIDATE

__all__ = ["Quarantine", "Question", "Suspect"]

ROUNDING = 1e-7  # seconds by which a timeout may differ that was a time on a clock meanwhile
MAX_SUSPECTS = 1024  # those that have killed a worker longest ago are forgotten


@dataclass(frozen=True, slots=True)
class Question:
    """What a compiler is asked. A state is its hash: whatever way led to it, the same question gets the same answer.

    Attributes:
        kind: of the compiler.
        start: hash of the state that is started from; the key of the program for a reset to it.
        actions: that are applied, in order.
        observe: names of what is then observed.
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
        doing: what it was to do, in words.
        causes: how the workers died, one for each.
        timeouts: seconds that they had, None where they did not die of a deadline.
    """

    question: Question
    program: str
    doing: str
    causes: list[str] = field(default_factory=list)
    timeouts: list[float | None] = field(default_factory=list)

    def deaths(self, timeout: float | None) -> int:
        """Count the deaths that speak against trying it once more; one of a deadline does not if it gets more time."""
        return sum(1 for had in self.timeouts if had is None or timeout is None or timeout <= had + ROUNDING)


class Quarantine:
    """The questions that have killed their workers, of all compilers of a runtime::

        for suspect in runtime.quarantine:
            print(suspect.program, suspect.doing, suspect.causes)
        runtime.quarantine.clear()

    Only deaths that speak against the program count: crashes, exits and overrun deadlines, never kills from outside.

    Args:
        deaths: after so many a question is refused; 0 to refuse none.
    """

    def __init__(self, deaths: int) -> None:
        self._deaths = deaths
        self._suspects: OrderedDict[Question, Suspect] = OrderedDict()

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __iter__(self) -> Iterator[Suspect]:
        """Go through the questions that are refused."""
        return (suspect for suspect in list(self._suspects.values()) if suspect.deaths(None) >= self._deaths)

    def clear(self, program: str | None = None) -> None:
        """Forget everything, or all that is known of one program, given by URI: it is tried again."""
        for question, suspect in list(self._suspects.items()):
            if program is None or suspect.program == program:
                del self._suspects[question]

    @property
    def has_suspects(self) -> bool:
        """Has anything killed a worker? Otherwise there is no need to look for it."""
        return bool(self._suspects)

    def blame(self, kind: str, request: Pending, candidate: int, cause: str, timeout: float | None) -> None:
        """Take note of a death.

        Args:
            kind: of the compiler.
            request: over which the worker died.
            candidate: over which of its candidates, if it is an expansion.
            cause: how it died.
            timeout: seconds that it had, if it died of its deadline.
        """
        question = _question(kind, request, candidate)
        if question is None or not self._deaths:
            return
        suspect = self._suspects.pop(question, None) or Suspect(question, _program(request), _doing(question))
        suspect.causes.append(cause)
        suspect.timeouts.append(timeout)
        del suspect.causes[: -self._deaths], suspect.timeouts[: -self._deaths]
        self._suspects[question] = suspect
        while len(self._suspects) > MAX_SUSPECTS:
            self._suspects.popitem(last=False)

    def refusal(self, kind: str, request: Pending, candidate: int) -> Quarantined | None:
        """Return the error of what is not to be tried again, None for all else.

        It is taken that the session of the request is at the state that it was last known to be at.
        """
        question = _question(kind, request, candidate)
        suspect = self._suspects.get(question) if question is not None else None
        if suspect is None or suspect.deaths(request.timeout) < self._deaths:  # type: ignore[attr-defined]
            return None
        return Quarantined(suspect.program, suspect.doing, suspect.causes)


def _question(kind: str, request: Pending, candidate: int) -> Question | None:
    """Return what a request asks of the compiler, None if it asks nothing that can be asked again."""
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
