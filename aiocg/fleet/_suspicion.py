"""Finds the request that harms workers, which may have returned long before a worker dies of it.

A crash says little about the request that was being executed: memory may have been overwritten before, and a thread or
a timer may have been left behind. So nobody is convicted for the death of a worker that has executed something of
others. The *accused* request goes first on the next process, where it is alone, and is put on trial there: its reply
is held back, what it did is repeated, and then nothing is done for a moment. If the process dies, it is convicted.

Otherwise it is innocent, and the sessions that the dead worker knew are *doubted*: each of their requests is put on
trial, and then the *witness*, what crashed before, is repeated as well. A request over whose trial a worker dies is the
next to be accused. If only the witness dies of it, the witness must be shown not to die alone before it is convicted.
"""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import ref

from aiocg.fleet.rebuildable import Trajectory
from aiocg.fleet.requests import Pending, PendingExpand, PendingOpen, PendingStep
from aiocg.transport.messages import Observed, Reply
from aiocg.transport.status import NO_CANDIDATE

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable


REPEATS = 2  # of what is on trial, the first time that a session is doubted; there are more each time
LINGER = 0.1  # seconds that a trial waits for what may happen later, the first time
ALL_LINGER = 1.5  # seconds that the trials of all doubted sessions wait together at most
ALL_REPEATING = 2.5  # seconds that they repeat what was done, and again the witness; each does so once at least
MORE = 4  # times as many repeats and seconds each time
MOST = 16  # times as many as the first time
CONTROLS = 8  # of the witness alone, before a request is convicted by it; a witness that crashes alone is none


class Deed(NamedTuple):
    """What can be done again on any process: the actions that lead to a state, and what is observed there."""

    trajectory: Trajectory
    observe: tuple[str, ...]


@dataclass(slots=True)
class Trial:
    """A request of a doubted session, until it is known to have done no harm.

    Attributes:
        request: the request, in flight until the end of the trial.
        before: what is to be done before the request is sent: the witness alone.
        controlled: there was something, so that the request is not alone.
        repeats: how often what the request did, and the witness, are then repeated.
        linger: seconds to wait at the end.
        sent: the request was sent.
        reply: the worker's reply, None before it has come.
        number: number of the request on the connection.
        after: what is still to be repeated, or for how many seconds to wait; None before the reply.
        until: when to repeat no more.
        witnessing: the witness is being repeated, or has been.
        lingering: the trial waits.
    """

    request: Pending
    before: deque[Deed]
    controlled: bool
    repeats: int
    linger: float
    sent: bool = False
    reply: Reply | None = None
    number: int = 0
    after: deque[Deed | Pending | float] | None = None
    until: float = 0.0
    witnessing: bool = False
    lingering: bool = False

    def is_answered(self, waiting: Mapping[int, Pending]) -> bool:
        """Return whether the reply has come and is held back."""
        return self.reply is not None and self.number in waiting


