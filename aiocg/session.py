"""The client's side of one session: which worker it lives on, and what would rebuild it."""

import asyncio
import contextlib
import itertools
from collections.abc import Mapping
from threading import get_ident
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from aiocg.datasets.benchmark import Benchmark
from aiocg.errors import EnvClosed, ResetNeeded, TooManyPending
from aiocg.replay import Trajectory
from aiocg.requests import (
    Finish,
    Pending,
    PendingExpand,
    PendingFork,
    PendingForkAhead,
    PendingOpen,
    PendingParameter,
    PendingStep,
    Recover,
)

if TYPE_CHECKING:
    from aiocg.worker import Worker

# Requests in flight, of about 1 KiB each: they bound what a slow worker can make the client hold.
MAX_PENDING = 4096  # per session
MAX_WORKER_PENDING = 1 << 17  # per worker
MAX_FORKS_AHEAD = 1024  # requests on a worker from which on a fork is waited for

_numbers = itertools.count(1)


class Setting:
    """A parameter that was sent. Sessions share it with those made of them: if it is refused, it is so for all.

    Attributes:
        value: what was sent; None once it was refused.
        before: what it replaces, until it is answered.
        is_answered: the compiler has taken or refused it.
    """

    __slots__ = ("before", "is_answered", "value")

    def __init__(self, value: str, before: "Setting | None") -> None:
        self.value: str | None = value
        self.before = before
        self.is_answered = False

    def taken(self) -> None:
        """Take note that the compiler took the value."""
        self.before, self.is_answered = None, True

    def refused(self) -> None:
        """Take note that the compiler did not take the value: what was set before still is."""
        self.value, self.is_answered = None, True

    def standing(self, *, answered: bool = False) -> "Setting | None":
        """Return the one whose value is set, this or one before it; if `answered`, whose value is known to be."""
        setting: Setting | None = self
        while setting is not None and (setting.value is None or (answered and not setting.is_answered)):
            setting = setting.before
        return setting


