"""The requests that callers make: reset, step, fork, expand, parameters, checks, statistics.

A request is kept until its reply arrives, so that it can be sent again, in order, to the process that replaces a dead
one. Exactly one of `settle` and `reject` is called, once.
"""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import SessionLost, failure
from aiocg.fleet.rebuildable import Rebuildable, Trajectory
from aiocg.fleet.restart_policy import Death
from aiocg.transport.messages import (
    Action,
    Check,
    Close,
    Done,
    Expand,
    Expanded,
    Failure,
    FailureCode,
    Fork,
    Load,
    Observed,
    Open,
    Parameter,
    Reply,
    Request,
    Statistics,
    Step,
    TextReply,
    Unload,
)
from aiocg.transport.status import NO_CANDIDATE, SEVERAL

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable, Setting


Finish = Callable[[Any], Any]  # turns a reply into the caller's result
Recover = Callable[[Exception], Any]  # turns an error into the caller's result, or raises


class Receiver(Protocol):
    """Gets the outcome of a request: a future, or something cheaper where many outcomes arrive together."""

    def done(self) -> bool:
        """Is nobody interested in the outcome any more?"""

    def set_result(self, result: Any, /) -> None:
        """Take the result."""

    def set_exception(self, exception: Any, /) -> None:
        """Take the error that replaces the result."""


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


@dataclass(eq=False, repr=False)
class Pending:
    """A request without a reply.

    Attributes:
        session: the session it belongs to, None if it concerns the whole worker.
        future: the future, or other receiver, of the outcome; None if nobody waits.
        finish, recover: turn a successful reply, or an error, into the caller's result.
        attempts: number of worker deaths while executing it.
        deaths: number of those that were crashes, with those that are only suspected to be due to it.
        independent: does not depend on its cancelled predecessor having run.
        since: when it was first seen waiting; 0.0 until then.
        is_overdue: its long wait has been logged.
        doing: what it does, for error messages.
        answer: type of the reply that means success.
        binds_anew: creates the state of its session, or of a child, whatever the worker knew before.
        counted: counts among the pending requests of its session.
    """

    session: "Rebuildable | None"
    future: Receiver | None = field(default=None, kw_only=True)
    finish: Finish | None = field(default=None, kw_only=True)
    recover: Recover | None = field(default=None, kw_only=True)
    attempts: int = field(default=0, init=False)
    deaths: int = field(default=0, init=False)
    independent: bool = field(default=False, init=False)
    since: float = field(default=0.0, init=False)
    is_overdue: bool = field(default=False, init=False)
    doing = "a request"
    answer: ClassVar[type] = Done
    binds_anew: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def message(self, number: int) -> Request:
        """Build the message; `number` is the request number on this connection."""
        raise NotImplementedError

    def accepts(self, reply: Reply) -> bool:
        """Can this reply answer the request? If not, the worker cannot be trusted."""
        return isinstance(reply, (self.answer, Failure))

    def apply(self, reply: Any) -> None:
        """Update the session from a successful reply, before the result is delivered."""

    def fail(self, reply: Failure) -> Exception:
        """Update the session from a failure, and return the failure as an error."""
        return failure(reply.code, reply.message, reply.fields)

    def binds(self) -> "tuple[Rebuildable, ...]":
        """Return the sessions that the worker knows after this request."""
        return () if self.session is None else (self.session,)

    def changes(self) -> "tuple[Rebuildable, ...]":
        """Return the sessions whose state this request changes."""
        return ()

    def take_back(self) -> None:
        """Undo what was noted when the request was made: it will not run, and is about to be rejected."""

    @property
    def abandoned(self) -> bool:
        """Has everyone who waited for the outcome cancelled?"""
        return self.future is not None and self.future.done()

    def starts_from(self) -> str | None:
        """Return the key of the benchmark that the worker needs for this request."""
        trajectory = self.session.trajectory if self.session is not None else None
        return trajectory.benchmark.key if trajectory is not None else None

    def settle(self, reply: Reply) -> None:
        """Deliver the worker's reply."""
        if isinstance(reply, Failure):
            self.reject(self.fail(reply))
        else:
            self.apply(reply)
            self._deliver(self.result, reply)

    def reject(self, error: Exception) -> None:
        """Deliver an error instead of a reply."""
        self._deliver(self.fallback, error)

    def _deliver(self, make: Callable[[Any], Any], outcome: Any) -> None:
        """Deliver `make(outcome)`, where the outcome is a reply or an error."""
        session, future = self.session, self.future
        if session is not None and self.counted:
            session.pending -= 1
            if not session.pending:
                session.last = None
        try:
            result = make(outcome)
        except BaseException as error:  # the user's code may raise anything; it must not reach the event loop
            if future is not None and not future.done():
                future.set_exception(_storable(error))
        else:
            if future is not None and not future.done():
                future.set_result(result)

    def result(self, reply: Any) -> Any:
        """Turn a successful reply into the caller's result."""
        return self.finish(reply) if self.finish is not None else reply

    def fallback(self, error: Exception) -> Any:
        """Turn an error into the caller's result, or raise the error the caller should see."""
        if self.recover is None:
            raise error
        return self.recover(error)


