"""The requests that callers make: reset, step, fork, expand, parameters, checks, statistics.

A request is kept until its reply arrives, so that it can be sent again, in order, to the process that replaces a dead
one. Exactly one of `settle` and `reject` is called, once.
"""

import asyncio
import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
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


class Pending:
    """A request without a reply.

    Attributes:
        session: the session it belongs to, None if it concerns the whole worker.
        future: the future, or other receiver, of the outcome; None if nobody waits.
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

    __slots__ = (
        "__weakref__",
        "attempts",
        "deaths",
        "finish",
        "future",
        "independent",
        "is_overdue",
        "recover",
        "session",
        "since",
    )
    doing = "a request"
    answer: ClassVar[type] = Done
    binds_anew: ClassVar[bool] = False
    counted: ClassVar[bool] = True

    def __init__(
        self,
        session: "Rebuildable | None",
        future: Receiver | None = None,
        finish: Finish | None = None,
        recover: Recover | None = None,
    ) -> None:
        self.session = session
        self.future = future
        self.finish = finish
        self.recover = recover
        self.attempts = 0
        self.deaths = 0
        self.independent = False
        self.is_overdue = False
        self.since = 0.0

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


class PendingOpen(Pending):
    """Resets a session to the start of a benchmark.

    Attributes:
        replaces: the process already has the session, in another state.
        loading: timeout for loading the benchmark, in seconds.
    """

    __slots__ = ("benchmark", "loading", "observe", "replaces", "sent", "timeout")
    answer = Observed
    binds_anew = True
    doing = "a reset"
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        benchmark: Benchmark,
        observe: tuple[str, ...],
        timeout: float,
        future: "asyncio.Future[Any] | None" = None,
        finish: Finish | None = None,
        loading: float | None = None,
    ) -> None:
        super().__init__(session, future, finish)
        self.loading = timeout if loading is None else loading
        self.replaces = False
        self.sent: dict[str, tuple[Setting, str]] = {}
        self.benchmark = benchmark
        self.observe = observe
        self.timeout = timeout

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


class PendingStep(Pending):
    """Applies actions and observes."""

    __slots__ = ("actions", "observe", "timeout")
    answer = Observed
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        actions: tuple[Any, ...],
        observe: tuple[str, ...],
        timeout: float,
        future: Receiver | None = None,
        finish: Finish | None = None,
        recover: Recover | None = None,
    ) -> None:
        super().__init__(session, future, finish, recover)
        self.actions = actions
        self.observe = observe
        self.timeout = timeout

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


class PendingFork(Pending):
    """Gives another session the state of this one."""

    __slots__ = ("child",)
    binds_anew = True
    doing = "a fork"
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        child: "Rebuildable",
        future: "asyncio.Future[Any] | None",
        finish: Finish | None = None,
    ) -> None:
        super().__init__(session, future, finish)
        self.child = child

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


class PendingForkAhead(PendingFork):
    """A fork that nobody waits for, because the child's state is already known.

    The child depends neither on the reply nor on its parent's fate: if the process dies, the child is rebuilt like any
    other session. It is lost only if a process forked it from a wrong state, or could not fork it.
    """

    __slots__ = ("trajectory",)
    counted = False

    def __init__(self, session: "Rebuildable", child: "Rebuildable") -> None:
        super().__init__(session, child, None)
        self.trajectory = child.trajectory

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
        if self.child.trajectory is self.trajectory:  # otherwise the child has been given another state since
            self.child.lose(error)


class PendingParameter(Pending):
    """Sends an out-of-band parameter.

    The session records it when it is sent, not when it is answered, so that a later reset or fork has it.

    Attributes:
        setting: the session's record, None for a question.
    """

    __slots__ = ("key", "setting", "timeout", "value")
    answer = TextReply
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        key: str,
        value: str,
        timeout: float,
        future: "asyncio.Future[Any]",
        setting: "Setting | None",
    ) -> None:
        super().__init__(session, future, lambda reply: reply.text)
        self.key = key
        self.value = value
        self.timeout = timeout
        self.setting = setting

    def changes(self) -> "tuple[Rebuildable, ...]":
        return (self.session,)

    def apply(self, reply: Any) -> None:
        if self.setting is not None:
            self.setting.taken()

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


class PendingCheck(Pending):
    """Asks whether texts are actions."""

    __slots__ = ("actions",)
    doing = "a check of actions"

    def __init__(self, actions: tuple[Action, ...], future: "asyncio.Future[Any]") -> None:
        super().__init__(None, future)
        self.actions = actions

    def message(self, number: int) -> Request:
        return Check(number, self.actions)


class PendingStatistics(Pending):
    """Asks for a worker's counters."""

    __slots__ = ()
    answer = TextReply

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        super().__init__(None, future, lambda reply: json.loads(reply.text))

    def message(self, number: int) -> Request:
        return Statistics(number)


