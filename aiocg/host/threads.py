"""Runs blocking functions in threads, which cancelling ends with what they have started; and keeps tasks that run."""

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from aiocg.datasets.process import cancellable

T = TypeVar("T")

MOST_THREADS = 40  # of an event loop at a time

_limits: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = weakref.WeakKeyDictionary()


async def in_thread(function: Callable[[], T]) -> T:
    """Run a function in a thread and return its result; cancelling ends the compilers and downloads it has started.

    The thread is a daemon, unlike those of pools, so a second interrupt during cleanup ends the process without waiting
    for the thread.
    """
    loop, stop = asyncio.get_running_loop(), threading.Event()
    future: asyncio.Future[T] = loop.create_future()

    def settle(result: T | None, error: BaseException | None) -> None:
        if future.done():
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as caught:  # a future refuses StopIteration
            error = RuntimeError(f"{caught!r} in a thread") if isinstance(caught, StopIteration) else caught
        with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    async with _limits.setdefault(loop, asyncio.Semaphore(MOST_THREADS)):
        with cancellable(stop):
            context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="aiocg-preparation", daemon=True).start()
        try:
            return await future
        except BaseException:
            stop.set()
            raise


class Tasks(set["asyncio.Task[None]"]):
    """The tasks that still run, which the event loop itself would not keep."""

    def start(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start a task, and keep it until it ends."""
        task = asyncio.create_task(work)
        self.add(task)
        task.add_done_callback(self.discard)
        return task