def _storable(error: BaseException) -> BaseException:
    """Return an error that a future can hold; futures give these two types another meaning."""
    if not isinstance(error, (StopIteration, asyncio.CancelledError)):
        return error
    return RuntimeError(f"a reward or an observation raised {error!r}").with_traceback(error.__traceback__)


@dataclass(eq=False, repr=False)
class PendingOpen(Pending):
    """Resets a session to the start of a benchmark.

    Attributes:
        replaces: the process already has the session, in another state.
        loading: timeout for loading the benchmark, in seconds; the same if None.
    """

    session: "Rebuildable"
    benchmark: Benchmark
    observe: tuple[str, ...]
    timeout: float
    loading: float | None = field(default=None, kw_only=True)
    replaces: bool = field(default=False, init=False)
    sent: "dict[str, tuple[Setting, str]]" = field(default_factory=dict, init=False)
    answer = Observed
    binds_anew = True
    doing = "a reset"

    def message(self, number: int) -> Request:
        session, settings = self.session, self.session.standing()
        self.sent = {key: (setting, setting.value or "") for key, setting in settings.items()}
        parameters = tuple((key, value) for key, (_, value) in self.sent.items())
        return Open(number, session.number, self.benchmark.key, self.timeout, self.observe, parameters)

    def accepts(self, reply: Reply) -> bool:
        return super().accepts(reply) and _has(reply, self.observe)

    def apply(self, reply: Observed) -> None:
        self.session.trajectory = Trajectory(self.benchmark, reply.state)
        self.session.confirm(self.sent)
        self.session.ended = False
        self.session.crashes = self.session.kills = 0

    def changes(self) -> "tuple[Rebuildable, ...]":
        return (self.session,)

    def starts_from(self) -> str | None:
        return self.benchmark.key

    def fail(self, reply: Failure) -> Exception:
        if not self.replaces:  # otherwise the session keeps its old state
            self.session.worker.unbind(self.session)
        return _load_error(self.session, self.benchmark, reply) or super().fail(reply)


