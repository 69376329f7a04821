"""The asynchronous runtime behind synchronous environments, in a thread with an event loop of its own.

anyio's `BlockingPortal` does not suffice: an interrupted caller leaves its call running, `sys.exit()` in one call ends
all others, a call in a fork of the process hangs, and each call costs a task and two futures.
"""

import asyncio
import contextlib
import os
import threading
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Self, TypeVar

from aiocg.datasets.collection import Datasets
from aiocg.datasets.locking import ForkedLock
from aiocg.errors import ForkedProcess, RuntimeClosed
from aiocg.fleet.requests import Receiver
from aiocg.runtime import Runtime

T = TypeVar("T")

SIGNAL_INTERVAL = 0.5  # seconds until a signal is handled that did not wake the thread that waits


class Portal:
    """An event loop in a daemon thread, for use from any other thread of the process that made it.

    Uses uvloop if available. Closing the portal makes pending calls fail with RuntimeClosed.

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
        self._stop: asyncio.Event
        self._loop: asyncio.AbstractEventLoop
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
        """Whether the caller is in the loop's thread."""
        return threading.current_thread() is self._thread

    def deliver(self, send: Callable[[Receiver], object]) -> Any:
        """Call a function with a receiver in the loop's thread, and return the result delivered to the receiver.

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
        call = _Call(send, self._calls)
        with self._lock:
            if self._closed:
                raise RuntimeClosed("the runtime was closed")
            self._calls.add(call)
            self._loop.call_soon_threadsafe(call.begin)
        return call.outcome(self._loop)

    def wait(self, start: Callable[[], "asyncio.Future[T]"]) -> T:
        """Call a function in the loop's thread that returns a future, and return the future's result.

        Raises what `deliver` does; an exception in this thread meanwhile cancels the future.
        """
        result: T = self._call(lambda call: call.watch(start()))
        return result

    def run(self, function: Callable[..., Awaitable[T]], *args: Any) -> T:
        """Await what an asynchronous function returns, in the loop's thread; raises what `wait` does."""
        return self.wait(lambda: asyncio.ensure_future(function(*args)))

    def close(self) -> None:
        """Stop the loop and its thread. Idempotent. Does nothing in a fork."""
        if self.forked:
            return
        with self._lock:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._stop.set)
        if not self.is_current_thread:
            self._thread.join()

    def _serve(self, started: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                self._loop = runner.get_loop()
                self._stop = asyncio.Event()
                self._loop.call_soon(started.set)
                stopped = self._loop.create_task(self._stop.wait())
                while not stopped.done():
                    # User code that calls sys.exit() stops the loop. SystemExit is raised to its caller; other calls
                    # are not affected.
                    with contextlib.suppress(SystemExit, KeyboardInterrupt):
                        self._loop.run_until_complete(stopped)
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


class _Call:
    """One call: begun in the loop's thread, awaited in the caller's."""

    __slots__ = ("_abandoned", "_calls", "_done", "_error", "_future", "_result", "_send")

    def __init__(self, send: "Callable[[_Call], object]", calls: "set[_Call]") -> None:
        self._send = send
        self._calls = calls
        self._abandoned = False
        self._future: asyncio.Future[Any] | None = None
        self._result: Any = None
        self._error: BaseException | None = None
        self._done = threading.Lock()  # held until the outcome is there; quicker than an Event
        self._done.acquire()

    # ---------------------------------------------------------------------------- in the loop's thread

    def begin(self) -> None:
        try:
            self._send(self)
        except BaseException as error:
            self.set_exception(error)

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
        self._calls.discard(self)
        self._done.release()

    def _abandon(self) -> None:
        self._abandoned = True
        if self._future is not None:
            self._future.cancel()

    # --------------------------------------------------------------------------- in the caller's thread

    def outcome(self, loop: asyncio.AbstractEventLoop) -> Any:
        try:
            # Without a timeout, a signal right before the wait, or in another thread, would not interrupt it.
            while not self._done.acquire(timeout=SIGNAL_INTERVAL):
                pass
        except BaseException:
            loop.call_soon_threadsafe(self._abandon)
            raise
        if self._error is not None:
            raise self._error
        return self._result


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:  # Windows has none
        return None
    return uvloop.new_event_loop


class RuntimeThread:
    """A `Runtime` on an event loop in its own thread; see `SyncRuntime`, which makes environments on it."""

    def __init__(self, **settings: Any) -> None:
        self.runtime = Runtime(**settings)
        self._lock = ForkedLock()
        self._portal: Portal | None = None
        self._closed = False
        self._end: weakref.finalize[Any, Any] | None = None

    # ---------------------------------------------------------------------------------- the other thread

    @property
    def portal(self) -> Portal:
        """The portal to the thread of the runtime's event loop; started on first use.

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
