"""Does without blocking the event loop what must be done before a request: compile a benchmark, fetch a file."""

import threading
from collections.abc import Callable, Iterable

import anyio.to_thread

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.frontend import cancellable

__all__ = ["in_thread", "prepare", "run_once"]

_done: set[Callable[[], object]] = set()


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


async def in_thread(function: Callable[[], object]) -> None:
    """Run a function in a thread; cancelling this ends the compilers and downloads that it has started."""
    stop = threading.Event()
    try:
        with cancellable(stop):
            await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    except BaseException:
        stop.set()
        raise