@dataclass(eq=False, repr=False)
class PendingStep(Pending):
    """Applies actions and observes."""

    session: "Rebuildable"
    actions: tuple[Any, ...]
    observe: tuple[str, ...]
    timeout: float
    answer = Observed

    def changes(self) -> "tuple[Rebuildable, ...]":
        return (self.session,) if self.actions else ()

    @property
    def doing(self) -> str:  # type: ignore[override]
        if not self.actions:
            return f"the observation of {', '.join(self.observe)}"
        return f"the actions {list(self.actions)}"

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, self.actions, self.timeout, self.observe)

    def accepts(self, reply: Reply) -> bool:
        if isinstance(reply, Observed):
            return len(reply.observations) == len(self.observe)
        if isinstance(reply, Failure):
            applied, state = reply.fields.get("applied", 0), reply.fields.get("state", 0)
            return isinstance(applied, int) and 0 <= applied <= len(self.actions) and isinstance(state, int)
        return False

    def settle(self, reply: Reply) -> None:
        if not isinstance(reply, Observed):
            super().settle(reply)
            return
        if self.actions:
            session = self.session
            assert session.trajectory is not None
            session.trajectory = session.trajectory.extended(self.actions, reply.state)
        self._deliver(self.result, reply)

    def fail(self, reply: Failure) -> Exception:
        session = self.session
        if reply.code == FailureCode.ACTION_UNKNOWN:
            return super().fail(reply)  # nothing was done; the session stays usable
        session.ended = session.ended or bool(self.actions)
        applied = reply.fields.get("applied", 0)
        if applied:
            assert session.trajectory is not None
            session.trajectory = session.trajectory.extended(self.actions[:applied], reply.fields["state"])
        return super().fail(reply)


@dataclass(eq=False, repr=False)
class PendingFork(Pending):
    """Gives another session the state of this one."""

    session: "Rebuildable"
    child: "Rebuildable"
    binds_anew = True
    doing = "a fork"

    def message(self, number: int) -> Request:
        return Fork(number, self.session.number, self.child.number)

    def binds(self) -> "tuple[Rebuildable, ...]":
        return (self.session, self.child)

    def changes(self) -> "tuple[Rebuildable, ...]":
        return (self.child,)

    def lose_child(self, error: Exception) -> None:
        """Handle that the process may have forked the child from a wrong state."""
        self.child.lose(error)

    def apply(self, reply: Any) -> None:
        self.child.trajectory = self.session.trajectory
        self.child.ended = False


@dataclass(eq=False, repr=False)
class PendingForkAhead(PendingFork):
    """A fork that nobody waits for, because the child's state is already known.

    The child depends neither on the reply nor on its parent's fate: if the process dies, the child is rebuilt like any
    other session. It is lost only if a process forked it from a wrong state, or could not fork it.
    """

    counted = False

    def __post_init__(self) -> None:
        self._trajectory = self.child.trajectory

    def changes(self) -> "tuple[Rebuildable, ...]":
        return ()  # the child already has its new state

    def apply(self, reply: Any) -> None:
        """Do nothing: the child is already up to date."""

    def fail(self, reply: Failure) -> Exception:
        error = super().fail(reply)
        self.lose_child(error)
        return error

    def reject(self, error: Exception) -> None:
        """Do nothing: after a death the child is rebuilt when needed; in other cases `lose_child` is called too."""

    def lose_child(self, error: Exception) -> None:
        if self.child.trajectory is self._trajectory:  # otherwise the child has been given another state since
            self.child.lose(error)


@dataclass(eq=False, repr=False)
class PendingParameter(Pending):
    """Sends an out-of-band parameter.

    The session records it when it is sent, not when it is answered, so that a later reset or fork has it.

    Attributes:
        setting: the session's record, None for a question.
    """

    session: "Rebuildable"
    key: str
    value: str
    timeout: float
    setting: "Setting | None"
    answer = TextReply

    def changes(self) -> "tuple[Rebuildable, ...]":
        return (self.session,)

    def apply(self, reply: Any) -> None:
        if self.setting is not None:
            self.setting.taken()

    def result(self, reply: TextReply) -> str:
        return reply.text

    def take_back(self) -> None:
        if self.setting is not None:
            self.setting.refused()

    def reject(self, error: Exception) -> None:
        self.take_back()
        super().reject(error)

    @property
    def doing(self) -> str:  # type: ignore[override]
        return f"the parameter {self.key}"

    def message(self, number: int) -> Request:
        return Parameter(number, self.session.number, self.key, self.value, self.timeout)


@dataclass(eq=False, repr=False)
class PendingCheck(Pending):
    """Asks whether texts are actions."""

    actions: tuple[Action, ...]
    doing = "a check of actions"

    def message(self, number: int) -> Request:
        return Check(number, self.actions)


