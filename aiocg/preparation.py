"""Does without blocking the event loop what must be done before a request: compile a benchmark, fetch a file."""

import asyncio
import contextlib
import contextvars
import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio.to_thread

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.frontend import cancellable

__all__ = ["carrying_runs", "in_thread", "prepare", "run_once"]

T = TypeVar("T")

_RUNNING = ("Runtime", "IsRunnable", "Execution", "runtime", "is_runnable")  # observations that run the program

_done: set[Callable[[], object]] = set()


def carrying_runs(benchmark: Benchmark, observed: Iterable[str]) -> Benchmark:
    """Return a benchmark that carries the run that is measured, if something observed runs the program.

    Otherwise it is the same one: what the run needs may have to be fetched first.
    """
    program = benchmark.program
    if program is None or program.carried is None or not any(name.startswith(_RUNNING) for name in observed):
        return benchmark
    measured = program.measured or next(iter(program.runs), "")
    if measured in program.carried or measured not in program.runs:
        return benchmark
    return benchmark.replace(program=dataclasses.replace(program, carried=(*program.carried, measured)))


async def prepare(benchmark: Benchmark) -> None:
    """Read or compile a benchmark in a thread; cancelling this ends the compiler.

    Raises:
        DatasetError: when it has no content.
    """
    if not benchmark.is_loaded:
        await in_thread(lambda: benchmark.key)


async def run_once(preparations: Iterable[Callable[[], object]]) -> None:
    """Run in threads those of some functions that have not succeeded in this process yet; they are idempotent.

    Cancelling this ends what they have started.
    """
    for preparation in preparations:
        if preparation not in _done:
            await in_thread(preparation)
            _done.add(preparation)


async def in_thread(function: Callable[[], T]) -> T:
    """Return what a function returns in a thread; cancelling this ends the compilers and downloads it has started.

    The thread is a daemon, unlike those of pools: a process that is interrupted a second time, while it cleans up, ends
    without waiting for it.
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
        except BaseException as caught:  # StopIteration is no exception that a future takes
            error = RuntimeError(f"{caught!r} in a thread") if isinstance(caught, StopIteration) else caught
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, result, error)

    async with anyio.to_thread.current_default_thread_limiter():
        with cancellable(stop):
            context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), name="aiocg-preparation", daemon=True).start()
        try:
            return await future
        except BaseException:
            stop.set()
            raise
