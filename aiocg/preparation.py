"""Has a benchmark's content ready without blocking the event loop."""

import threading

import anyio.to_thread

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.frontend import cancellable

__all__ = ["prepare"]


async def prepare(benchmark: Benchmark) -> None:
    """Read or compile a benchmark in a thread; cancelling this ends the compiler.

    Raises:
        DatasetError: when it has no content.
    """
    if benchmark.is_loaded:
        return
    stop = threading.Event()
    try:
        with cancellable(stop):
            await anyio.to_thread.run_sync(lambda: benchmark.key, abandon_on_cancel=True)
    except BaseException:
        stop.set()
        raise