class PendingStatistics(Pending):
    """Asks for a worker's counters."""

    answer = TextReply

    def result(self, reply: TextReply) -> Any:
        return json.loads(reply.text)

    def message(self, number: int) -> Request:
        return Statistics(number)


def _has(result: Any, observe: Sequence[str]) -> bool:
    """Is a result a failure, or does it have all the observations asked for?"""
    return isinstance(result, Failure) or len(result.observations) == len(observe)


def _load_error(session: "Rebuildable", benchmark: Benchmark, reply: Failure) -> Exception | None:
    """Return why the benchmark could not be loaded, if that is what failed."""
    return session.worker.residents.loads.error(benchmark) if reply.code == FailureCode.BENCHMARK_UNKNOWN else None


# --- Expansions: several candidates in one request, or single ones in requests of their own, to find who does harm


@dataclass(eq=False, repr=False)
class PendingExpand(Pending):
    """Evaluates candidates. When it is sent again, candidates that killed a worker are left out.

    Attributes:
        combine: turns the reply and the crashes into the caller's result.
        crashes: the errors of the candidates left out, by index.
        alone: evaluate each candidate by itself, because a worker died while preparing several at once.
        only: index of the candidate to evaluate, `NO_CANDIDATE` for all of them.
    """

    session: "Rebuildable"
    candidates: tuple[tuple[Any, ...], ...]
    observe: tuple[str, ...]
    timeout: float
    combine: Callable[[Expanded, dict[int, Exception]], Any]
    crashes: dict[int, Exception] = field(default_factory=dict, init=False)
    alone: bool = field(default=False, init=False)
    only: int = field(default=NO_CANDIDATE, init=False)
    _deaths: Counter[int] = field(default_factory=Counter, init=False)
    _answers: dict[int, Expanded] = field(default_factory=dict, init=False)  # of candidates in requests of their own
    _missing: set[int] = field(default_factory=set, init=False)
    answer = Expanded
    doing = "a candidate of an expansion"

    @property
    def candidates_left(self) -> set[int]:
        """The indices of the candidates that have not killed a worker."""
        return set(range(len(self.candidates))).difference(self.crashes)

    def parts(self) -> "list[_PendingCandidate]":
        """Divide this request into one per candidate; it is answered when all of them are."""
        self._missing = self.candidates_left
        return [_PendingCandidate(self, index) for index in sorted(self._missing)]

    def part(self, index: int) -> "_PendingCandidate":
        """Return a request for one candidate, which this request leaves out once that is answered."""
        return _PendingCandidate(self, index)

    def settle_part(self, index: int, reply: Expanded) -> None:
        """Record the reply to one of the parts; if this request was divided, deliver all of them after the last."""
        self._answers[index] = reply
        if index in self._missing:
            self._missing.remove(index)
            if not self._missing:
                self.settle(Expanded(reply.request, (None,) * len(self.candidates), 0.0))

    def settle(self, reply: Reply) -> None:
        if isinstance(reply, Expanded) and self._answers:
            results = list(reply.candidates)
            for index, answer in self._answers.items():
                results[index] = answer.candidates[index]
            seconds = reply.compiler_time + sum(answer.compiler_time for answer in self._answers.values())
            reply = Expanded(reply.request, tuple(results), seconds)
        super().settle(reply)

    def reject_parts(self, error: Exception) -> None:
        """Deliver the first error of a part, and ignore later ones."""
        if self._missing:
            self._missing.clear()
            self.reject(error)

    def message(self, number: int) -> Request:
        failed = tuple(sorted({*self.crashes, *self._answers}))
        return Expand(number, self.session.number, self.candidates, self.timeout, self.observe, failed, self.alone)

    def died(self, candidate: int, death: Death, limit: int) -> bool:
        """Record that the worker died over a candidate, or SEVERAL; return whether the candidate is blamed.

        Args:
            candidate: its index.
            death: how the worker died.
            limit: number of deaths of this kind after which it is blamed.
        """
        if candidate == SEVERAL:
            self.alone = True
            return False
        self._deaths[candidate] += 1
        if self._deaths[candidate] < limit:
            return False
        self.crashes[candidate] = death.error(self.doing)
        return True

    def result(self, reply: Any) -> Any:
        return self.combine(reply, self.crashes)

    def accepts(self, reply: Reply) -> bool:
        if not isinstance(reply, Expanded):
            return super().accepts(reply)
        return len(reply.candidates) == len(self.candidates) and all(
            result is None or bool(result.code) or len(result.observations) == len(self.observe)
            for result in reply.candidates
        )