class Session:
    """One environment's state on a worker.

    Requests are executed in the order they are made. A session outlives its worker: it is rebuilt on the next one.

    Attributes:
        number: its name on the wire, unique in this process.
        worker: where it lives.
        trajectory: what has been acknowledged; None before the first reset.
        ended: an action has failed, and no further one is executed before the session is bound to another state.
        error: why the session is beyond rebuilding, None while it is well.
        pending: number of requests in flight.
        last: the request that was made last, None once it is answered with all before it.
        settings: the parameters that were sent, by key, the latest last.
    """

    __slots__ = (
        "__weakref__",
        "_loop",
        "_thread",
        "closed",
        "ended",
        "error",
        "last",
        "number",
        "pending",
        "settings",
        "trajectory",
        "worker",
    )

    def __init__(self, worker: "Worker", settings: Mapping[str, Setting] = MappingProxyType({})) -> None:
        self.number = next(_numbers)
        self.worker = worker
        self.trajectory: Trajectory | None = None
        self.ended = False
        self.error: Exception | None = None
        self.pending = 0
        self.last: Pending | None = None
        self.settings = settings
        self.closed = False
        self._loop = asyncio.get_running_loop()
        self._thread = get_ident()
        worker.adopt(self)

    def open(
        self, benchmark: Benchmark, observe: tuple[str, ...], timeout: float, finish: Finish
    ) -> "asyncio.Future[Any]":
        """Go to the start of a benchmark whose content is at hand."""
        future = self._loop.create_future()
        self.send(PendingOpen(self, benchmark, observe, timeout, future, finish))
        return future

    def step(
        self,
        actions: tuple[Any, ...],
        observe: tuple[str, ...],
        timeout: float,
        finish: Finish,
        recover: Recover | None = None,
    ) -> "asyncio.Future[Any]":
        """Apply actions, then observe."""
        future = self._loop.create_future()
        self.send(PendingStep(self, actions, observe, timeout, future, finish, recover))
        return future

    def fork(self, child: "Session", finish: Finish | None = None) -> "asyncio.Future[Any]":
        """Give `child`, a session on the same worker, this session's state and parameters."""
        assert child.worker is self.worker
        child.settings = self.settings
        future = self._loop.create_future()
        self.send(PendingFork(self, child, future, finish))
        return future

    def fork_ahead(self, child: "Session") -> bool:
        """Do as `fork` without an answer to wait for, where it is known now what the child will be.

        Whatever is wrong with the child is told by its first request.

        Returns:
            Whether that was possible; otherwise nothing was done.
        """
        worker = self.worker
        if self.pending or child.pending or self.closed or self.error is not None or not worker.usable:
            return False
        if worker.pending >= MAX_FORKS_AHEAD or get_ident() != self._thread or not self._loop.is_running():
            return False
        assert child.worker is worker
        child.settings, child.trajectory, child.ended = self.settings, self.trajectory, False
        worker.fork_ahead(PendingForkAhead(self, child))
        return True

    def expand(
        self, candidates: list[tuple[Any, ...]], observe: tuple[str, ...], timeout: float, finish: Any
    ) -> "asyncio.Future[Any]":
        """Evaluate candidates from the present state."""
        future = self._loop.create_future()
        self.send(PendingExpand(self, candidates, observe, timeout, future, finish))
        return future

    def parameter(self, key: str, value: str, timeout: float) -> "asyncio.Future[str]":
        """Send an out-of-band parameter; one with an empty value is a question, and not kept."""
        future = self._loop.create_future()
        setting = Setting(value, self.settings.get(key)) if value else None
        self.send(PendingParameter(self, key, value, timeout, future, setting))
        if setting is not None and setting.value is not None:
            kept = {name: other for name, other in self.settings.items() if name != key}
            self.settings = {**kept, key: setting}  # behind those that were sent before, as the worker sees them
        return future

    @property
    def parameters(self) -> dict[str, str]:
        """Keys and values of the parameters that are set, the latest last."""
        return self._values(answered=False)

    @property
    def known_parameters(self) -> dict[str, str]:
        """Those of the parameters that the compiler is known to have taken; the others are still under way."""
        return self._values(answered=True)

    def standing(self, *, answered: bool = False) -> dict[str, Setting]:
        """Return the settings whose values the parameters have."""
        found = {key: setting.standing(answered=answered) for key, setting in self.settings.items()}
        return {key: setting for key, setting in found.items() if setting is not None}

    def _values(self, *, answered: bool) -> dict[str, str]:
        return {key: setting.value for key, setting in self.standing(answered=answered).items() if setting.value}

    def confirm(self, taken: Mapping[str, tuple[Setting, str]]) -> None:
        """Take note of values that a reset has set, whatever becomes of the requests that they were first sent with."""
        for key, (setting, value) in taken.items():
            if setting.value is not None and setting.is_answered:
                continue
            own, newer = Setting(value, None), self.settings.get(key)
            own.taken()
            if newer is setting:
                self.settings = {**self.settings, key: own}
            while newer is not None and newer is not setting:  # those that were sent since
                if newer.before is setting:
                    newer.before = own
                newer = newer.before

    def future(self) -> "asyncio.Future[Any]":
        """Make a future for a request."""
        return self._loop.create_future()

    def send(self, pending: Pending) -> None:
        """Make a request, behind those that were made before.

        Raises:
            EnvClosed: when the session was closed.
            TooManyPending: when too many are in flight.
        """
        if get_ident() != self._thread or not self._loop.is_running():  # asking for the running loop is a system call
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
            pending.forgiving = True
        if self.error is not None:
            pending.reject(ResetNeeded(f"the session has ended: {self.error}"))
        else:
            self.worker.send(pending)

    def lose(self, error: Exception) -> None:
        """Mark the session as beyond rebuilding; everything it still waits for fails."""
        if self.error is None:
            self.error = error
            self.worker.abandon(self)

    def close(self) -> None:
        """Free the session on its worker; idempotent, callable while requests are in flight, and in any thread."""
        if not self.closed:
            self.closed = True
            try:
                here = asyncio.get_running_loop() is self._loop
            except RuntimeError:
                here = False
            if here:
                self.worker.release(self)
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed: so is the worker
                    self._loop.call_soon_threadsafe(self.worker.release, self)

    def __del__(self) -> None:
        # An environment or snapshot that is simply dropped must not hold memory on the worker. Collection may happen
        # in any thread, so the loop does the work.
        if not self.closed:
            worker, number = self.worker, self.number
            with contextlib.suppress(RuntimeError):  # the loop is closed: so is the worker
                self._loop.call_soon_threadsafe(worker.release_number, number)
