"""A portal: an event loop in a thread of its own, through which blocking code uses asynchronous objects.

anyio's `BlockingPortal` does not suffice: an interrupted caller leaves its call running, `sys.exit()` in one call ends
all others, a call in a fork of the process hangs, and each call costs a task and two futures.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from aiocg.errors import ForkedProcess, RuntimeClosed
from aiocg.fleet.requests import Receiver

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