def _has(result: Any, observe: Sequence[str]) -> bool:
    """Is a result a failure, or does it have all the observations asked for?"""
    return isinstance(result, Failure) or len(result.observations) == len(observe)


def _load_error(session: "Rebuildable", benchmark: Benchmark, reply: Failure) -> Exception | None:
    """Return why the benchmark could not be loaded, if that is what failed."""
    return session.worker.residents.load_error(benchmark) if reply.code == FailureCode.BENCHMARK_UNKNOWN else None


# --- Expansions: several candidates in one request, or single ones in requests of their own, to find who does harm


class PendingExpand(Pending):
    """Evaluates candidates. When it is sent again, candidates that killed a worker are left out.

    Attributes:
        combine: turns the reply and the crashes into the caller's result.
        crashes: the errors of the candidates left out, by index.
        alone: evaluate each candidate by itself, because a worker died while preparing several at once.
        only: index of the candidate to evaluate, `NO_CANDIDATE` for all of them.
    """

    __slots__ = (
        "_answers",
        "_deaths",
        "_missing",
        "alone",
        "candidates",
        "combine",
        "crashes",
        "observe",
        "only",
        "timeout",
    )
    answer = Expanded
    doing = "a candidate of an expansion"
    session: "Rebuildable"

    def __init__(
        self,
        session: "Rebuildable",
        candidates: Sequence[tuple[Any, ...]],
        observe: tuple[str, ...],
        timeout: float,
        future: Receiver,
        combine: Callable[[Expanded, dict[int, Exception]], Any],
    ) -> None:
        super().__init__(session, future)
        self.candidates = tuple(candidates)
        self.observe = observe
        self.timeout = timeout
        self.combine = combine
        self.crashes: dict[int, Exception] = {}
        self.alone = False
        self._deaths: Counter[int] = Counter()
        self.only = NO_CANDIDATE
        self._answers: dict[int, Expanded] = {}  # of candidates that were evaluated in requests of their own
        self._missing: set[int] = set()

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

    __slots__ = ("_whole",)
    counted = False

    def __init__(self, whole: PendingExpand, index: int) -> None:
        """Make the part of an expansion that evaluates one candidate."""
        assert whole.future is not None
        super().__init__(whole.session, whole.candidates, whole.observe, whole.timeout, whole.future, whole.combine)
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


class PendingLoad(Pending):
    """Loads a benchmark on a worker. Nobody awaits it: if it fails, so does the `Open` behind it.

    Attributes:
        benchmark: the benchmark.
        timeout: in seconds.
        needed_by: the first request that needs the benchmark.
        loaded, failed: called with the outcome.
    """

    __slots__ = ("benchmark", "failed", "loaded", "needed_by", "timeout")

    def __init__(
        self,
        benchmark: Benchmark,
        timeout: float,
        needed_by: Pending,
        loaded: Callable[[Benchmark], None],
        failed: Callable[[Benchmark, Exception], None],
    ) -> None:
        super().__init__(None)
        self.benchmark = benchmark
        self.timeout = timeout
        self.needed_by = needed_by
        self.loaded = loaded
        self.failed = failed

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


