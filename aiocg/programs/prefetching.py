"""Benchmarks that are compiled while the ones before them are being used."""

import asyncio
import contextlib
import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterable
from typing import Self

from aiocg.datasets.benchmark import Benchmark
from aiocg.env.preparation import prepare
from aiocg.host.threads import Tasks, in_thread
from aiocg.registry import environment as find_environment


class Prefetch:
    """An async iterator over benchmarks that reads, compiles or fetches the next ones in threads; see `prefetch`.

    Any number of tasks may take benchmarks from it, and each gets another one. Cancelling one that waits loses none.

    Args:
        benchmarks: what to iterate over; it may be endless.
        ahead: how many benchmarks to have under way or ready beyond those that were taken.
        form: returns the form of a benchmark that will be used, which is what is loaded; the benchmark itself if None.
    """

    def __init__(
        self, benchmarks: Iterable[Benchmark], ahead: int, form: Callable[[Benchmark], Benchmark] | None = None
    ) -> None:
        if ahead < 1:
            raise ValueError(f"ahead must be at least 1, not {ahead}")
        self._iterator = iter(benchmarks)
        self._ahead = ahead
        self._form = form
        self._loading: deque[tuple[Benchmark, asyncio.Task[None]]] = deque()  # those that nobody has taken yet
        self._feeding: asyncio.Task[None] | None = None
        self._tasks = Tasks()  # all that go on
        self._turn = asyncio.Lock()  # the one who has waited longest is first
        self._exhausted = False
        self._failure: Exception | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Benchmark:
        async with self._turn:
            while not self._loading:
                if self._exhausted:
                    failure, self._failure = self._failure, None
                    raise failure or StopAsyncIteration
                await asyncio.wait([self._feed()])
            benchmark, loading = self._loading.popleft()
        self._feed()
        try:
            await asyncio.wait([loading])  # which goes on when this is cancelled
        except asyncio.CancelledError:
            self._loading.appendleft((benchmark, loading))
            raise
        if loading.cancelled():
            raise StopAsyncIteration
        return benchmark

    async def aclose(self) -> None:
        """End what is under way, compilers too. Otherwise that is brought to its end, and nothing more is begun."""
        self._exhausted = True
        self._loading.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    def _feed(self) -> "asyncio.Task[None]":
        """See to it that enough is under way."""
        if self._feeding is None or self._feeding.done():
            self._feeding = self._tasks.start(self._take())
        return self._feeding

    async def _take(self) -> None:
        """Take benchmarks from the iterator, in a thread, as the first may need a list of names to be fetched."""
        while not self._exhausted and len(self._loading) < self._ahead:
            found: list[Benchmark] = []
            try:
                await in_thread(functools.partial(found.extend, itertools.islice(self._iterator, 1)))
            except Exception as error:
                self._failure = error  # its turn comes after the benchmarks before it
            if found:
                self._loading.append((found[0], self._tasks.start(self._load(found[0]))))
            else:
                self._exhausted = True

    async def _load(self, benchmark: Benchmark) -> None:
        with contextlib.suppress(Exception):  # whoever uses the benchmark gets the error
            await prepare(benchmark if self._form is None else self._form(benchmark))


def prefetch(benchmarks: Iterable[Benchmark], ahead: int = 4, *, environment: str = "llvm-v0") -> Prefetch:
    """Iterate over benchmarks, in their order, while the next ones are read, compiled or fetched in threads::

        async with aiocg.prefetch(dataset.shuffled(0)) as benchmarks:
            async for benchmark in benchmarks:
                await env.reset(benchmark=benchmark)

    A benchmark that has no content is given out, too: the error is raised where it is used, by `reset` here, and can be
    dealt with there. An error of the iterable itself is raised when its turn comes.

    Args:
        benchmarks: such as a dataset, a view or a mixture; it may be endless.
        ahead: how many benchmarks to have under way or ready beyond those that were taken.
        environment: id of the environment that they are for: GCC takes them as sources, LLVM as its own code.

    Raises:
        ValueError: when `ahead` is less than 1.
        UnknownName: when there is no such environment.
    """
    return Prefetch(benchmarks, ahead, find_environment(environment).form)
