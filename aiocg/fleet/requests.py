"""The requests that callers make: reset, step, fork, expand, parameters, checks, statistics."""

import asyncio
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.fleet.pending import Finish, Pending, Receiver, Recover
from aiocg.fleet.replay import Trajectory
from aiocg.transport.messages import (
    Action,
    Check,
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
    TextReply,
)

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable, Setting


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
        return load_error(self.session, self.benchmark, reply) or super().fail(reply)


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


def load_error(session: "Rebuildable", benchmark: Benchmark, reply: Failure) -> Exception | None:
    """Return why the benchmark could not be loaded, if that is what failed."""
    return session.worker.residents.load_error(benchmark) if reply.code == FailureCode.BENCHMARK_UNKNOWN else None
