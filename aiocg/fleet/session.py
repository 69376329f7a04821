"""The client's side of one session: it makes requests, and hands them to the worker slot it lives on."""

import asyncio
import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import EnvClosed, ForkedProcess, InvalidAction, ResetNeeded, RuntimeClosed, TooManyPending
from aiocg.fleet.rebuildable import Rebuildable, Setting
from aiocg.fleet.requests import (
    Finish,
    Pending,
    PendingCheck,
    PendingExpand,
    PendingFork,
    PendingForkAhead,
    PendingOpen,
    PendingParameter,
    PendingStatistics,
    PendingStep,
    Recover,
)
from aiocg.fleet.slot import WorkerSlot
from aiocg.transport.messages import Action

if TYPE_CHECKING:
    from aiocg.fleet.slot import WorkerSlot

# Limits on pending requests, of about 1 KiB each, so that a slow worker cannot exhaust the client's memory.
MAX_PENDING = 4096  # per session
MAX_WORKER_PENDING = 1 << 17  # per worker
MAX_FORKS_AHEAD = 1024  # with more requests on a worker, forks are awaited

_process = os.getpid()


def _forked() -> None:
    global _process
    _process = os.getpid()


os.register_at_fork(after_in_child=_forked)


class Session(Rebuildable):
    """One environment's state on a worker.

    Requests are executed in the order they are made. A session outlives its worker: it is rebuilt on the next one.

    Attributes:
        future: creates a future for a request.
    """

    worker: "WorkerSlot"

    def __init__(self, worker: "WorkerSlot", settings: Mapping[str, Setting] = MappingProxyType({})) -> None:
        super().__init__(worker, settings)
        self._loop = asyncio.get_running_loop()
        self._process = _process
        self.future: Callable[[], asyncio.Future[Any]] = self._loop.create_future
        worker.residents.adopt(self)

    def open(
        self,
        benchmark: Benchmark,
        observe: tuple[str, ...],
        timeout: float,
        finish: Finish,
        loading: float | None = None,
    ) -> "asyncio.Future[Any]":
        """Reset to the start of a benchmark whose content is in memory; `loading` is the timeout for loading it."""
        future = self.future()
        self.send(PendingOpen(self, benchmark, observe, timeout, loading=loading, future=future, finish=finish))
        return future

    def step(
        self,
        actions: tuple[Any, ...],
        observe: tuple[str, ...],
        timeout: float,
        finish: Finish,
        recover: Recover | None = None,
    ) -> "asyncio.Future[Any]":
        """Apply actions, then compute observations."""
        future = self.future()
        self.send(PendingStep(self, actions, observe, timeout, future=future, finish=finish, recover=recover))
        return future

    def ask(self, observe: tuple[str, ...], timeout: float, finish: Finish, recover: Recover | None = None) -> None:
        """Observe the state without anyone waiting; an error reaches only `recover`."""
        self.step((), observe, timeout, finish, recover).add_done_callback(_retrieve)

    def fork(self, child: "Session", finish: Finish | None = None) -> "asyncio.Future[Any]":
        """Give `child`, a session on the same worker, this session's state and parameters."""
        assert child.worker is self.worker
        child.settings = self.settings
        future = self.future()
        self.send(PendingFork(self, child, future=future, finish=finish))
        return future

    def fork_ahead(self, child: "Session") -> bool:
        """Fork without waiting for a reply, if the child's state is already known.

        Errors with the child surface on its first request.

        Returns:
            Whether that was possible; if not, nothing was done.
        """
        worker = self.worker
        if self.pending or child.pending or self.closed or self.error is not None or not worker.usable:
            return False
        if self._process != _process:
            raise ForkedProcess(self._process)
        if worker.pending >= MAX_FORKS_AHEAD or asyncio._get_running_loop() is not self._loop:
            return False
        assert child.worker is worker
        child.settings, child.trajectory, child.ended = self.settings, self.trajectory, False
        worker.fork_ahead(PendingForkAhead(self, child))
        return True

    def expand(
        self, candidates: list[tuple[Any, ...]], observe: tuple[str, ...], timeout: float, finish: Any
    ) -> "asyncio.Future[Any]":
        """Evaluate candidates from the current state."""
        future = self.future()
        self.send(PendingExpand(self, tuple(candidates), observe, timeout, finish, future=future))
        return future

    def parameter(self, key: str, value: str, timeout: float) -> "asyncio.Future[str]":
        """Send an out-of-band parameter; an empty value makes it a question, which is not kept."""
        future = self.future()
        setting = Setting(value, self.settings.get(key)) if value else None
        self.send(PendingParameter(self, key, value, timeout, setting, future=future))
        if setting is not None and setting.value is not None:
            kept = {name: other for name, other in self.settings.items() if name != key}
            self.settings = {**kept, key: setting}  # last, in the order in which the worker sees them
        return future

    def send(self, pending: Pending) -> None:
        """Make a request; it is executed after all earlier ones.

        Raises:
            EnvClosed: if the session was closed.
            ForkedProcess: in a fork of the process that the session belongs to.
            TooManyPending: if too many requests are pending.
        """
        if self._process != _process:
            raise ForkedProcess(self._process)
        if asyncio._get_running_loop() is not self._loop:
            raise RuntimeError("this environment belongs to another event loop: use it there")
        if self.closed:
            raise EnvClosed("this environment was closed")
        if self.pending >= MAX_PENDING:
            raise TooManyPending(self.pending, "this environment")
        if self.worker.pending >= MAX_WORKER_PENDING:
            raise TooManyPending(self.worker.pending, "the environments on this worker")
        self.pending += 1
        last, self.last = self.last, pending
        if last is not None and last.abandoned:
            pending.independent = True
        if self.error is not None:
            closed = isinstance(self.error, RuntimeClosed)
            pending.reject(self.error if closed else ResetNeeded(f"the session has ended: {self.error}"))
        else:
            self.worker.send(pending)

    @property
    def is_unsettled(self) -> bool:
        """Was the latest request cancelled, while it is not yet known whether it was executed?"""
        return self.last is not None and self.last.abandoned and self in self.last.changes()

    def close(self) -> None:
        """Free the session on its worker; idempotent, allowed with requests in flight and from any thread."""
        if not self.closed:
            self.closed = True
            if asyncio._get_running_loop() is self._loop:
                self.worker.residents.release(self)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed, and the worker with it
                    self._loop.call_soon_threadsafe(self.worker.residents.release, self)

    def __del__(self) -> None:
        # A dropped environment or snapshot must not hold memory on the worker. Garbage collection may run in any
        # thread, so the loop does the work.
        if not self.closed:
            residents, number = self.worker.residents, self.number
            with contextlib.suppress(RuntimeError):  # the loop is closed, and the worker with it
                self._loop.call_soon_threadsafe(residents.release_number, number)


def _retrieve(future: "asyncio.Future[Any]") -> None:
    """Mark the error of a request as seen."""
    if not future.cancelled():
        future.exception()


# ------------------------------------------------------------------------ Questions to a worker that concern no session


async def check(worker: WorkerSlot, actions: Sequence[Action]) -> list[InvalidAction | None]:
    """Ask which texts are actions; return None for each that is, and an error for each that is not."""
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in actions]
    for action, future in zip(actions, futures, strict=True):
        worker.send(PendingCheck(None, (action,), future=future))
    answers = await asyncio.gather(*futures, return_exceptions=True)
    for answer in answers:
        if isinstance(answer, BaseException) and not isinstance(answer, InvalidAction):
            raise answer
    return [answer if isinstance(answer, InvalidAction) else None for answer in answers]


async def statistics(worker: WorkerSlot) -> dict[str, Any]:
    """Return a worker's counters."""
    future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
    worker.send(PendingStatistics(None, future=future))
    return await future
