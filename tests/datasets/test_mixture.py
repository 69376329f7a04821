"""Mixtures: in proportion, every benchmark of a dataset once in each pass, and the same from any pick on."""

import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.datasets._files import FilesDataset
from aiocg.datasets._mixture import BLOCK, Mixture
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import DatasetError, DatasetNotFound
from aiocg.datasets.registry import default_datasets, mix
from aiocg.datasets.uri import BenchmarkUri
from aiocg.testing import ScriptedDataset


class Numbers(Dataset):
    """The numbers below a count."""

    def __init__(self, name: str, count: int) -> None:
        super().__init__(name, "numbers")
        self.count = count

    @property
    def size(self) -> int:
        return self.count

    def benchmark_uris(self):  # type: ignore[no-untyped-def]
        return map(self.uri_at, range(self.count))

    def uri_at(self, index: int) -> BenchmarkUri:
        if not 0 <= index < self.count:
            raise IndexError(index)
        return BenchmarkUri(self.scheme, self.name, str(index))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return Benchmark(uri, lambda: uri.path.encode())


def mixed(*weights: float, sizes: int = 10, seed: int = 0) -> Mixture:
    """Mix datasets d0, d1, … in these proportions."""
    return Mixture({Numbers(f"d{index}", sizes): weight for index, weight in enumerate(weights)}, seed)


def names(mixture: Mixture, count: int, start: int = 0) -> list[str]:
    """Return the names of some picks, as text."""
    return [str(uri) for uri in itertools.islice(mixture.benchmark_uris(start), count)]


weights = st.lists(st.one_of(st.integers(1, 1000), st.floats(0.001, 1000)), min_size=1, max_size=5)


@settings(deadline=None)
@given(weights=weights, seed=st.integers(), blocks=st.integers(1, 12))
def test_proportions_are_kept(weights: list[float], seed: int, blocks: int) -> None:
    mixture = mixed(*weights, seed=seed)
    picks: Counter[str] = Counter()
    for block in range(blocks):
        picks.update(mixture.pick(number)[0].name for number in range(block * BLOCK, (block + 1) * BLOCK))
        for index, weight in enumerate(weights):
            expected = (block + 1) * BLOCK * weight / sum(weights)
            assert abs(picks[f"d{index}"] - expected) <= len(weights)


@settings(deadline=None)
@given(sizes=st.integers(1, 40), weights=weights, seed=st.integers())
def test_each_dataset_is_gone_through_again_and_again_in_other_orders(
    sizes: int, weights: list[float], seed: int
) -> None:
    mixture = mixed(*weights, sizes=sizes, seed=seed)
    seen = defaultdict(list)
    for dataset, number in map(mixture.pick, range(500)):
        seen[dataset.name].append(number)
    for numbers in seen.values():
        passes = [numbers[start : start + sizes] for start in range(0, len(numbers), sizes)]
        for one in passes[:-1]:
            assert sorted(one) == list(range(sizes))
        assert len(set(passes[-1])) == len(passes[-1])


def test_passes_and_datasets_and_seeds_differ_in_their_orders() -> None:
    def passes(seed: int) -> list[tuple[int, ...]]:
        seen = defaultdict(list)
        for dataset, number in map(mixed(1, 1, sizes=50, seed=seed).pick, range(600)):
            seen[dataset.name].append(number)
        return [tuple(numbers[at : at + 50]) for numbers in seen.values() for at in range(0, 250, 50)]

    orders = passes(0) + passes(1)
    assert len(orders) == len(set(orders)) == 20


@settings(deadline=None)
@given(start=st.integers(0, 10_000), count=st.integers(0, 200))
def test_it_can_be_taken_up_at_any_pick(start: int, count: int) -> None:
    mixture = mixed(2, 1, 0.3, seed=9)
    expected = [str(mixture.uri_at(number)) for number in range(start, start + count)]
    assert names(mixed(2, 1, 0.3, seed=9), count, start) == expected
    assert [str(b.uri) for b in itertools.islice(mixture.benchmarks(start), count)] == expected


