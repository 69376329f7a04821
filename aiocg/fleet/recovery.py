"""The runtime's own requests: loading programs, rebuilding and freeing sessions."""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.errors import SessionLost
from aiocg.fleet.pending import Pending
from aiocg.fleet.rebuildable import Rebuildable
from aiocg.fleet.replay import Trajectory
from aiocg.fleet.requests import PendingForkAhead, load_error
from aiocg.transport.messages import Close, Failure, Load, Observed, Open, Reply, Request, Step, Unload

__all__ = [
    "PROCESS_LOCAL",
    "PendingClose",
    "PendingLoad",
    "PendingProbe",
    "PendingRebuild",
    "PendingReopen",
    "PendingUnload",
    "PendingVerdict",
    "StandIn",
    "made_before",
    "postponed",
]

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
        return load_error(self.session, self.trajectory.benchmark, reply) or super().fail(reply)


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


class PendingVerdict(Pending):
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
    return [*before, PendingVerdict(guilty, behind, error, spoken), *others]