class _PendingCandidate(PendingExpand):
    """Evaluates one candidate of an expansion over which workers die."""

    counted = False

    def __init__(self, whole: PendingExpand, index: int) -> None:
        """Make the part of an expansion that evaluates one candidate."""
        assert whole.future is not None
        super().__init__(
            whole.session, whole.candidates, whole.observe, whole.timeout, whole.combine, future=whole.future
        )
        self._whole = whole
        self.only = index
        self.crashes = whole.crashes
        self.alone = True
        self.independent = whole.independent
        self.attempts, self.deaths = whole.attempts, whole.deaths

    def message(self, number: int) -> Request:
        failed = tuple(index for index in range(len(self.candidates)) if index != self.only or index in self.crashes)
        return Expand(number, self.session.number, self.candidates, self.timeout, self.observe, failed, self.alone)

    def settle(self, reply: Reply) -> None:
        if isinstance(reply, Expanded):
            self._whole.settle_part(self.only, reply)
        else:
            super().settle(reply)

    def reject(self, error: Exception) -> None:
        self._whole.reject_parts(error)


# ----------------------------------- The runtime's own requests: loading programs, rebuilding and freeing sessions

VERDICT_TIMEOUT = 60.0  # seconds for a step without actions


@dataclass(eq=False, repr=False)
class PendingLoad(Pending):
    """Loads a benchmark on a worker. Nobody awaits it: if it fails, so does the `Open` behind it.

    Attributes:
        benchmark: the benchmark.
        timeout: in seconds.
        needed_by: the first request that needs the benchmark.
        loaded, failed: called with the outcome.
    """

    benchmark: Benchmark
    timeout: float
    needed_by: Pending
    loaded: Callable[[Benchmark], None]
    failed: Callable[[Benchmark, Exception], None]

    @property
    def doing(self) -> str:  # type: ignore[override]
        return f"the loading of {self.benchmark.uri}"

    def message(self, number: int) -> Request:
        return Load(number, self.benchmark.key, self.benchmark.content, self.timeout, self.benchmark.recipe)

    def apply(self, reply: Reply) -> None:
        self.loaded(self.benchmark)

    def fail(self, reply: Failure) -> Exception:
        return BenchmarkInitError(str(self.benchmark.uri), reply.message)

    def reject(self, error: Exception) -> None:
        self.failed(self.benchmark, error)


@dataclass(eq=False, repr=False)
class PendingRebuild(Pending):
    """Replays a session's actions on a new process, after a `PendingReopen`, and checks the resulting state."""

    session: Rebuildable
    trajectory: Trajectory
    timeout: float
    answer = Observed
    counted = False
    doing = "the replay of a session"

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, tuple(self.trajectory.actions()), self.timeout)

    def apply(self, reply: Observed) -> None:
        self.session.crashes = self.session.kills = 0
        if reply.state != self.trajectory.state:
            self.session.lose(SessionLost(self.trajectory.state, reply.state))

    def reject(self, error: Exception) -> None:
        self.session.lose(error)


