"""Slices, shuffles, splits and selections of datasets: the right benchmarks, each once, and nothing written down."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset, DatasetView
from aiocg.datasets.errors import BenchmarkNotFound, DatasetError, IndexNotFound
from aiocg.datasets.index import DatasetIndex, IndexRow
from aiocg.datasets.registry import default_datasets
from aiocg.datasets.uri import BenchmarkUri


class Numbers(Dataset):
    """The numbers below a count, or all of them; counts how often names were enumerated and computed."""

    def __init__(self, count: int = 0, name: str = "numbers-v0") -> None:
        super().__init__(name, "numbers", license="MIT", validatable=True)
        self.count = count
        self.enumerated = self.computed = 0
        self.fetched = False

    @property
    def size(self) -> int:
        return self.count

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        for number in itertools.count() if not self.count else range(self.count):
            self.enumerated += 1
            yield BenchmarkUri(self.scheme, self.name, str(number))

    def uri_at(self, index: int) -> BenchmarkUri:
        if not 0 <= index < (self.count or 2**40):
            raise IndexError(index)
        self.computed += 1
        return BenchmarkUri(self.scheme, self.name, str(index))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if not uri.path.isdigit() or (self.count and int(uri.path) >= self.count):
            raise BenchmarkNotFound(str(uri), f"no number {uri.path}")
        return Benchmark(uri, lambda: uri.path.encode())

    @property
    def installed(self) -> bool:
        return self.fetched

    def install(self) -> None:
        self.fetched = True

    def uninstall(self) -> None:
        self.fetched = False


class Positioned(Numbers):
    """The same, and it knows where a name is."""

    def position(self, uri: BenchmarkUri) -> int:
        return int(uri.path)


class Counted(Dataset):
    """Numbers that can only be enumerated: no `size` and no `uri_at` of its own."""

    def __init__(self, count: int, name: str = "counted-v0") -> None:
        super().__init__(name, "numbers")
        self.count = count
        self.enumerations = 0

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        self.enumerations += 1
        return (BenchmarkUri(self.scheme, self.name, str(number)) for number in range(self.count))

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        return Benchmark(uri, lambda: uri.path.encode())


def numbers_of(dataset: Dataset) -> list[int]:
    """Return what the benchmarks of numbers are."""
    return [int(uri.path) for uri in dataset.benchmark_uris()]


bound = st.none() | st.integers(-15, 15)
slices = st.builds(slice, bound, bound, st.none() | st.integers(-4, 4).filter(bool))


@settings(deadline=None)
@given(count=st.integers(1, 12), parts=st.lists(slices, max_size=4), counted=st.booleans())
def test_slices_of_slices_are_those_of_a_list(count: int, parts: list[slice], counted: bool) -> None:
    dataset: Dataset = Counted(count) if counted else Numbers(count)
    expected: Sequence[int] = range(count)
    for part in parts:
        dataset, expected = dataset[part], expected[part]
    assert numbers_of(dataset) == list(expected)
    assert len(dataset) == dataset.size == len(expected)
    assert [dataset.uri_at(place).path for place in range(len(expected))] == [str(number) for number in expected]


@settings(deadline=None)
@given(
    count=st.integers(1, 40), steps=st.lists(st.one_of(slices, st.integers(0, 9)), max_size=5), counted=st.booleans()
)
def test_slices_and_shuffles_of_each_other_keep_benchmarks_apart(
    count: int, steps: list[slice | int], counted: bool
) -> None:
    dataset: Dataset = Counted(count) if counted else Numbers(count)
    for step in steps:
        before = numbers_of(dataset)
        dataset = dataset[step] if isinstance(step, slice) else dataset.shuffled(step)
        after = numbers_of(dataset)
        if isinstance(step, slice):
            assert after == before[step]
        else:
            assert sorted(after) == sorted(before)
    names = [dataset.uri_at(place) for place in range(dataset.size)]
    assert names == list(dataset.benchmark_uris()) == [benchmark.uri for benchmark in dataset]
    assert [dataset.number_at(place) for place in range(dataset.size)] == numbers_of(dataset)


@pytest.mark.parametrize("place", [-1, 5, 100])
def test_there_is_nothing_beyond_the_ends(place: int) -> None:
    for view in (Numbers(10)[2:7], Numbers(5).shuffled(0), Counted(5)[:], Counted(5).shuffled(0)):
        with pytest.raises(IndexError, match="among 5 of"):
            view.uri_at(place)


def test_a_view_is_a_dataset_with_the_names_and_the_facts_of_the_whole() -> None:
    dataset = Numbers(100, "generator://numbers-v3")
    for view in (dataset[:10], dataset.shuffled(0), dataset.split()["test"], dataset.shuffled(1)[5:50][::2]):
        assert isinstance(view, DatasetView)
        assert (view.name, view.scheme, view.root, view.version) == ("numbers-v3", "generator", dataset.root, 3)
        assert (view.description, view.license, view.validatable) == ("numbers", "MIT", True)
        assert view.dataset is dataset
        assert view.site_data_path == dataset.site_data_path
        assert repr(view) == f"<DatasetView of {view.size} benchmarks of generator://numbers-v3>"


def test_installing_a_view_installs_the_whole() -> None:
    dataset = Numbers(10)
    view = dataset.shuffled(0)[:3]
    assert not view.installed
    view.install()
    assert dataset.fetched and view.installed
    view.uninstall()
    assert not dataset.fetched


def test_a_shuffle_depends_on_seed_name_and_size_and_repeats() -> None:
    order = numbers_of(Numbers(100).shuffled(0))
    assert sorted(order) == list(range(100)) != order
    assert order == numbers_of(Numbers(100).shuffled(0))
    assert order != numbers_of(Numbers(100).shuffled(1))
    assert order != numbers_of(Numbers(100, "others-v0").shuffled(0))
    assert order != numbers_of(Numbers(100).shuffled(0).shuffled(0))
    assert order == numbers_of(Counted(100, "numbers-v0").shuffled(0))


def test_the_first_programs_of_a_shuffle_are_those_that_were_published() -> None:
    assert numbers_of(Numbers(1_041_333).shuffled(0)[:3]) == [425346, 518265, 288696]
    assert numbers_of(Numbers(10).split(3, train=0.6, test=0.4)["test"]) == [8, 1, 6, 7]


@settings(deadline=None)
@given(count=st.integers(1, 300), seed=st.integers(), weights=st.lists(st.integers(1, 20), min_size=1, max_size=6))
def test_a_split_is_disjoint_and_covers_everything(count: int, seed: int, weights: list[int]) -> None:
    dataset = Numbers(count)
    shares = {f"set{index}": weight / sum(weights) for index, weight in enumerate(weights)}
    sets = dataset.split(seed, **shares)
    assert list(sets) == list(shares)
    found = [number for view in sets.values() for number in numbers_of(view)]
    assert found == numbers_of(dataset.shuffled(seed))  # the sets are slices of the shuffle
    assert sorted(found) == list(range(count))
    for name, view in sets.items():
        assert abs(view.size - shares[name] * count) < 1


@pytest.mark.parametrize(
    ("count", "shares", "sizes"),
    [
        (10, {}, [8, 1, 1]),
        (23, {}, [19, 2, 2]),
        (1_041_333, {}, [833_067, 104_133, 104_133]),
        (100, {"train": 0.7, "rest": 0.3}, [70, 30]),
        (10, {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}, [4, 3, 3]),
        (7, {"all": 1.0}, [7]),
        (3, {"train": 0.9, "test": 0.1}, [3, 0]),
    ],
)
def test_sizes_of_a_split(count: int, shares: dict[str, float], sizes: list[int]) -> None:
    assert [view.size for view in Numbers(count).split(**shares).values()] == sizes


@pytest.mark.parametrize(
    "shares",
    [{"train": 0.8}, {"train": 0.8, "test": 0.3}, {"train": 1.5, "test": -0.5}, {"a": float("nan")}, {"a": 1, "b": 0}],
)
def test_shares_that_are_no_whole_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(DatasetError, match="add up to 1"):
        Numbers(10).split(**shares)


def test_different_seeds_split_differently_and_evenly() -> None:
    dataset = Numbers(50)
    chosen = Counter(number for seed in range(1000) for number in numbers_of(dataset.split(seed)["test"]))
    assert set(chosen) == set(range(50))
    assert all(60 < count < 140 for count in chosen.values())  # 100 are expected, with a deviation of 9.5


def test_a_split_of_a_split_stays_apart() -> None:
    first = Numbers(1000).split(0, train=0.5, rest=0.5)
    second = first["rest"].split(0, validation=0.5, test=0.5)
    sets = [numbers_of(first["train"]), numbers_of(second["validation"]), numbers_of(second["test"])]
    assert [len(numbers) for numbers in sets] == [500, 250, 250]
    assert sorted(itertools.chain(*sets)) == list(range(1000))


def test_what_has_no_end_is_sliced_before_it_is_shuffled_or_split() -> None:
    dataset = Numbers()
    assert numbers_of(dataset[5:9]) == [5, 6, 7, 8]
    assert numbers_of(dataset[2**33 : 2**33 + 2]) == [2**33, 2**33 + 1]
    assert numbers_of(dataset[9:3:-2]) == [9, 7, 5]
    assert sorted(numbers_of(dataset[100:200].shuffled(0))) == list(range(100, 200))
    assert [view.size for view in dataset[:1000].split().values()] == [800, 100, 100]
    for refused in (lambda: dataset.shuffled(0), lambda: dataset.split(0)):
        with pytest.raises(DatasetError, match="take a slice first"):
            refused()
    for part in (slice(-5, None), slice(0, -5)):
        with pytest.raises(DatasetError, match="no end to count from"):
            dataset[part]


def test_a_slice_of_what_has_no_end_is_no_longer_than_can_be_counted() -> None:
    view = Numbers()[: 2**70]
    assert len(view) == view.size == 2**63 - 1
    assert len(Numbers()[2**70 :]) == 0
    assert list(view.shuffled(0)[:3].indices) == list(Numbers()[: 2**64].shuffled(0)[:3].indices)


def test_a_slice_without_an_end_ends_where_random_draws_do() -> None:
    view = Positioned()[1000:]
    assert Numbers().extent == 2**32
    assert view.size == 2**32 - 1000
    assert view.uri_at(0).path == "1000"
    assert view[1000:].size == 2**32 - 2000
    assert view.shuffled(0).uri_at(2**31) in view.shuffled(0)


def test_an_empty_view_is_empty_and_not_without_an_end() -> None:
    for view in (Numbers(10)[5:5], Numbers(10)[20:], Numbers()[3:3], Counted(0)[:], Counted(0).shuffled(0)):
        assert len(view) == view.extent == 0
        assert list(view) == list(view[:5]) == list(view.shuffled(0)) == []
        assert [part.size for part in view.split().values()] == [0, 0, 0]
        with pytest.raises(DatasetError, match="empty"):
            view.random_benchmark(random.Random(0))


def test_random_benchmarks_come_uniformly_from_the_view() -> None:
    view = Numbers(1000)[100:110]
    rng = random.Random(0)
    counts = Counter(int(view.random_benchmark(rng).uri.path) for _ in range(1000))
    assert set(counts) == set(range(100, 110))
    assert all(60 < count < 140 for count in counts.values())


@pytest.mark.parametrize("dataset", [Numbers(100), Positioned(100), Counted(100)], ids=lambda d: type(d).__name__)
def test_benchmarks_of_a_view_are_found_and_others_are_not(dataset: Dataset) -> None:
    sets = dataset.split(0, train=0.5, test=0.5)
    for one, other in (("train", "test"), ("test", "train")):
        for number in numbers_of(sets[one]):
            assert sets[one].benchmark(str(number)).content == b"%d" % number
            assert str(number) in sets[one]
            assert f"{dataset.name}/{number}" not in sets[other]
            with pytest.raises(BenchmarkNotFound, match="not among these 50"):
                sets[other][f"benchmark://{dataset.name}/{number}"]
    for view in (dataset[10:60:5], dataset[::-1], dataset.shuffled(2)[30:][::-3]):
        for place, uri in enumerate(view.benchmark_uris()):
            assert view.position(uri) == place


def test_what_is_not_in_the_whole_is_not_in_the_view() -> None:
    view = Numbers(10).shuffled(0)
    for name in ("11", "other-v0/1", "numbers-v0", "generator://numbers-v0/1"):
        assert name not in view
        with pytest.raises(BenchmarkNotFound):
            view.benchmark(name)


def test_membership_is_quick_where_the_dataset_knows_positions() -> None:
    dataset = Positioned(1_000_000)
    view = dataset.split()["test"]
    uri = view.uri_at(view.size - 1)
    dataset.computed = 0
    assert uri in view
    assert dataset.enumerated == 0
    assert dataset.computed == 0


def test_a_slice_of_what_is_only_enumerated_is_enumerated_as_far_as_it_goes() -> None:
    dataset = Counted(1000)
    assert numbers_of(dataset[10:20:3][1:]) == [13, 16, 19]
    before = dataset.enumerations
    view = dataset[100:].shuffled(0)
    assert sorted(numbers_of(view)) == list(range(100, 1000))
    assert dataset.enumerations - before < 5  # not once for each benchmark


def test_a_view_can_stand_for_its_dataset_in_a_collection() -> None:
    train = default_datasets()["programs-v0"].split(0)["train"]
    datasets = Datasets([train])
    assert datasets.size == train.size
    inside = train.uri_at(0)
    assert datasets.benchmark(str(inside)).uri == inside
    outside = next(uri for uri in default_datasets()["programs-v0"].benchmark_uris() if uri not in train)
    with pytest.raises(BenchmarkNotFound, match="not among these"):
        datasets.benchmark(outside)


def test_nothing_is_enumerated_or_computed_before_it_is_asked_for() -> None:
    dataset = Numbers(1_000_000)
    view = dataset.split(0)["train"].shuffled(3)[:1000]
    assert (dataset.enumerated, dataset.computed) == (0, 0)
    assert len(list(itertools.islice(view, 10))) == 10
    assert (dataset.enumerated, dataset.computed) == (0, 10)


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Numbers:
    """A hundred numbers, of which number n has n instructions, the code of n % 40, and failed if it ends in 9."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path))
    dataset = Numbers(100)
    DatasetIndex.of(dataset).record(
        IndexRow(
            uri=str(dataset.uri_at(number)),
            position=number,
            llvm="22.1.8",
            status="BenchmarkInitError" if number % 10 == 9 else "ok",
            ir_hash=str(number % 40),
            instructions=number,
            instructions_oz=number // 2,
        )
        for number in range(100)
    )
    return dataset