@dataclass(slots=True)
class Suspicion:
    """The search for the request behind deaths of the workers of one slot.

    Attributes:
        aroused: a worker died, and not all of its requests have been tried since.
        trying: requests are sent to the present worker one at a time.
        left: number of requests still to be sent one at a time.
        tried: what the present worker has executed, as long as that was one at a time; see `_unit_of`. Weak, since a
            session that nobody holds any more must be freed; None is what cannot be the unit of a request.
        accused: the request that goes first because a worker died over it.
        bystanders: numbers of the sessions that this worker knew.
        doubted: numbers of sessions that may have harmed a worker over which somebody else was accused.
        witness: what crashed on a worker that others had harmed.
        by_witness: the accused has survived its trial on a process of its own, and the witness has not.
        trial: of the request that is being executed, or has just been.
    """

    aroused: bool = False
    trying: bool = False
    left: int = 0
    tried: list[ref[Any] | None] = field(default_factory=list)
    accused: Pending | None = None
    bystanders: frozenset[int] = frozenset()
    doubted: set[int] = field(default_factory=set)
    witness: Deed | None = None
    by_witness: bool = False
    trial: Trial | None = None
    _levels: dict[int, int] = field(default_factory=dict)  # how often sessions were doubted, by number

    def begin(self, requests: Collection[Pending]) -> bool:
        """Start with a new worker and some requests; return whether to send them one at a time."""
        if self.accused not in requests:
            self.accused = None
        self.tried.clear()
        self.trial = None
        self.trying, self.left = bool(requests) and (self.aroused or self.accused is not None), len(requests)
        if not self.trying:
            self.end()
        return self.trying

    def end(self) -> None:
        """Stop: all requests that were to be tried have been answered."""
        self.aroused = self.trying = False
        self.left = 0
        self.trial = None

    def doubts(self, request: Pending) -> bool:
        """Return whether a request must be put on trial."""
        return request.session is not None and request.session.number in self.doubted

    def interrupt(self) -> None:
        """Begin to send requests one at a time to a worker that has executed others."""
        self.trying = True
        self.tried.append(None)

    def tries(self, request: Pending) -> Trial | None:
        """Handle that a request comes next while they go one at a time; return its trial, None without one."""
        self.trying, self.left = True, max(self.left - 1, 0)
        self.tried.append(ref(_unit_of(request)))
        if self.doubts(request) or request is self.accused:
            level = self._levels.get(request.session.number, 1) if request.session is not None else 1
            times = min(MORE ** (level - 1), MOST)
            linger = min(LINGER * times, ALL_LINGER / max(len(self.doubted), 1))
            controlled = self.by_witness and self.is_alone(request) and self.witness is not None
            before = deque([self.witness] * CONTROLS) if controlled and self.witness is not None else deque[Deed]()
            self.trial = Trial(request, before, controlled, REPEATS * times, linger)
        return self.trial

    def heard(self, trial: Trial, now: float) -> None:
        """Decide, after the reply to a request on trial, what to repeat."""
        assert trial.reply is not None
        own = trial.request if isinstance(trial.request, PendingExpand) else _deed_of(trial.request, trial.reply)
        self._repeat(trial, own, now)

    def _repeat(self, trial: Trial, what: Deed | Pending | None, now: float) -> None:
        trial.after = deque([what] * trial.repeats if what is not None else [])
        trial.after.append(trial.linger)
        trial.until = now + ALL_REPEATING / max(len(self.doubted), 1)

    def goes_on(self, trial: Trial, now: float) -> bool:
        """Decide whether to repeat the witness, too, when all else was repeated."""
        if trial.witnessing or self.witness is None or not self.doubts(trial.request):
            return False
        trial.witnessing = True
        self._repeat(trial, self.witness, now)
        return True

    def is_alone(self, request: Pending) -> bool:
        """Return whether the present worker has executed nothing of others."""
        unit = _unit_of(request)
        return self.trying and all(one is not None and one() is unit for one in self.tried)

    def accuse(self, request: Pending, present: Iterable[int]) -> None:
        """Record that a worker died over a request, with the numbers of the sessions that it knew."""
        self.accused, self.bystanders, self.by_witness = request, frozenset(present), False

    def convict(self, request: Pending) -> None:
        """Record that a request was found to be guilty, which clears the doubts about others if it was doubted."""
        self.accused = None
        if self.doubts(request):
            self.doubted.clear()
            self._levels.clear()
            self.witness = None

    def answered(self, request: Pending, reply: Reply) -> None:
        """Handle that a request is about to get its reply, and that its trial is over if it had one."""
        own = {request.session.number} if request.session is not None else set[int]()
        part = isinstance(request, PendingExpand) and request.only != NO_CANDIDATE
        if not isinstance(request, PendingOpen) and not part:  # the harm is yet to come
            self.doubted -= own
        if request is not self.accused:
            return
        present, self.accused, self.bystanders = self.bystanders, None, frozenset()
        self.witness = _deed_of(request, reply) or self.witness
        self.doubt(present & self.doubted or present - (frozenset() if part else own))  # other candidates, too

    def doubt(self, sessions: Iterable[int]) -> None:
        """Doubt sessions, given by number, and those more thoroughly that were doubted before."""
        for number in sessions:
            self._levels[number] = self._levels.get(number, 0) + 1
            self.doubted.add(number)


def _deed_of(request: Pending, reply: Reply) -> Deed | None:
    """Return what a request has done that was not recorded yet, None if it cannot be repeated."""
    trajectory = request.session.trajectory if request.session is not None else None
    observe: tuple[str, ...] = ()
    if isinstance(request, PendingOpen):
        state = reply.state if isinstance(reply, Observed) else 0
        trajectory, observe = Trajectory(request.benchmark, state), request.observe
    elif isinstance(request, PendingStep) and trajectory is not None:
        observe = request.observe
        if isinstance(reply, Observed):
            trajectory = trajectory.extended(request.actions, reply.state)
    elif isinstance(request, PendingExpand) and request.only in request.candidates_left and trajectory is not None:
        trajectory, observe = trajectory.extended(request.candidates[request.only], 0), request.observe
    return Deed(trajectory, observe) if trajectory is not None else None


def _unit_of(request: Pending) -> Any:
    """Return what is tried with a request: its session; or it alone, where a session can go on without it."""
    return request if isinstance(request, PendingExpand) or request.session is None else request.session


def put_behind(requests: Iterable[Pending], sessions: "Collection[Rebuildable]") -> list[Pending]:
    """Move the requests of some sessions, and of the sessions forked from them, behind all others."""
    first, last = [], []
    moved = set(sessions)
    for request in requests:
        bound = request.binds()
        if moved.isdisjoint(bound):
            first.append(request)
        else:
            moved.update(bound)
            last.append(request)
    return first + last


def put_first(requests: Collection[Pending], chosen: Pending) -> list[Pending]:
    """Move a request, after those that its session needs, before all others."""
    earlier, rest = [], []
    needed = set(chosen.binds())
    reached = False
    for request in reversed(list(requests)):
        reached = reached or request is chosen
        if reached and (request is chosen or not needed.isdisjoint(request.binds())):
            needed.update(request.binds())
            earlier.append(request)
        else:
            rest.append(request)
    return earlier[::-1] + rest[::-1]