def test_far_picks_cost_no_more_than_near_ones() -> None:
    mixture = Mixture({ScriptedDataset(): 0.5, Numbers("d-v0", 10): 0.5})
    assert names(mixture, 3, start=10**15) == names(mixture, 3, start=10**15)
    counts = Counter(mixture.pick(number)[0].name for number in range(10**15, 10**15 + 10 * BLOCK))
    assert max(counts.values()) - min(counts.values()) <= BLOCK


def test_one_without_an_end_gives_other_benchmarks_every_time() -> None:
    found = names(Mixture({ScriptedDataset(): 1}, seed=4), 1000)
    assert len(set(found)) == 1000
    assert found != names(Mixture({ScriptedDataset(): 1}, seed=5), 1000)


def test_turns_have_no_period_that_a_number_of_environments_could_divide() -> None:
    mixture = mixed(1, 1)
    turns = [mixture.pick(number)[0].name for number in range(100 * BLOCK)]
    for environments in (2, 4, 8, 16, 64):
        share = Counter(turns[::environments])
        assert abs(share["d0"] - share["d1"]) < 5 * (len(turns) / environments) ** 0.5


def test_benchmarks_come_from_their_datasets() -> None:
    programs = default_datasets()["programs-v0"]
    mixture = mix({programs: 1, ScriptedDataset(): 1})
    for benchmark in itertools.islice(mixture, 20):
        if benchmark.uri.dataset == "scripted-v0":
            assert benchmark.content == benchmark.uri.path.encode()
        else:
            assert benchmark in set(programs)
    assert repr(mixture) == "<Mixture of 1 of benchmark://programs-v0, 1 of benchmark://scripted-v0>"


def test_views_and_names_can_be_mixed() -> None:
    numbers = Numbers("numbers-v0", 100)
    parts = numbers.split(0, train=0.5, test=0.5)
    found = names(mix({parts["train"]: 3, parts["test"]: 1}), 3 * BLOCK)
    train = {str(uri) for uri in parts["train"].benchmark_uris()}
    assert sum(name in train for name in found) == 144
    assert {uri.dataset for uri in itertools.islice(mix({"programs-v0": 1}).benchmark_uris(), 5)} == {"programs-v0"}
    assert mix({"numbers-v0": 1}, datasets=Datasets([numbers])).datasets == (numbers,)


def test_the_first_picks_are_those_that_were_published() -> None:
    mixture = mixed(2, 1, 0.25, seed=1)
    first = ["d1/0", "d0/3", "d0/8", "d0/5", "d0/9", "d2/3", "d0/6", "d0/7"]
    assert names(mixture, 8) == [f"benchmark://{name}" for name in first]
    assert names(mixture, 1, start=10**12) == ["benchmark://d1/9"]


@pytest.mark.parametrize("weight", [0, -1, float("inf"), float("nan")])
def test_weights_that_mean_nothing_are_refused(weight: float) -> None:
    with pytest.raises(DatasetError, match="positive"):
        mixed(1, weight)


def test_what_cannot_be_mixed_is_refused(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(DatasetError, match="no dataset to mix"):
        mix({})
    with pytest.raises(DatasetError, match="is empty"):
        mix({FilesDataset("none-v0", tmp_path): 1})
    with pytest.raises(DatasetError, match="is empty"):
        mix({Numbers("d-v0", 10)[5:5]: 1})
    with pytest.raises(DatasetNotFound):
        mix({"none-v0": 1})
    numbers = Numbers("numbers-v0", 3)
    with pytest.raises(DatasetError, match="given twice"):
        mix({numbers: 1, "numbers-v0": 2}, datasets=Datasets([numbers]))
    with pytest.raises(IndexError, match="below"):
        mix({numbers: 1}).pick(-1)