def test_programs_are_selected_by_what_was_measured(measured: Numbers) -> None:
    assert numbers_of(measured.select((20, 30))) == [*range(20, 29), 30]
    assert numbers_of(measured.select((95, None))) == [95, 96, 97, 98]
    assert numbers_of(measured.select((None, 3), where="instructions_oz > 0")) == [2, 3]
    assert numbers_of(measured.select(unique=True)) == [number for number in range(40) if number % 10 != 9]
    assert numbers_of(measured.select((200, None))) == []
    with pytest.raises(DatasetError, match="SQL"):
        measured.select(where="no_such_column > 1")
    with pytest.raises(IndexNotFound, match="others-v0"):
        Numbers(5, "others-v0").select(unique=True)


def test_a_selection_from_a_view_keeps_to_the_view_and_its_order(measured: Numbers) -> None:
    chosen = set(numbers_of(measured.select((20, 70))))
    for view in (
        measured.shuffled(4),
        measured[::-3],
        measured.split(1)["train"].shuffled(2)[5:],
        measured.select((30, None)).shuffled(1),
        measured[50:],
    ):
        expected = [number for number in numbers_of(view) if number in chosen]
        selection = view.select((20, 70))
        assert numbers_of(selection) == expected
        for place, uri in enumerate(selection.benchmark_uris()):
            assert selection.position(uri) == place
        assert numbers_of(selection[2:9:2]) == expected[2:9:2]
        assert numbers_of(selection.select((20, 70))) == expected


def test_what_is_unique_in_the_whole_is_so_in_all_parts_together(measured: Numbers) -> None:
    parts = measured.split(0, train=0.5, test=0.5)
    found = [numbers_of(part.select(unique=True)) for part in parts.values()]
    assert sorted(itertools.chain(*found)) == numbers_of(measured.select(unique=True))


def test_a_selection_is_split_shuffled_and_searched_like_any_view(measured: Numbers) -> None:
    selection = measured.select((10, 59), unique=False)
    parts = selection.split(0)
    assert sorted(itertools.chain(*map(numbers_of, parts.values()))) == numbers_of(selection)
    assert "11" in selection
    assert "19" not in selection
    assert "60" not in selection


def test_what_was_measured_of_an_endless_dataset_can_be_selected(measured: Numbers) -> None:
    endless = Numbers()
    assert numbers_of(endless.select((10, 12))) == [10, 11, 12]
    assert numbers_of(endless[11:].select((10, 13))) == [11, 12, 13]
