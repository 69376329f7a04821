import itertools
import random
from collections import deque
from collections.abc import Iterator

import numpy
import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound, DatasetError, InvalidBenchmarkUri
from aiocg.datasets.uri import BenchmarkUri

MILLION = 1_000_000


class Numbers(Dataset):
    """Benchmarks 0, 1, 2, …, as lazy as can be."""

    def __init__(self, count: int = MILLION, name: str = "numbers-v3") -> None:
        super().__init__(name, "numbers", license="MIT", references={"Peano": "https://example.org"})
        self.count = count
        self.enumerated = 0
        self.made = 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        for number in range(self.count):
            self.enumerated += 1
            yield BenchmarkUri(self.scheme, self.name, str(number))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if not uri.path.isdigit() or int(uri.path) >= self.count:
            raise BenchmarkNotFound(str(uri), f"no number {uri.path}")
        self.made += 1
        return Benchmark(uri, lambda: uri.path.encode())


class Naturals(Numbers):
    """The same without an end."""

    @property
    def size(self) -> int:
        return 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        return map(self.uri_at, itertools.count())

    def uri_at(self, index: int) -> BenchmarkUri:
        return BenchmarkUri(self.scheme, self.name, str(index))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return Benchmark(uri, lambda: uri.path.encode())


@pytest.mark.every_case
@pytest.mark.slow
def test_a_million_benchmarks_are_enumerated_without_materialising() -> None:
    dataset = Numbers()
    first = list(itertools.islice(dataset, 3))
    assert [benchmark.uri.path for benchmark in first] == ["0", "1", "2"]
    assert dataset.enumerated == dataset.made == 3
    (last,) = deque(dataset.benchmark_uris(), maxlen=1)
    assert last == BenchmarkUri("benchmark", "numbers-v3", "999999")
    assert dataset.made == 3


def test_metadata_is_kept_and_the_version_read_off_the_name() -> None:
    dataset = Numbers()
    assert (dataset.name, dataset.scheme, dataset.version) == ("numbers-v3", "benchmark", 3)
    assert (dataset.license, dataset.deprecated, dataset.validatable) == ("MIT", "", False)
    assert dataset.references == {"Peano": "https://example.org"}
    assert Numbers(name="generator://numbers").scheme == "generator"
    assert Numbers(name="generator://numbers").version == 0


@pytest.mark.parametrize("name", ["", "two words", "a/b", "a?b", "file:///x", "benchmark://"])
def test_a_dataset_needs_a_name(name: str) -> None:
    with pytest.raises(InvalidBenchmarkUri):
        Numbers(name=name)


@pytest.mark.parametrize("name", ["7", "numbers-v3/7", "benchmark://numbers-v3/7"])
def test_a_benchmark_is_found_by_path_and_by_uri(name: str) -> None:
    dataset = Numbers(10)
    assert dataset[name].content == b"7"
    assert dataset.benchmark(name) == dataset[BenchmarkUri.from_string("numbers-v3/7")]
    assert name in dataset


@pytest.mark.parametrize("name", ["11", "other-v0/7", "generator://numbers-v3/7", "numbers-v3", "benchmark://x-v0/7"])
def test_what_is_not_in_the_dataset_is_not_found(name: str) -> None:
    dataset = Numbers(10)
    assert name not in dataset
    with pytest.raises(BenchmarkNotFound):
        dataset.benchmark(name)


def test_the_name_of_the_dataset_alone_gets_an_example() -> None:
    with pytest.raises(BenchmarkNotFound, match="names a dataset") as caught:
        Numbers().benchmark("numbers-v3")
    assert caught.value.nearest[0] == "benchmark://numbers-v3/0"


def test_size_and_truth() -> None:
    assert len(Numbers(10)) == Numbers(10).size == 10
    assert len(Naturals()) == 0
    assert Naturals()
    assert 3 not in Naturals()


@pytest.mark.parametrize("make_rng", [random.Random, numpy.random.default_rng])
@pytest.mark.parametrize("dataset", [Numbers(20), Naturals()])
def test_random_benchmarks_repeat_with_the_seed_and_vary(make_rng: type[random.Random], dataset: Dataset) -> None:
    def draw(seed: int) -> list[str]:
        rng = make_rng(seed)
        return [dataset.random_benchmark(rng).uri.path for _ in range(50)]

    assert draw(1) == draw(1)
    assert draw(1) != draw(2)
    assert len(set(draw(1))) > 5


def test_every_benchmark_can_be_drawn() -> None:
    rng = random.Random(0)
    dataset = Numbers(3)
    assert {dataset.random_benchmark(rng).uri.path for _ in range(100)} == {"0", "1", "2"}
    assert dataset.random_benchmark().uri.path in "012"


def test_nothing_can_be_drawn_from_an_empty_dataset() -> None:
    with pytest.raises(DatasetError, match="empty"):
        Numbers(0).random_benchmark(random.Random(0))


def test_an_index_out_of_range_is_refused() -> None:
    assert Numbers(3).uri_at(2).path == "2"
    with pytest.raises(IndexError):
        Numbers(3).uri_at(3)


@pytest.mark.parametrize("index", [3, -4, -7, 2**70, -(2**70)])
def test_a_number_is_counted_from_either_end_and_not_beyond(index: int) -> None:
    assert Numbers(3)[-3].content == b"0"
    with pytest.raises(IndexError):
        Numbers(3)[index]
