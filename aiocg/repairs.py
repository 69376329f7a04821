"""Requests that nobody has made: what a worker needs to be told so that those that somebody has can be carried out."""

import asyncio
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import SessionLost
from aiocg.replay import Trajectory
from aiocg.requests import Pending, PendingForkAhead, load_error
from aiocg.transport.messages import Close, Failure, Load, Observed, Open, Reply, Request, Step, Unload

if TYPE_CHECKING:
    from aiocg.session import Session

__all__ = [
    "OF_ONE_PROCESS",
    "PendingClose",
    "PendingLoad",
    "PendingRebuild",
    "PendingReopen",
    "PendingUnload",
    "PendingVerdict",
    "made_before",
    "postponed",
]

VERDICT_TIMEOUT = 60.0  # seconds for doing nothing


class PendingLoad(Pending):
    """Gives a benchmark to a worker; nobody awaits it, the `Open` behind it fails if it does."""

    __slots__ = ("benchmark", "failed", "timeout")

    def __init__(self, benchmark: Benchmark, timeout: float, failed: Callable[[Benchmark, Exception], None]) -> None:
        super().__init__(None)
        self.benchmark = benchmark
        self.timeout = timeout
        self.failed = failed

    @property
    def doing(self) -> str:  # type: ignore[override]
        return f"the loading of {self.benchmark.uri}"

    def message(self, number: int) -> Request:
        return Load(number, self.benchmark.key, self.benchmark.content, self.timeout, self.benchmark.recipe)

    def fail(self, reply: Failure) -> Exception:
        return BenchmarkInitError(str(self.benchmark.uri), reply.message)

    def reject(self, error: Exception) -> None:
        self.failed(self.benchmark, error)


class PendingRebuild(Pending):
    """Replays a session on a fresh worker, behind a `PendingReopen`, and checks the state it comes to."""

    __slots__ = ("timeout", "trajectory")
    answer = Observed
    doing = "the replay of a session"
    session: "Session"

    def __init__(self, session: "Session", trajectory: Trajectory, timeout: float) -> None:
        super().__init__(session)
        self.trajectory = trajectory
        self.timeout = timeout

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, tuple(self.trajectory.actions()), self.timeout)

    def apply(self, reply: Observed) -> None:
        if reply.state != self.trajectory.state:
            self.session.lose(SessionLost(self.trajectory.state, reply.state))

    def reject(self, error: Exception) -> None:
        self.session.lose(error)

    def _leave(self) -> None:
        """Nobody asked for a rebuild, so it does not count among the requests of the session."""


class PendingReopen(PendingRebuild):
    """Opens the benchmark of a session that is being rebuilt."""

    __slots__ = ()

    def message(self, number: int) -> Request:
        session, key = self.session, self.trajectory.benchmark.key
        return Open(number, session.number, key, self.timeout, (), tuple(session.known_parameters.items()))

    def apply(self, reply: Observed) -> None:
        """Nothing to check yet: the replay behind this one does."""

    def fail(self, reply: Failure) -> Exception:
        return load_error(self.session, self.trajectory.benchmark, reply) or super().fail(reply)


class PendingClose(Pending):
    """Frees sessions of a worker; nobody awaits it."""

    __slots__ = ("numbers",)

    def __init__(self, numbers: tuple[int, ...], future: "asyncio.Future[Any] | None" = None) -> None:
        super().__init__(None, future)
        self.numbers = numbers

    def message(self, number: int) -> Request:
        return Close(number, self.numbers)


class PendingUnload(Pending):
    """Lets a worker forget a benchmark; nobody awaits it."""

    __slots__ = ("key",)

    def __init__(self, key: str) -> None:
        super().__init__(None)
        self.key = key

    def message(self, number: int) -> Request:
        return Unload(number, self.key)


# These mean nothing to the next process.
OF_ONE_PROCESS = (PendingClose, PendingUnload, PendingLoad, PendingRebuild, PendingForkAhead)


class PendingVerdict(Pending):
    """Stands in for a request that has killed its worker while others of its session before it have no answer yet.

    Their answers have died with the worker, so they are carried out again. In place of the guilty one nothing is done:
    once that is answered, so are they, and it fails in the state that it was to start from. What was made behind it
    fails with it, without being sent.
    """

    __slots__ = ("behind", "error", "guilty", "spoken")
    answer = Observed
    session: "Session"

    def __init__(
        self, guilty: Pending, behind: Sequence[Pending], error: Exception, spoken: Callable[[Pending], None]
    ) -> None:
        super().__init__(guilty.session, guilty.future)
        self.forgiving = guilty.forgiving
        self.guilty = guilty
        self.behind = behind
        self.error = error
        self.spoken = spoken

    @property
    def doing(self) -> str:  # type: ignore[override]
        return self.guilty.doing

    def message(self, number: int) -> Request:
        return Step(number, self.session.number, (), VERDICT_TIMEOUT)

    def changes(self) -> "tuple[Session, ...]":
        return (self.session,)

    def settle(self, reply: Reply) -> None:
        self.spoken(self.guilty)
        self.reject(self.error)
        self.session.lose(self.error)

    def reject(self, error: Exception) -> None:
        for pending in (self.guilty, *self.behind):
            pending.reject(error)


def made_before(pending: Pending, requests: Iterable[Pending]) -> bool:
    """Say whether some requests, which are in order, have others of the same session before this one."""
    earlier = itertools.takewhile(lambda one: one is not pending, requests)
    return any(one.session is pending.session or pending.session in one.changes() for one in earlier)


def postponed(
    guilty: Pending, requests: Sequence[Pending], error: Exception, spoken: Callable[[Pending], None]
) -> list[Pending]:
    """Put a verdict in place of a guilty request and of all that was made behind it for its session."""
    place = list(requests).index(guilty)
    before, after = list(requests)[:place], list(requests)[place + 1 :]
    behind = [one for one in after if one.session is guilty.session]
    others = [one for one in after if one.session is not guilty.session]
    return [*before, PendingVerdict(guilty, behind, error, spoken), *others]
