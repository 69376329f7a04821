"""The sessions of one worker slot, and what the slot's present process knows of them and their programs."""

import asyncio
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from aiocg.datasets.benchmark import Benchmark
from aiocg.fleet.loads import Loads
from aiocg.fleet.pending import Pending
from aiocg.fleet.records import Records
from aiocg.fleet.recovery import PendingRebuild, PendingReopen
from aiocg.fleet.requests import PendingFork, PendingOpen

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["REBUILD_TIMEOUT", "Residents"]

REBUILD_TIMEOUT = 300.0  # seconds for each action of a replay, and for loading its benchmark


class Residents:
    """The sessions of one slot.

    Attributes:
        sessions: the sessions by number; a session that was dropped disappears by itself.
        bound: numbers of the sessions that the present process knows; always the same object.

    Args:
        loads: the benchmarks that the process has loaded.
        records: of the slot.
        flush: called soon after a session was released; it should call `take_released`.
    """

    def __init__(self, loads: Loads, records: Records, flush: Callable[[], None]) -> None:
        self.sessions: weakref.WeakValueDictionary[int, Rebuildable] = weakref.WeakValueDictionary()
        self.bound: set[int] = set()
        self._released: list[int] = []
        self._loads = loads
        self._records = records
        self._flush = flush

    def adopt(self, session: "Rebuildable") -> None:
        """Add a session."""
        self.sessions[session.number] = session

    def leave(self, session: "Rebuildable") -> None:
        """Remove a session that moves to another slot."""
        self.sessions.pop(session.number, None)

    def release(self, session: "Rebuildable") -> None:
        """Remove a session and free it on the process."""
        self.sessions.pop(session.number, None)
        self.release_number(session.number)

    def release_number(self, number: int) -> None:
        """Free a session by number; numbers released in one turn of the event loop travel together."""
        if not self._released:
            asyncio.get_running_loop().call_soon(self._flush)
        self._released.append(number)

    def take_released(self) -> tuple[int, ...]:
        """Return the numbers of the sessions to free, and consider them freed."""
        numbers, self._released = tuple(self._released), []
        self.bound.difference_update(numbers)
        return numbers

    def release_closed(self) -> None:
        """Release the sessions that were closed after requests had bound them again."""
        self._released += self.bound.difference(self.sessions.keys())

    def unbind_closed(self, requests: Iterable[Pending]) -> set[int]:
        """Return the numbers of closed sessions that some requests have just bound again, and unbind them."""
        closed = {session.number for pending in requests for session in pending.binds() if session.closed}
        self.bound -= closed
        return closed

    def forget_process(self) -> None:
        """Start anew with a process that knows nothing."""
        self._loads.forget()
        self.bound.clear()

    def prepare(self, pending: Pending, session: "Rebuildable") -> Iterator[Pending]:
        """Generate the requests to send before one, so that the process has its session's benchmark and state.

        A session that lived on an earlier process is rebuilt only when it is first needed, so idle sessions cost a
        restart nothing.
        """
        if isinstance(pending, PendingOpen):
            yield from self._loads.need(pending.benchmark, pending.loading, pending)
            pending.replaces = session.number in self.bound
            self.bound.add(session.number)
            session.ended = False
        elif session.number not in self.bound and session.trajectory is not None:
            trajectory = session.trajectory
            timeout = REBUILD_TIMEOUT * (trajectory.length + 1)
            self._records.rebuilt(session)
            yield from self._loads.need(trajectory.benchmark, REBUILD_TIMEOUT, pending)
            yield PendingReopen(session, trajectory, timeout)
            yield PendingRebuild(session, trajectory, timeout)
            self.bound.add(session.number)
        if isinstance(pending, PendingFork):
            self.bound.add(pending.child.number)
            pending.child.ended = False

    def load_error(self, benchmark: Benchmark) -> Exception | None:
        """Return why a benchmark could not be loaded, None if it was not tried or succeeded."""
        return self._loads.error(benchmark)
