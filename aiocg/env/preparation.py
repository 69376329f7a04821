"""Work that precedes a request, done without blocking the event loop: compiling a benchmark, fetching a file."""

import dataclasses
import os
from collections.abc import Callable, Iterable

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.uri import BenchmarkUri
from aiocg.host.threads import in_thread

BenchmarkLike = str | os.PathLike[str] | BenchmarkUri | Benchmark
"""A benchmark, or what names one."""

_RUNNING = ("Runtime", "IsRunnable", "Execution", "runtime", "is_runnable")  # observations that run the program

_done: set[Callable[[], object]] = set()


def carrying_runs(benchmark: Benchmark, observed: Iterable[str]) -> Benchmark:
    """Return the benchmark with its measured run included, if an observation needs to run the program.

    Otherwise the benchmark is returned as it is, because the input of a run may have to be fetched.
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
        DatasetError: if its content cannot be read or compiled.
    """
    if not benchmark.is_loaded:
        await in_thread(lambda: benchmark.key)


async def run_once(preparations: Iterable[Callable[[], object]]) -> None:
    """Run some idempotent functions in threads, except those that have already succeeded in this process.

    Cancelling this ends the processes that they started.
    """
    for preparation in preparations:
        if preparation not in _done:
            await in_thread(preparation)
            _done.add(preparation)
