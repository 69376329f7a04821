"""Requests on their way: what was asked, of which session, and who waits for the answer.

A pending request is kept until its reply is in, so that it can be sent again, in order, to the worker that replaces
one that died. `settle` and `reject` are called exactly once each between them.
"""

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from aiocg.datasets.benchmark import Benchmark
from aiocg.death import Death
from aiocg.errors import failure
from aiocg.replay import Trajectory
from aiocg.transport.messages import (
    Action,
    Check,
    Done,
    Expand,
    Expanded,
    Failure,
    FailureCode,
    Fork,
    Observed,
    Open,
    Parameter,
    Reply,
    Request,
    Statistics,
    Step,
    Told,
)
from aiocg.transport.status import SEVERAL

if TYPE_CHECKING:
    from aiocg.session import Session, Setting

Finish = Callable[[Any], Any]  # turns a reply into the caller's result
Recover = Callable[[Exception], Any]  # turns an error into the caller's result, or raises


class Receiver(Protocol):
    """Whoever is told how a request went: a future, or what costs less where many are told at once."""

    def done(self) -> bool:
        """Does nobody want to know any more?"""

    def set_result(self, result: Any, /) -> None:
        """Take the result."""

    def set_exception(self, exception: Any, /) -> None:
        """Take the error in place of a result."""


ReceiverT = TypeVar("ReceiverT", bound=Receiver)


class Pending:
    """A request without a reply.

    Attributes:
        session: the session it belongs to, None for those of the worker as a whole.
        future: done when the reply is in; or another receiver of it.
        attempts: how often a worker died while executing it.
        forgiving: it was made when the one before it had been cancelled, so that it is as well if that is not done.
        doing: what it does, for error messages.
    """

    __slots__ = ("attempts", "finish", "forgiving", "future", "recover", "session")
    doing = "a request"
    answer: ClassVar[type] = Done  # of a worker that has carried it out

    def __init__(
        self,
        session: "Session | None",
        future: Receiver | None = None,
        finish: Finish | None = None,
        recover: Recover | None = None,
    ) -> None:
        self.session = session
        self.future = future
        self.finish = finish
        self.recover = recover
        self.attempts = 0
        self.forgiving = False

    def message(self, number: int) -> Request:
        """Build the message; `number` is the request number on this connection."""
        raise NotImplementedError

    def accepts(self, reply: Reply) -> bool:
        """Can this be a worker's answer? Otherwise it is not to be trusted with anything."""
        return isinstance(reply, self.answer | Failure)

    def apply(self, reply: Any) -> None:
        """Take over what a successful reply says about the session, before anyone is told."""

    def fail(self, reply: Failure) -> Exception:
        """Take over what a failure says about the session and return it as an error."""
        return failure(reply.code, reply.message, reply.fields)

    def binds(self) -> "tuple[Session, ...]":
        """Return the sessions that the worker has once it has carried this out."""
        return () if self.session is None else (self.session,)

    def changes(self) -> "tuple[Session, ...]":
        """Return the sessions whose state is another one once this is carried out."""
        return ()

    def take_back(self) -> None:
        """Undo what was noted of this when it was made: it will not be carried out, and is about to be rejected."""

    @property
    def abandoned(self) -> bool:
        """Was it cancelled by all who wanted to know how it goes?"""
        return self.future is not None and self.future.done()

    def starts_from(self) -> str | None:
        """Return the key of the benchmark that the worker needs for this."""
        trajectory = self.session.trajectory if self.session is not None else None
        return trajectory.benchmark.key if trajectory is not None else None

    def settle(self, reply: Reply) -> None:
        """Deliver the worker's reply."""
        if isinstance(reply, Failure):
            self.reject(self.fail(reply))
            return
        self.apply(reply)
        self._leave()
        try:
            result = self.result(reply)
        except BaseException as error:  # whatever the user's code raises is for whoever waits, not for the event loop
            self._raise(error)
        else:
            self._return(result)

    def reject(self, error: Exception) -> None:
        """Deliver an error in place of a reply."""
        self._leave()
        try:
            result = self.fallback(error)
        except BaseException as final:
            self._raise(final)
        else:
            self._return(result)

    def result(self, reply: Any) -> Any:
        """Turn a successful reply into what the caller gets."""
        return self.finish(reply) if self.finish is not None else reply

    def fallback(self, error: Exception) -> Any:
        """Turn an error into what the caller gets, or raise what the caller is to see."""
        if self.recover is None:
            raise error
        return self.recover(error)

    def _return(self, result: Any) -> None:
        if self.future is not None and not self.future.done():
            self.future.set_result(result)

    def _raise(self, error: BaseException) -> None:
        if self.future is not None and not self.future.done():
            if isinstance(error, (StopIteration, asyncio.CancelledError)):  # which mean something else to a future
                text = f"a reward or an observation raised {error!r}"
                error = RuntimeError(text).with_traceback(error.__traceback__)
            self.future.set_exception(error)

    def _leave(self) -> None:
        session = self.session
        if session is not None:
            session.pending -= 1
            if not session.pending:
                session.last = None


