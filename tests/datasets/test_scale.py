"""A million programs take no more memory than ten."""

import asyncio
import itertools
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets._manifest import Manifest
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset, ListedDataset
from aiocg.datasets.registry import mix
from aiocg.datasets.uri import BenchmarkUri

MILLION = 1_041_333
LITTLE = 1_000_000  # bytes; a list of the names would take a hundred times as much


class Named(ListedDataset):
    """A dataset whose names are in a file."""

    def __init__(self, path: Path) -> None:
        super().__init__("named-v0", "names in a file")
        self._names = Manifest.read(path)

    @property
    def names(self) -> Manifest:
        return self._names

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return Benchmark(uri, lambda: uri.path.encode())


@pytest.fixture(scope="module")
def million(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Named]:
    """A dataset of as many programs as the largest published one has."""
    folder = tmp_path_factory.mktemp("million")
    (folder / "names").write_text("".join(f"p{number % 997}/f{number}\n" for number in range(MILLION)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIOCG_CACHE", str(folder / "cache"))
        yield Named(folder / "names")


def peak_of(function: Callable[[], Any]) -> int:
    """Return the most memory that a function has at once, in bytes."""
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def number_of(uri: BenchmarkUri) -> int:
    """Return the number in a name."""
    return int(uri.path.partition("/f")[2])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "use",
    [
        lambda dataset: next(iter(dataset)),
        lambda dataset: dataset.shuffled(0).uri_at(MILLION - 1),
        lambda dataset: dataset.split(0)["test"].shuffled(1)[::-7][5:].uri_at(1000),
        lambda dataset: [None for _ in dataset.shuffled(0)[:1000]],
        lambda dataset: [None for _ in itertools.islice(mix({dataset: 1, dataset[:9]: 1}), 1000)],
        lambda dataset: dataset.split(0)["train"].random_benchmark(),
        lambda dataset: dataset.uri_at(77) in dataset.split(0)["train"],
    ],
    ids=["first", "shuffled", "views of views", "some shuffled", "mixed", "drawn", "member"],
)
def test_what_is_used_of_a_million_decides_how_much_memory_it_takes(
    million: Named, use: Callable[[Dataset], Any]
) -> None:
    use(million)  # imports are made, caches filled
    assert peak_of(lambda: use(million)) < LITTLE


def test_names_before_and_after_are_the_same(million: Named) -> None:
    sets = million.split(3)
    for view in (million.shuffled(3), *sets.values()):
        for place in (0, 1, view.size // 2, view.size - 1):
            uri = view.uri_at(place)
            assert view.position(uri) == place
            assert sum(uri in one for one in sets.values()) == 1
    assert [view.size for view in sets.values()] == [833_067, 104_133, 104_133]


def allocated() -> int:
    """Return how much memory this process has allocated and uses, in bytes."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.every_case
@pytest.mark.slow
def test_a_million_programs_are_gone_through_in_constant_memory(million: Named) -> None:
    seen = bytearray(MILLION)
    sizes = []
    for view in million.split(0).values():
        for place, uri in enumerate(view.benchmark_uris()):
            seen[number_of(uri)] += 1
            if place % 50_000 == 25_000:
                sizes.append(allocated())
    assert seen == b"\1" * MILLION
    assert max(sizes) - sizes[0] < 4 * LITTLE


def test_an_agent_takes_one_program_after_another_from_a_million(million: Named) -> None:
    from aiocg.programs.prefetching import prefetch

    async def agent() -> list[bytes]:
        async with prefetch(million.split(0)["train"].shuffled(1)[:100], ahead=8) as benchmarks:
            return [benchmark.content async for benchmark in benchmarks]

    started = time.monotonic()
    assert len(set(asyncio.run(agent()))) == 100
    assert time.monotonic() - started < 60
