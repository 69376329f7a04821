"""The asynchronous runtime behind synchronous environments, and the threads that run its event loop.

anyio's `BlockingPortal` does not suffice: an interrupted caller leaves its call running, `sys.exit()` in one call ends
all others, a call in a fork of the process hangs, and each call costs a task and two futures.
"""

import _signal  # type: ignore[import-not-found]  # the functions without conversions to enumerations, which cost 4 µs
import asyncio
import contextlib
import os
import signal
import threading
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from aiocg.datasets.collection import Datasets
from aiocg.datasets.locking import ForkedLock
from aiocg.errors import ForkedProcess, RuntimeClosed
from aiocg.fleet.requests import Receiver
from aiocg.runtime import Runtime

T = TypeVar("T")

PATIENCE = 0.01  # seconds without a call until the daemon thread runs the loop again
SIGNAL_INTERVAL = 0.5  # seconds until a signal is handled that did not wake the thread that waits

_INTERRUPT = int(signal.SIGINT)
_RAISING = ("ALRM", "VTALRM", "PROF", "TERM", "HUP", "QUIT", "USR1", "USR2")  # signals whose handlers may well raise
_HANDLED = tuple(int(signal.Signals[f"SIG{name}"]) for name in _RAISING)


class Portal:
    """An event loop for use from any thread of the process that made it.

    One thread at a time runs the loop: whoever calls, until the result is there, so that no thread has to wake
    another; a daemon thread while nobody calls, while calls overlap, and for callers that must not run it.
    Closing the portal makes pending calls fail with RuntimeClosed.

    Attributes:
        loop: the event loop.

    Raises:
        OSError: when there are too many open files for an event loop.
        RuntimeError: when the interpreter is about to end.
    """

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._closed = False
        self._calls: set[_Call] = set()
        self._failure: BaseException | None = None  # why there is no event loop
        self._running = threading.RLock()  # held by the thread that runs the loop
        self._runner = 0  # its identifier, 0 for none
        self._left = 0.0  # when a caller last stopped running the loop
        self._wanted = threading.Event()  # set for the daemon thread to run it
        self.loop: asyncio.AbstractEventLoop
        started = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(started,), name="aiocg-portal", daemon=True)
        self._thread.start()
        started.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the portal's, where its thread does not exist."""
        return os.getpid() != self._owner

    @property
    def is_current_thread(self) -> bool:
        """Whether the caller is called by the loop."""
        return self._runner == threading.get_ident()

    def deliver(self, send: Callable[[Receiver], object]) -> Any:
        """Call a function with a receiver in the loop, and return the result delivered to the receiver.

        An exception in this thread meanwhile, such as KeyboardInterrupt, marks the receiver as done.

        Raises:
            ForkedProcess: in a fork of the process that made the portal.
            RuntimeClosed: when the portal is closed.
        """
        return self._call(send)

    def _call(self, send: "Callable[[_Call], object]") -> Any:
        if os.getpid() != self._owner:  # before anything that another thread may have held when it was forked
            raise ForkedProcess(self._owner)
        if self.is_current_thread:
            raise RuntimeError(
                "the event loop would wait for itself: asynchronous code, such as a callback of an environment, "
                "uses the asynchronous environment"
            )
        may_run, in_main = _may_run_a_loop(), threading.current_thread() is threading.main_thread()
        call = _Call(send, self, may_run)
        deferred = may_run and in_main and _signal.getsignal(_INTERRUPT) is signal.default_int_handler
        if deferred:  # until the loop is between two callbacks
            _signal.signal(_INTERRUPT, call.interrupt)
        try:
            if may_run and self._running.acquire(blocking=False):
                self._run_for(call)
            else:
                self._add(call, self.loop.call_soon_threadsafe)
                if not self._runner:
                    self._wanted.set()
        finally:
            if deferred:
                _signal.signal(_INTERRUPT, signal.default_int_handler)
        if call.interrupted:
            raise KeyboardInterrupt
        return call.outcome()

    def _add(self, call: "_Call", schedule: Callable[..., object] | None = None) -> None:
        with self._lock:
            if self._closed:
                raise RuntimeClosed("the runtime was closed")
            self._calls.add(call)
            if schedule is not None:  # while the loop is known to be open
                schedule(call.begin)

    def _run_for(self, call: "_Call") -> None:
        """Run the loop in a caller's thread until the call has its outcome or was abandoned."""
        try:
            self._runner, call.alone = threading.get_ident(), True
            self._add(call)
            self._at_once(call.begin)
            while not (call.over or self._closed):
                # SystemExit is raised to the caller whose call raised it.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
        finally:
            self._leave()

    def _at_once(self, begin: Callable[[], None]) -> None:
        """Call the beginning of a call as the loop would, which saves a turn of the loop."""
        asyncio._set_running_loop(self.loop)
        try:
            begin()
        finally:
            asyncio._set_running_loop(None)

    def end(self, call: "_Call") -> None:
        """Stop the loop if it ran for this call only, or if callers may run it from now on."""
        call.over = True
        self._calls.discard(call)
        if not self._closed and (call.alone or (call.may_run and not self._calls)):
            self.loop.stop()

    def _leave(self) -> None:
        self._runner, self._left = 0, time.monotonic()
        self._running.release()
        if self._calls or self._closed:
            self._wanted.set()

    def wait(self, start: Callable[[], "asyncio.Future[T]"]) -> T:
        """Call a function in the loop that returns a future, and return the future's result.

        Raises what `deliver` does; an exception in this thread meanwhile cancels the future.
        """
        result: T = self._call(lambda call: call.watch(start()))
        return result

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await what an asynchronous function returns, in the loop; raises what `wait` does."""
        return self.wait(lambda: asyncio.ensure_future(function(*args)))

    def close(self) -> None:
        """Stop the loop and its thread. Idempotent. Does nothing in a fork."""
        if self.forked:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self.loop.call_soon_threadsafe(self.loop.stop)
                self._wanted.set()
        if not (self.is_current_thread or threading.current_thread() is self._thread):
            self._thread.join()

    # -------------------------------------------------------------------------------- the daemon thread

    def _serve(self, started: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:
                self.loop = runner.get_loop()
                self.loop.call_soon(started.set)
                while not self._closed:
                    self._run_until_idle()
                    while not self._wanted.wait(PATIENCE) and time.monotonic() < self._left + PATIENCE:
                        pass
                    self._wanted.clear()
                self._acquire()  # to end it in this thread
                self.loop.call_soon(self.loop.stop)
                self.loop.run_forever()  # uses up what would stop it while it ends
        except BaseException as error:
            if started.is_set():
                raise
            self._failure = error
        finally:
            with self._lock:
                self._closed = True
            for call in list(self._calls):  # those that came too late to begin
                call.set_exception(RuntimeClosed("the runtime was closed"))
            started.set()

    def _run_until_idle(self) -> None:
        """Run the loop until a call ends and there is no other, after which callers may run it themselves."""
        self._acquire()
        try:
            running = True
            while running and not self._closed:
                # User code that calls sys.exit() stops the loop. SystemExit is raised to its caller; other calls
                # are not affected.
                with contextlib.suppress(SystemExit, KeyboardInterrupt):
                    self.loop.run_forever()
                running = bool(self._calls)
        finally:
            self._leave()

    def _acquire(self) -> None:
        while not self._running.acquire(timeout=SIGNAL_INTERVAL):
            self.loop.call_soon_threadsafe(_nothing)  # a caller's thread handles signals between two callbacks
        self._runner = threading.get_ident()


def _nothing() -> None:
    pass


def _may_run_a_loop() -> bool:
    """Whether this thread may run an event loop: none is running in it, and no signal raises within a callback."""
    if asyncio._get_running_loop() is not None:
        return False
    if threading.get_ident() != threading.main_thread().ident:
        return True
    if _signal.getsignal(_INTERRUPT) is not signal.default_int_handler and callable(_signal.getsignal(_INTERRUPT)):
        return False
    return not any(map(callable, map(_signal.getsignal, _HANDLED)))


class _Call:
    """One call: begun in the loop, awaited in the caller's thread.

    Attributes:
        may_run: whether the caller may run the loop.
        alone: whether the caller runs it for this call.
        over: whether the loop need not run for this call any more.
        interrupted: whether there was an interrupt while the caller ran the loop.
    """

    __slots__ = (
        "_abandoned",
        "_begun",
        "_done",
        "_error",
        "_future",
        "_portal",
        "_result",
        "_send",
        "alone",
        "interrupted",
        "may_run",
        "over",
    )

    def __init__(self, send: "Callable[[_Call], object]", portal: Portal, may_run: bool) -> None:
        self._send = send
        self._portal = portal
        self.may_run = may_run
        self.over = self.alone = self.interrupted = False
        self._abandoned = self._begun = False
        self._future: asyncio.Future[Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = threading.Lock()  # held until the outcome is there; quicker than an Event
        self._done.acquire()

    # ------------------------------------------------------------------------------------- in the loop

    def begin(self) -> None:
        try:
            self._send(self)
        except BaseException as error:
            self.set_exception(error)
        self._begun = True

    def watch(self, future: "asyncio.Future[Any]") -> None:
        self._future = future
        future.add_done_callback(self._take)

    def _take(self, future: "asyncio.Future[Any]") -> None:
        try:
            result = future.result()
        except asyncio.CancelledError:
            self.set_exception(RuntimeClosed("the runtime was closed meanwhile"))
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(result)

    def done(self) -> bool:
        return self._abandoned

    def set_result(self, result: Any, /) -> None:
        self._result = result
        self._finish()

    def set_exception(self, exception: BaseException, /) -> None:
        self._error = exception
        self._finish()

    def _finish(self) -> None:
        self._done.release()
        if self._begun:
            self._portal.end(self)
        else:  # what was queued for workers is sent first, which takes two turns
            self._portal.loop.call_soon(self._portal.loop.call_soon, self._portal.end, self)

    def _abandon(self) -> None:
        self._abandoned = True
        if self._future is not None:
            self._future.cancel()
        self._portal.end(self)

    # --------------------------------------------------------------------------- in the caller's thread

    def interrupt(self, number: int, frame: object) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.interrupted = True
        self._portal.loop.call_soon_threadsafe(self._abandon)

    def outcome(self) -> Any:
        try:
            # Without a timeout, a signal right before the wait, or in another thread, would not interrupt it.
            while not self._done.acquire(timeout=SIGNAL_INTERVAL):
                pass
        except BaseException:
            self._portal.loop.call_soon_threadsafe(self._abandon)
            raise
        if self._error is not None:
            raise self._error
        return self._result


class RuntimeThread:
    """A `Runtime` behind a portal; see `SyncRuntime`, which makes environments on it."""

    def __init__(self, **settings: Any) -> None:
        self.runtime = Runtime(**settings)
        self._lock = ForkedLock()
        self._portal: Portal | None = None
        self._closed = False
        self._end: weakref.finalize[Any, Any] | None = None

    # -------------------------------------------------------------------------------------- the portal

    @property
    def portal(self) -> Portal:
        """The portal to the runtime's event loop; started on first use.

        Raises:
            RuntimeClosed: when the runtime was closed.
        """
        portal = self._portal
        if portal is not None and not self._closed:
            return portal
        with self._lock:
            if self._closed:
                raise RuntimeClosed("the runtime was closed")
            if self._portal is None:
                self._portal = Portal()
                self._end = weakref.finalize(self, _end, self._portal, self.runtime)  # at exit, too
            return self._portal

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Run an asynchronous function on the event loop; see `Portal.run`."""
        return self.portal.run(function, *args)

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the runtime's."""
        return self._portal is not None and self._portal.forked

    @property
    def closed(self) -> bool:
        """Whether the runtime was closed, by `close` or at exit."""
        return self._closed or (self._end is not None and not self._end.alive)

    # -------------------------------------------------------------------------------------- what it offers

    @property
    def datasets(self) -> Datasets:
        """Where the benchmarks of its environments come from."""
        return self.runtime.datasets

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that are up."""
        return self.runtime.worker_pids()

    # ---------------------------------------------------------------------------------------------- close

    def close(self) -> None:
        """Stop all workers and the thread; pending calls fail with RuntimeClosed. Idempotent."""
        self._closed = True
        with self._lock:  # should it be starting just now
            pass
        if self._end is not None:
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return default_thread, ()


_abandoned: list[object] = []  # of another process; freeing it here could end what that process still uses
_default: RuntimeThread | None = None
_default_lock = threading.Lock()
_make: Callable[[], RuntimeThread] = RuntimeThread


def make_default_by(make: Callable[[], RuntimeThread]) -> None:
    """Set the factory of the default runtime."""
    global _make
    _make = make


def default_thread() -> RuntimeThread:
    """Return the runtime that all environments of this process share; see `aiocg.gym.default_runtime`."""
    global _default
    with _default_lock:
        if _default is None or _default.closed:
            _default = _make()
        return _default


def shutdown() -> None:
    """Close the default runtime and its workers; its environments become unusable."""
    global _default
    with _default_lock:
        runtime, _default = _default, None
    if runtime is not None:
        runtime.close()


def _forget_default() -> None:
    """Reset the default runtime in a fork of the process, where the lock may be held for ever."""
    global _default, _default_lock
    _abandoned.append(_default)
    _default, _default_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_default)


def _end(portal: Portal, runtime: Runtime) -> None:
    if portal.forked:
        _abandoned.append((portal, runtime))
    elif portal.is_current_thread:  # the garbage collector may run in any thread, and this one cannot wait for itself
        threading.Thread(target=_end, args=(portal, runtime)).start()
    else:
        try:
            portal.run(runtime.close)
        finally:
            portal.close()