class PendingOpen(Pending):
    """Binds the session to the start of a benchmark; `replaces` says that the process knows it at another state."""

    __slots__ = ("benchmark", "observe", "replaces", "sent", "timeout")
    answer = Observed
    doing = "a reset"
    session: "Session"

    def __init__(
        self,
        session: "Session",
        benchmark: Benchmark,
        observe: tuple[str, ...],
        timeout: float,
        future: "asyncio.Future[Any] | None" = None,
        finish: Finish | None = None,
    ) -> None:
        super().__init__(session, future, finish)
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

    def changes(self) -> "tuple[Session, ...]":
        return (self.session,)

    def starts_from(self) -> str | None:
        return self.benchmark.key

    def fail(self, reply: Failure) -> Exception:
        if not self.replaces:  # otherwise it is still at its old state
            self.session.worker.unbind(self.session)
        return load_error(self.session, self.benchmark, reply) or super().fail(reply)


class PendingStep(Pending):
    """Applies actions and observes."""

    __slots__ = ("actions", "observe", "timeout")
    answer = Observed
    session: "Session"

    def __init__(
        self,
        session: "Session",
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

    def changes(self) -> "tuple[Session, ...]":
        return (self.session,) if self.actions else ()

    @property
    def doing(self) -> str:  # type: ignore[override]
        if not self.actions:
            return f"the observation of {', '.join(self.observe)}"
        return f"the actions {list(self.actions)}"

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, self.actions, self.timeout, self.observe)

    def accepts(self, reply: Reply) -> bool:
        if isinstance(reply, Failure):
            applied, state = reply.fields.get("applied", 0), reply.fields.get("state", 0)
            return isinstance(applied, int) and 0 <= applied <= len(self.actions) and isinstance(state, int)
        return super().accepts(reply) and _has(reply, self.observe)

    def apply(self, reply: Observed) -> None:
        if self.actions:
            session = self.session
            assert session.trajectory is not None
            session.trajectory = session.trajectory.extended(self.actions, reply.state)

    def fail(self, reply: Failure) -> Exception:
        session = self.session
        if reply.code == FailureCode.ACTION_UNKNOWN:
            return super().fail(reply)  # nothing was done, and the session goes on
        session.ended = session.ended or bool(self.actions)
        applied = reply.fields.get("applied", 0)
        if applied:
            assert session.trajectory is not None
            session.trajectory = session.trajectory.extended(self.actions[:applied], reply.fields["state"])
        return super().fail(reply)


class PendingFork(Pending):
    """Binds another session to the state of this one."""

    __slots__ = ("child",)
    doing = "a fork"
    session: "Session"

    def __init__(
        self, session: "Session", child: "Session", future: "asyncio.Future[Any] | None", finish: Finish | None = None
    ) -> None:
        super().__init__(session, future, finish)
        self.child = child

    def message(self, number: int) -> Request:
        return Fork(number, self.session.number, self.child.number)

    def binds(self) -> "tuple[Session, ...]":
        return (self.session, self.child)

    def changes(self) -> "tuple[Session, ...]":
        return (self.child,)

    def lose_child(self, error: Exception) -> None:
        """Take note that the process may have made the child of a wrong state."""
        self.child.lose(error)

    def apply(self, reply: Any) -> None:
        self.child.trajectory = self.session.trajectory
        self.child.ended = False


