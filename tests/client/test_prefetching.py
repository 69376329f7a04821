"""Prefetching: in order, bounded, in parallel, with errors where they belong, and nothing left when it ends."""

import asyncio
import contextlib
import itertools
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from pathlib import Path

import psutil
import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import BenchmarkInitError
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.process import run_bounded
from aiocg.datasets.registry import default_datasets
from aiocg.programs.prefetching import prefetch
from aiocg.testing import ScriptedDataset


def benchmark(number: int, loader: Callable[[], bytes] | None = None) -> Benchmark:
    """Return a benchmark with a number for a name."""
    return Benchmark(f"numbers-v0/{number}", loader or (lambda: b"%d" % number))


class Counted:
    """An endless iterator over benchmarks that counts how many were taken and how many were loaded."""

    def __init__(self) -> None:
        self.taken = self.loaded = 0
        self.lock = threading.Lock()

    def __iter__(self) -> Iterator[Benchmark]:
        for number in itertools.count():
            self.taken += 1
            yield benchmark(number, lambda number=number: self.load(number))  # type: ignore[misc]

    def load(self, number: int) -> bytes:
        with self.lock:
            self.loaded += 1
        return b"%d" % number


async def settled(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110  what happens in other threads sets no event of this loop
            await asyncio.sleep(0.01)


async def taken(benchmarks: AsyncIterator[Benchmark], count: int) -> list[str]:
    """Take some benchmarks and return their names."""
    return [(await anext(benchmarks)).uri.path for _ in range(count)]


async def test_benchmarks_come_in_their_order_and_loaded() -> None:
    dataset = ScriptedDataset()
    async with prefetch(dataset[:50].shuffled(1), ahead=7) as benchmarks:
        found = [(one.uri, one.is_loaded) async for one in benchmarks]
    assert found == [(uri, True) for uri in dataset[:50].shuffled(1).benchmark_uris()]


async def test_programs_are_compiled_before_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(tmp_path))

    def program(number: int) -> Benchmark:
        return benchmark(number, lambda: compile_source(f"int f{number}(void) {{ return {number}; }}"))

    programs = [program(number) for number in range(4)]
    async with prefetch(programs, ahead=2) as benchmarks:
        first = await anext(benchmarks)
        assert first.is_loaded
        await settled(lambda: programs[1].is_loaded and programs[2].is_loaded)
        assert not programs[3].is_loaded
        assert first.content.startswith(b"BC")


async def test_no_more_is_taken_than_was_said() -> None:
    source = Counted()
    async with prefetch(source, ahead=3) as benchmarks:
        assert source.taken == 0
        assert await taken(benchmarks, 5) == ["0", "1", "2", "3", "4"]
        await settled(lambda: source.loaded == 8)
        await asyncio.sleep(0.1)
        assert source.taken == source.loaded == 8


async def test_loading_is_parallel() -> None:
    begun: list[int] = []
    all_there = threading.Event()

    def load() -> bytes:
        begun.append(1)
        if len(begun) >= 4:
            all_there.set()
        assert all_there.wait(20)
        return b"x"

    async with prefetch((benchmark(number, load) for number in range(8)), ahead=4) as benchmarks:
        assert [one.is_loaded async for one in benchmarks] == [True] * 8


async def test_what_cannot_be_loaded_fails_where_it_is_used() -> None:
    def fail() -> bytes:
        raise BenchmarkInitError("numbers-v0/1", "it is broken")

    source = [benchmark(0), benchmark(1, fail), benchmark(2)]
    async with prefetch(source) as benchmarks:
        found = [one async for one in benchmarks]
    assert found == source
    assert [one.is_loaded for one in found] == [True, False, True]
    with pytest.raises(BenchmarkInitError, match="it is broken"):
        _ = found[1].content


async def test_an_error_of_the_iterable_comes_after_what_was_before_it() -> None:
    def failing() -> Iterator[Benchmark]:
        yield from (benchmark(0), benchmark(1))
        raise OSError("no more names")

    async with prefetch(failing(), ahead=10) as benchmarks:
        assert await taken(benchmarks, 2) == ["0", "1"]
        with pytest.raises(OSError, match="no more names"):
            await anext(benchmarks)
        with pytest.raises(StopAsyncIteration):
            await anext(benchmarks)


@pytest.mark.slow
async def test_several_tasks_share_one_stream() -> None:
    found: list[str] = []

    async def agent(benchmarks: AsyncIterator[Benchmark]) -> int:
        count = 0
        async for one in benchmarks:
            found.append(one.uri.path)
            count += 1
            await asyncio.sleep(0)
        return count

    async with prefetch(ScriptedDataset()[:200], ahead=5) as benchmarks:
        counts = await asyncio.gather(*(agent(benchmarks) for _ in range(8)))
    assert sorted(map(int, found)) == list(range(200))
    assert min(counts) > 5


async def test_a_task_that_gives_up_waiting_loses_nothing() -> None:
    ready = threading.Event()

    def slow() -> bytes:
        ready.wait(20)
        return b"0"

    async with prefetch([benchmark(0, slow), benchmark(1)]) as benchmarks:
        for _ in range(3):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(benchmarks), 0.05)
        ready.set()
        assert await taken(benchmarks, 2) == ["0", "1"]


@pytest.mark.asyncio(loop_scope="function")  # in which there are no tasks but its own
async def test_leaving_ends_the_compilers_that_are_under_way(tmp_path: Path) -> None:
    def endless() -> bytes:
        run_bounded(["sleep", "1000.25"], cwd=str(tmp_path), env={}, timeout=60)
        return b""

    def sleeping() -> list[psutil.Process]:
        return [child for child in psutil.Process().children(recursive=True) if sleeps(child)]

    def sleeps(child: psutil.Process) -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return child.status() != psutil.STATUS_ZOMBIE and "1000.25" in child.cmdline()
        return False

    started = time.monotonic()
    async with prefetch([benchmark(number, endless) for number in range(5)], ahead=3) as benchmarks:
        waiting = asyncio.create_task(taken(benchmarks, 1))
        await settled(lambda: len(sleeping()) == 4)
    with pytest.raises(StopAsyncIteration):
        await waiting
    await settled(lambda: not sleeping())
    assert time.monotonic() - started < 50
    assert len(asyncio.all_tasks()) == 1


@pytest.mark.asyncio(loop_scope="function")  # in which there are no tasks but its own
async def test_after_a_loop_was_left_nothing_more_is_begun() -> None:
    source = Counted()
    async for one in prefetch(source, ahead=3):
        assert one.uri.path == "0"
        break
    await settled(lambda: source.loaded == 4)
    await asyncio.sleep(0.05)
    assert source.taken == 4
    assert len(asyncio.all_tasks()) == 1


async def test_it_can_be_closed_like_a_generator_and_before_it_began() -> None:
    async with aclosing(prefetch(default_datasets()["programs-v0"])):
        pass
    benchmarks = prefetch(Counted())
    await taken(benchmarks, 1)
    await benchmarks.aclose()
    await benchmarks.aclose()
    assert [one async for one in benchmarks] == []


@pytest.mark.parametrize("ahead", [0, -1])
def test_ahead_of_nothing_is_refused(ahead: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        prefetch([], ahead)