class PendingReopen(PendingRebuild):
    """Opens the benchmark of a session that is being rebuilt, before its actions are replayed."""

    def message(self, number: int) -> Request:
        session, key = self.session, self.trajectory.benchmark.key
        return Open(number, session.number, key, self.timeout, (), tuple(session.known_parameters.items()))

    def apply(self, reply: Observed) -> None:
        """Do nothing: the replay that follows checks the state."""

    def fail(self, reply: Failure) -> Exception:
        return _load_error(self.session, self.trajectory.benchmark, reply) or super().fail(reply)


@dataclass(eq=False, repr=False)
class PendingClose(Pending):
    """Frees sessions on a worker; nobody awaits it."""

    numbers: tuple[int, ...]

    def message(self, number: int) -> Request:
        return Close(number, self.numbers)


@dataclass(eq=False, repr=False)
class PendingUnload(Pending):
    """Unloads a benchmark from a worker; nobody awaits it."""

    key: str

    def message(self, number: int) -> Request:
        return Unload(number, self.key)


class StandIn(Rebuildable):
    """A session without a caller, in which what others have done is repeated."""

    def __init__(self, worker: Any, trajectory: Trajectory) -> None:
        super().__init__(worker)
        self.trajectory = trajectory

    def lose(self, error: Exception) -> None:
        """Do nothing: that the process survives is all that is asked of it."""


@dataclass(eq=False, repr=False)
class PendingProbe(Pending):
    """Does something again of which only that the process survives it is of interest; nobody awaits it.

    Attributes:
        make: makes the message from its number.
    """

    make: Callable[[int], Request]

    def message(self, number: int) -> Request:
        return self.make(number)

    def accepts(self, reply: Reply) -> bool:
        return True

    def settle(self, reply: Reply) -> None:
        """Do nothing: it has survived."""


# These concern one process only, and are not sent to its successor.
PROCESS_LOCAL = (PendingClose, PendingUnload, PendingLoad, PendingRebuild, PendingForkAhead, PendingProbe)


@dataclass(eq=False, repr=False)
class _PendingVerdict(Pending):
    """Replaces a request that killed its worker while earlier requests of its session had no reply.

    Those earlier requests run again. The verdict, a step without actions, runs behind them; when it is answered, the
    session is in the state from which the guilty request started, and the guilty request fails there. Requests behind
    the guilty one fail with it, without being sent.
    """

    session: Rebuildable
    guilty: Pending
    behind: Sequence[Pending]
    error: Exception
    spoken: Callable[[Pending], None]
    answer = Observed

    def __post_init__(self) -> None:
        self.future, self.independent = self.guilty.future, self.guilty.independent

    @property
    def doing(self) -> str:  # type: ignore[override]
        return self.guilty.doing

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, (), VERDICT_TIMEOUT)

    def changes(self) -> tuple[Rebuildable, ...]:
        return (self.session,)

    def settle(self, reply: Reply) -> None:
        self.spoken(self.guilty)
        self.reject(self.error)
        self.session.lose(self.error)

    def reject(self, error: Exception) -> None:
        for pending in (self.guilty, *self.behind):
            pending.reject(error)


def made_before(pending: Pending, requests: Iterable[Pending]) -> bool:
    """Return whether earlier requests, in order, concern the session of `pending`."""
    earlier = itertools.takewhile(lambda one: one is not pending, requests)
    return any(one.session is pending.session or pending.session in one.changes() for one in earlier)


def postponed(
    guilty: Pending, requests: Sequence[Pending], error: Exception, spoken: Callable[[Pending], None]
) -> list[Pending]:
    """Replace a guilty request, and all requests behind it for its session, by a verdict."""
    assert guilty.session is not None
    place = list(requests).index(guilty)
    before, after = list(requests)[:place], list(requests)[place + 1 :]
    behind = [one for one in after if one.session is guilty.session]
    others = [one for one in after if one.session is not guilty.session]
    return [*before, _PendingVerdict(guilty.session, guilty, behind, error, spoken), *others]


def resendable(sent: Iterable[Pending]) -> list[Pending]:
    """Return the requests that mean something to another process."""
    return [one for one in sent if not isinstance(one, PROCESS_LOCAL)]