class PendingForkAhead(PendingFork):
    """A fork that nobody waits for: what the child will be is known, and the child knows it already.

    So the child does not depend on the answer, nor on what becomes of the one it is forked from: when the process dies,
    it is rebuilt like any other session. It is lost only where a process has made it of a wrong state, or not at all.
    """

    __slots__ = ("trajectory",)

    def __init__(self, session: "Session", child: "Session") -> None:
        super().__init__(session, child, None)
        self.trajectory = child.trajectory

    def changes(self) -> "tuple[Session, ...]":
        return ()  # what it does is no news

    def apply(self, reply: Any) -> None:
        """Nothing is to be taken over."""

    def fail(self, reply: Failure) -> Exception:
        error = super().fail(reply)
        self.lose_child(error)
        return error

    def reject(self, error: Exception) -> None:
        """Where the process is gone the child is rebuilt one day; otherwise `lose_child` is called too."""

    def lose_child(self, error: Exception) -> None:
        if self.child.trajectory is self.trajectory:  # otherwise it has been made of another one since
            self.child.lose(error)

    def _leave(self) -> None:
        """It does not count among the requests of the session: it changes nothing, and nobody waits."""


class PendingExpand(Pending):
    """Evaluates candidates; those that cost a worker are left out when it is sent again.

    Attributes:
        crashes: the errors of those.
        alone: a worker died while it prepared several; each is evaluated by itself, so that it is known which it was.
    """

    __slots__ = ("_deaths", "alone", "candidates", "crashes", "observe", "timeout")
    answer = Expanded
    doing = "a candidate of an expansion"
    session: "Session"

    def __init__(
        self,
        session: "Session",
        candidates: Sequence[tuple[Any, ...]],
        observe: tuple[str, ...],
        timeout: float,
        future: "asyncio.Future[Any]",
        finish: Callable[[Expanded, dict[int, Exception]], Any],
    ) -> None:
        super().__init__(session, future, lambda reply: finish(reply, self.crashes))
        self.candidates = tuple(candidates)
        self.observe = observe
        self.timeout = timeout
        self.crashes: dict[int, Exception] = {}
        self.alone = False
        self._deaths: Counter[int] = Counter()

    def message(self, number: int) -> Request:
        failed = tuple(sorted(self.crashes))
        return Expand(number, self.session.number, self.candidates, self.timeout, self.observe, failed, self.alone)

    def died(self, candidate: int, death: Death, attempts: int) -> bool:
        """Take note of a death over a candidate, or SEVERAL, and say whether it is held responsible.

        Args:
            candidate: its index.
            death: of the worker.
            attempts: after so many it is responsible, whatever killed the worker.
        """
        if candidate == SEVERAL:
            self.alone = True
            return False
        self._deaths[candidate] += 1
        if death.outside and self._deaths[candidate] < attempts:
            return False
        self.crashes[candidate] = death.error(self.doing)
        return True

    def accepts(self, reply: Reply) -> bool:
        if not isinstance(reply, Expanded):
            return super().accepts(reply)
        return len(reply.candidates) == len(self.candidates) and all(
            result is None or bool(result.code) or _has(result, self.observe) for result in reply.candidates
        )


class PendingParameter(Pending):
    """Sends an out-of-band parameter.

    The session takes note of it when it is sent, not when it is answered, so that a reset or fork behind it has it.

    Attributes:
        setting: what the session takes note of, None for a question.
    """

    __slots__ = ("key", "setting", "timeout", "value")
    answer = Told
    session: "Session"

    def __init__(
        self,
        session: "Session",
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

    def changes(self) -> "tuple[Session, ...]":
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
    answer = Told

    def __init__(self, future: "asyncio.Future[Any]") -> None:
        super().__init__(None, future, lambda reply: json.loads(reply.text))

    def message(self, number: int) -> Request:
        return Statistics(number)


def _has(result: Any, observe: Sequence[str]) -> bool:
    """Does a result, if it is none of a failure, have what was to be observed?"""
    return isinstance(result, Failure) or len(result.observations) == len(observe)


def load_error(session: "Session", benchmark: Benchmark, reply: Failure) -> Exception | None:
    """Return why there was no benchmark to open, if that is what a failure says."""
    return session.worker.load_error(benchmark) if reply.code == FailureCode.BENCHMARK_UNKNOWN else None
