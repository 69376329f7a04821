"""Sources of the programs of a vector's episodes."""

import abc
import asyncio
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from aiocg.datasets import resolve
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env.preparation import prepare
from aiocg.host.threads import in_thread
from aiocg.programs.prefetching import Prefetch


class Preparation:
    """Reads and compiles benchmarks, each once even if several environments wait for it.

    Args:
        limit: how many are compiled at a time.
        form: returns a benchmark in the form that the compiler takes.
    """

    def __init__(self, limit: int, form: Callable[[Benchmark], Benchmark]) -> None:
        self.form = form
        self._limit = asyncio.Semaphore(limit)
        self._under_way: dict[int, asyncio.Task[None]] = {}

    async def prepare(self, benchmark: Benchmark) -> None:
        """Compute the content of a benchmark.

        Raises:
            DatasetError: when it has none.
        """
        benchmark = self.form(benchmark)
        if benchmark.is_loaded:
            return
        task = self._under_way.get(id(benchmark))
        if task is None:
            task = self._under_way[id(benchmark)] = asyncio.create_task(self._prepare(benchmark))
            task.add_done_callback(lambda _: self._under_way.pop(id(benchmark)))
        await asyncio.shield(task)

    async def _prepare(self, benchmark: Benchmark) -> None:
        async with self._limit:
            await prepare(benchmark)


class ProgramSource(abc.ABC):
    """A source of a program for each episode.

    Attributes:
        changes: whether programs differ, so that unavailable ones can be skipped.
    """

    changes: bool

    @abc.abstractmethod
    async def take(self) -> Benchmark:
        """Return the program of the next episode; raise DatasetError when there is none."""


class _FixedProgram(ProgramSource):
    """The same program each time."""

    changes = False

    def __init__(self, benchmark: Benchmark, preparation: Preparation) -> None:
        self.benchmark = benchmark
        self._preparation = preparation

    async def take(self) -> Benchmark:
        await self._preparation.prepare(self.benchmark)
        return self.benchmark


class _ProgramStream(ProgramSource):
    """A stream of programs, compiled ahead; it restarts at its end if possible.

    Environments that share a stream get programs in the order in which they ask.

    Args:
        programs: a dataset, a view of one, a mixture, or anything else that can be iterated over.
        datasets: where names are looked up.
        ahead: how many programs are compiled ahead.
        form: returns a benchmark in the form that the compiler takes.
    """

    changes = True

    def __init__(
        self, programs: Iterable[Any], datasets: Datasets, ahead: int, form: Callable[[Benchmark], Benchmark]
    ) -> None:
        find = functools.partial(resolve, datasets=datasets)
        self._programs = Prefetch(map(find, _without_end(programs)), ahead, form)

    async def take(self) -> Benchmark:
        """Return the next program, with its content computed."""
        try:
            return await anext(self._programs)
        except StopAsyncIteration:
            raise DatasetError(
                "there are no more programs: the iterator that was given has ended; give a dataset or a view, which "
                "begins anew at its end, or an iterator that has none"
            ) from None


def _without_end(programs: Iterable[Any]) -> Iterator[Any]:
    iterator = iter(programs)
    while True:
        first = next(iterator, None)
        if first is None:
            raise DatasetError(f"there are no programs in {programs!r}")
        yield first
        yield from iterator
        if iterator is programs:
            return
        iterator = iter(programs)


async def sources(
    programs: Any, count: int, datasets: Datasets, preparation: Preparation, ahead: int
) -> list[ProgramSource]:
    """Return the source of programs of each environment.

    Args:
        programs: one program for all; a list or tuple with what each environment gets, which may be one program or
            many, or a `ProgramSource`; or a dataset, its name, or anything else that can be iterated over, from which
            all take in turn.
        datasets: where names are looked up, in a thread, as that may take long.
        preparation: compiles the programs that stay the same.
        ahead: how many programs of a stream to compile ahead.

    Raises:
        DatasetError: for a benchmark that does not exist.
        ValueError: for a list of another length.
    """
    if isinstance(programs, (list, tuple)):
        if len(programs) != count:
            raise ValueError(
                f"a list of {len(programs)} benchmarks does not go with {count} environments: give one for each, or a "
                "dataset or an iterator, such as itertools.cycle(benchmarks), from which each episode takes the next"
            )
        given = await in_thread(lambda: _found(programs, datasets))
        made: dict[int, ProgramSource] = {}  # the environments that have the same share it
        for one in given:
            if id(one) not in made:
                made[id(one)] = _source(one, datasets, preparation, 1)
        return [made[id(one)] for one in given]
    (one,) = await in_thread(lambda: _found([programs], datasets))
    return [_source(one, datasets, preparation, ahead)] * count


def _source(one: Any, datasets: Datasets, preparation: Preparation, ahead: int) -> ProgramSource:
    if isinstance(one, ProgramSource):
        return one
    if isinstance(one, Benchmark):
        return _FixedProgram(one, preparation)
    return _ProgramStream(one, datasets, ahead, preparation.form)


def _found(programs: Sequence[Any], datasets: Datasets) -> list[Any]:
    """Resolve names to benchmarks or datasets."""
    known: dict[Any, Any] = {}
    found = []
    for one in programs:
        if isinstance(one, (str, os.PathLike, BenchmarkUri)):
            if one not in known:
                known[one] = _dataset(one, datasets) or resolve(one, datasets)
            one = known[one]
        elif not isinstance(one, (Benchmark, Iterable, ProgramSource)):
            raise TypeError(f"programs are given as benchmarks, their names, datasets or iterators, not as {one!r}")
        found.append(one)
    return found


def _dataset(name: Any, datasets: Datasets) -> Dataset | None:
    """Return the dataset that a text names, if it does name one."""
    if not isinstance(name, str):
        return None
    bare = name.partition("://")[2] or name
    return datasets[name] if bare in datasets else None
