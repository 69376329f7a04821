"""Does without blocking the event loop what must be done before a request: compile a benchmark, fetch a file."""

import dataclasses
import threading
from collections.abc import Callable, Iterable
from typing import TypeVar

import anyio.to_thread

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.frontend import cancellable

__all__ = ["carrying_runs", "in_thread", "prepare", "run_once"]

T = TypeVar("T")

_RUNNING = ("Runtime", "IsRunnable", "Execution")  # how the names of observations begin that run the program

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
    """Return what a function returns in a thread; cancelling this ends the compilers and downloads it has started."""
    stop = threading.Event()
    try:
        with cancellable(stop):
            return await anyio.to_thread.run_sync(function, abandon_on_cancel=True)
    except BaseException:
        stop.set()
        raise
