"""The sessions of one worker slot, and those its process has loaded."""

import asyncio
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from aiocg.datasets.benchmark import Benchmark
from aiocg.fleet.pending import Pending
from aiocg.fleet.quarantine import Quarantine
from aiocg.fleet.records import Records
from aiocg.fleet.recovery import PendingLoad, PendingRebuild, PendingReopen, PendingUnload
from aiocg.fleet.requests import PendingFork, PendingOpen

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["REBUILD_TIMEOUT", "Residents"]

REBUILD_TIMEOUT = 300.0  # seconds for each action of a replay, and for loading its benchmark
MAX_LOADED = 256  # benchmarks that a worker keeps loaded for resets; running sessions do not need theirs


class _Loads:
    """The benchmarks of one worker slot; the quarantine learns which ones workers of this kind have loaded."""

    def __init__(self, kind: str, quarantine: Quarantine) -> None:
        self._kind = kind
        self._quarantine = quarantine
        self._loaded: OrderedDict[str, None] = OrderedDict()
        self._errors: dict[str, Exception] = {}

    def forget(self) -> None:
        """Start anew with a process that has loaded nothing."""
        self._loaded.clear()

    def need(self, benchmark: Benchmark, timeout: float, needed_by: Pending) -> Iterator[Pending]:
        """Generate the requests after which a benchmark is loaded."""
        key = benchmark.key
        if key in self._loaded:
            self._loaded.move_to_end(key)
            return
        self._errors.pop(key, None)
        self._loaded[key] = None
        if len(self._loaded) > MAX_LOADED:
            yield PendingUnload(self._loaded.popitem(last=False)[0])
        yield PendingLoad(benchmark, timeout, needed_by, self._succeeded, self._failed)

    def error(self, benchmark: Benchmark) -> Exception | None:
        """Return why a benchmark could not be loaded, None if it was not tried or succeeded."""
        return self._errors.get(benchmark.key)

    def _succeeded(self, benchmark: Benchmark) -> None:
        self._quarantine.loaded(self._kind, benchmark.key)

    def _failed(self, benchmark: Benchmark, error: Exception) -> None:
        self._loaded.pop(benchmark.key, None)
        self._errors[benchmark.key] = error
        while len(self._errors) > MAX_LOADED:  # the resets that needed the oldest errors have long failed
            del self._errors[next(iter(self._errors))]


class Residents:
    """The sessions of one slot.

    Attributes:
        sessions: the sessions by number; a session that was dropped disappears by itself.
        bound: numbers of the sessions that the present process knows; always the same object.

    Args:
        kind: of the worker.
        quarantine: learns which benchmarks workers of this kind have loaded.
        records: of the slot.
        flush: called soon after a session was released; it should call `take_released`.
    """

    def __init__(self, kind: str, quarantine: Quarantine, records: Records, flush: Callable[[], None]) -> None:
        self.sessions: weakref.WeakValueDictionary[int, Rebuildable] = weakref.WeakValueDictionary()
        self.bound: set[int] = set()
        self._released: list[int] = []
        self._loads = _Loads(kind, quarantine)
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