class PendingRebuild(Pending):
    """Replays a session's actions on a new process, after a `PendingReopen`, and checks the resulting state."""

    __slots__ = ("timeout", "trajectory")
    answer = Observed
    counted = False
    doing = "the replay of a session"
    session: Rebuildable

    def __init__(self, session: Rebuildable, trajectory: Trajectory, timeout: float) -> None:
        super().__init__(session)
        self.trajectory = trajectory
        self.timeout = timeout

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

    __slots__ = ()

    def message(self, number: int) -> Request:
        session, key = self.session, self.trajectory.benchmark.key
        return Open(number, session.number, key, self.timeout, (), tuple(session.known_parameters.items()))

    def apply(self, reply: Observed) -> None:
        """Do nothing: the replay that follows checks the state."""

    def fail(self, reply: Failure) -> Exception:
        return _load_error(self.session, self.trajectory.benchmark, reply) or super().fail(reply)


class PendingClose(Pending):
    """Frees sessions on a worker; nobody awaits it."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: tuple[int, ...]) -> None:
        super().__init__(None)
        self.numbers = numbers

    def message(self, number: int) -> Request:
        return Close(number, self.numbers)


class PendingUnload(Pending):
    """Unloads a benchmark from a worker; nobody awaits it."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        super().__init__(None)
        self.key = key

    def message(self, number: int) -> Request:
        return Unload(number, self.key)


class StandIn(Rebuildable):
    """A session without a caller, in which what others have done is repeated."""

    __slots__ = ()

    def __init__(self, worker: Any, trajectory: Trajectory) -> None:
        super().__init__(worker)
        self.trajectory = trajectory

    def lose(self, error: Exception) -> None:
        """Do nothing: that the process survives is all that is asked of it."""


class PendingProbe(Pending):
    """Does something again of which only that the process survives it is of interest; nobody awaits it.

    Args:
        make: makes the message from its number.
    """

    __slots__ = ("message",)

    def __init__(self, make: Callable[[int], Request]) -> None:
        super().__init__(None)
        self.message = make  # type: ignore[assignment,method-assign]

    def accepts(self, reply: Reply) -> bool:
        return True

    def settle(self, reply: Reply) -> None:
        """Do nothing: it has survived."""


# These concern one process only, and are not sent to its successor.
PROCESS_LOCAL = (PendingClose, PendingUnload, PendingLoad, PendingRebuild, PendingForkAhead, PendingProbe)


class _PendingVerdict(Pending):
    """Replaces a request that killed its worker while earlier requests of its session had no reply.

    Those earlier requests run again. The verdict, a step without actions, runs behind them; when it is answered, the
    session is in the state from which the guilty request started, and the guilty request fails there. Requests behind
    the guilty one fail with it, without being sent.
    """

    __slots__ = ("behind", "error", "guilty", "spoken")
    answer = Observed
    session: Rebuildable

    def __init__(
        self, guilty: Pending, behind: Sequence[Pending], error: Exception, spoken: Callable[[Pending], None]
    ) -> None:
        super().__init__(guilty.session, guilty.future)
        self.independent = guilty.independent
        self.guilty = guilty
        self.behind = behind
        self.error = error
        self.spoken = spoken

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
    place = list(requests).index(guilty)
    before, after = list(requests)[:place], list(requests)[place + 1 :]
    behind = [one for one in after if one.session is guilty.session]
    others = [one for one in after if one.session is not guilty.session]
    return [*before, _PendingVerdict(guilty, behind, error, spoken), *others]


def resendable(sent: Iterable[Pending]) -> list[Pending]:
    """Return the requests that mean something to another process."""
    return [one for one in sent if not isinstance(one, PROCESS_LOCAL)]
