import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.collection import Datasets
from aiocg.datasets.dataset import Dataset
from aiocg.datasets.errors import BenchmarkNotFound, DatasetError, DatasetNotFound, InvalidBenchmarkUri
from aiocg.datasets.registry import default_datasets, resolve
from aiocg.datasets.uri import BenchmarkUri


class Letters(Dataset):
    """A dataset with a benchmark for each letter; `endless` ones say that they have no end."""

    def __init__(
        self, name: str, letters: str, endless: bool = False, deprecated: str = "", sort_order: int = 0
    ) -> None:
        super().__init__(name, "letters", deprecated=deprecated, sort_order=sort_order)
        self.letters = letters
        self.endless = endless

    @property
    def size(self) -> int:
        return 0 if self.endless else len(self.letters)

    def uri_at(self, index: int) -> BenchmarkUri:
        return BenchmarkUri(self.scheme, self.name, self.letters[index % len(self.letters)])

    def benchmark_uris(self) -> Iterator[BenchmarkUri]:
        indices = itertools.count() if self.endless else range(self.size)
        return map(self.uri_at, indices)

    def benchmark_from_parsed_uri(self, uri: BenchmarkUri) -> Benchmark:
        if uri.path not in self.letters:
            raise BenchmarkNotFound(str(uri), f"no letter {uri.path}")
        return Benchmark(uri, lambda: uri.path.encode())


class Remote(Letters):
    """The same, but somewhere else; looking at it fetches it."""

    def __init__(self, name: str, letters: str) -> None:
        super().__init__(name, letters)
        self.fetched = False

    @property
    def installed(self) -> bool:
        return self.fetched

    def uri_at(self, index: int) -> BenchmarkUri:
        self.fetched = True
        return super().uri_at(index)


@pytest.fixture
def datasets() -> Datasets:
    return Datasets([Letters("b-v0", "xyz"), Letters("a-v0", "pq"), Letters("old-v0", "o", deprecated="use a-v0")])


def test_it_is_a_dictionary_by_name(datasets: Datasets) -> None:
    assert "a-v0" in datasets
    assert "c-v0" not in datasets
    assert len(datasets) == 3
    datasets["c-v0"] = Letters("c-v0", "c")
    assert datasets["c-v0"].name == "c-v0"
    assert datasets["benchmark://c-v0"] is datasets["c-v0"]
    del datasets["c-v0"]
    assert "c-v0" not in datasets
    with pytest.raises(DatasetNotFound):
        del datasets["c-v0"]


def test_a_dataset_cannot_be_entered_under_a_false_name(datasets: Datasets) -> None:
    with pytest.raises(DatasetError, match="URIs"):
        datasets["other-v0"] = Letters("c-v0", "c")


def test_deprecated_datasets_are_there_but_not_listed(datasets: Datasets) -> None:
    assert [d.name for d in datasets] == ["a-v0", "b-v0"]
    assert [d.name for d in datasets.datasets(with_deprecated=True)] == ["a-v0", "b-v0", "old-v0"]
    assert datasets.names == ("a-v0", "b-v0", "old-v0")
    with pytest.warns(DeprecationWarning, match="use a-v0"):
        assert datasets.benchmark("old-v0/o").content == b"o"


def test_sort_order_comes_before_the_name() -> None:
    collection = Datasets([Letters("a-v0", "x"), Letters("z-v0", "x", sort_order=-1)])
    assert [d.name for d in collection] == ["z-v0", "a-v0"]


def test_benchmarks_come_one_of_each_dataset_in_turn(datasets: Datasets) -> None:
    assert [uri.path for uri in datasets.benchmark_uris()] == list("pxqyz")
    assert [b.uri for b in datasets.benchmarks()] == list(datasets.benchmark_uris())
    assert [uri.path for uri in datasets.benchmark_uris(with_deprecated=True)] == list("pxoqyz")


def test_an_endless_dataset_does_not_hide_the_others(datasets: Datasets) -> None:
    datasets["n-v0"] = Letters("n-v0", "01", endless=True)
    assert [uri.path for uri in itertools.islice(datasets.benchmark_uris(), 9)] == list("px0qy1z01")


def test_size_is_zero_when_there_is_no_end(datasets: Datasets) -> None:
    assert datasets.size == 5
    datasets["n-v0"] = Letters("n-v0", "01", endless=True)
    assert datasets.size == 0
    assert Datasets().size == 0


def test_benchmarks_are_found_by_uri(datasets: Datasets) -> None:
    assert datasets.benchmark("a-v0/p").content == b"p"
    assert datasets.benchmark(BenchmarkUri.from_string("benchmark://b-v0/x")).content == b"x"


def test_an_unknown_dataset_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(DatasetNotFound, match="programs-v0") as caught:
        default_datasets().benchmark("program-v0/qsort")
    assert caught.value.name == "program-v0"
    assert caught.value.nearest == ("programs-v0",)


def test_with_no_name_near_all_are_listed(datasets: Datasets) -> None:
    with pytest.raises(DatasetNotFound, match="there are a-v0, b-v0"):
        datasets.benchmark("completely-different/x")
    with pytest.raises(DatasetNotFound, match="no datasets"):
        Datasets().benchmark("a-v0/x")


def test_an_unknown_benchmark_is_answered_with_the_nearest_names() -> None:
    with pytest.raises(BenchmarkNotFound, match="did you mean") as caught:
        default_datasets().benchmark("programs-v0/mat-mul")
    assert "benchmark://programs-v0/matmul" in caught.value.nearest


def test_a_wrong_scheme_is_answered_with_the_right_one(datasets: Datasets) -> None:
    with pytest.raises(BenchmarkNotFound) as caught:
        datasets.benchmark("generator://a-v0/p")
    assert caught.value.nearest == ("benchmark://a-v0/p",)


@pytest.mark.parametrize("name", ["n-v0/1", "generator://n-v0/1"])
def test_a_text_without_a_scheme_has_that_of_its_dataset(datasets: Datasets, name: str) -> None:
    datasets["n-v0"] = Letters("generator://n-v0", "01", endless=True)
    assert str(datasets.benchmark(name).uri) == "generator://n-v0/1"
    assert str(resolve(name, datasets).uri) == "generator://n-v0/1"


@pytest.mark.parametrize("uri", ["benchmark://n-v0/1", BenchmarkUri("benchmark", "n-v0", "1")])
def test_a_scheme_that_is_given_must_be_right(datasets: Datasets, uri: str | BenchmarkUri) -> None:
    datasets["n-v0"] = Letters("generator://n-v0", "01", endless=True)
    with pytest.raises(BenchmarkNotFound, match="wrong scheme") as caught:
        datasets.benchmark(uri)
    assert caught.value.nearest == ("generator://n-v0/1",)


def test_a_malformed_uri_is_refused(datasets: Datasets) -> None:
    with pytest.raises(InvalidBenchmarkUri):
        datasets.benchmark("http://a-v0/p")


def test_file_uris_are_benchmarks_of_no_dataset(datasets: Datasets, tmp_path: Path) -> None:
    path = tmp_path / "x.ll"
    path.write_text("define void @f() {\n  ret void\n}\n")
    assert datasets.benchmark(f"file://{path}").content == path.read_bytes()


@pytest.mark.parametrize("make_rng", [random.Random, numpy.random.default_rng])
def test_uniform_draw_takes_datasets_alike(datasets: Datasets, make_rng: type[random.Random]) -> None:
    rng = make_rng(3)
    counts = Counter(datasets.random_benchmark(rng).uri.dataset for _ in range(400))
    assert set(counts) == {"a-v0", "b-v0"}
    assert abs(counts["a-v0"] - 200) < 60


@pytest.mark.parametrize("make_rng", [random.Random, numpy.random.default_rng])
def test_weighted_draw_follows_the_sizes(make_rng: type[random.Random]) -> None:
    collection = Datasets(
        [Letters("big-v0", "x" * 90), Letters("small-v0", "y" * 10), Letters("n-v0", "0", endless=True)]
    )
    rng = make_rng(3)
    counts = Counter(collection.random_benchmark(rng, weighted=True).uri.dataset for _ in range(500))
    assert 400 < counts["big-v0"] < 490
    assert counts["n-v0"] == 0


def test_given_weights_replace_the_sizes(datasets: Datasets) -> None:
    rng = random.Random(0)
    draws = [datasets.random_benchmark(rng, weights={"a-v0": 1, "b-v0": 0}) for _ in range(50)]
    assert {benchmark.uri.dataset for benchmark in draws} == {"a-v0"}


@pytest.mark.parametrize("weights", [{"a-v0": 0, "b-v0": 0}, {"a-v0": -1, "b-v0": 5}])
def test_weights_that_mean_nothing_are_refused(datasets: Datasets, weights: dict[str, float]) -> None:
    with pytest.raises(DatasetError, match="weights"):
        datasets.random_benchmark(random.Random(0), weights=weights)


def test_a_weight_for_an_unknown_dataset_is_refused(datasets: Datasets) -> None:
    with pytest.raises(DatasetNotFound):
        datasets.random_benchmark(random.Random(0), weights={"x-v0": 1})


def test_nothing_can_be_drawn_from_no_datasets() -> None:
    with pytest.raises(DatasetError, match="no dataset"):
        Datasets().random_benchmark()


def test_what_would_have_to_be_fetched_is_left_out_unless_asked_for() -> None:
    far = Remote("far-v0", "uvw")
    collection = Datasets([Letters("a-v0", "pq"), far])
    assert collection.size == 5
    assert [d.name for d in collection] == ["a-v0", "far-v0"]
    assert [d.name for d in collection.datasets(installed_only=True)] == ["a-v0"]
    assert [uri.path for uri in collection.benchmark_uris()] == ["p", "q"]
    assert [benchmark.uri.path for benchmark in collection.benchmarks()] == ["p", "q"]
    rng = random.Random(0)
    for weighted in (False, True):
        assert {collection.random_benchmark(rng, weighted).uri.dataset for _ in range(50)} == {"a-v0"}
    assert not far.fetched
    draws = {collection.random_benchmark(rng, installed_only=False).uri.dataset for _ in range(50)}
    assert draws == {"a-v0", "far-v0"}
    assert far.fetched
    assert [uri.path for uri in collection.benchmark_uris()] == list("puqvw")


def test_everything_can_be_enumerated_on_demand() -> None:
    collection = Datasets([Letters("a-v0", "pq"), Remote("far-v0", "uvw")])
    assert [uri.path for uri in collection.benchmark_uris(installed_only=False)] == list("puqvw")


def test_a_dataset_that_has_a_weight_is_drawn_from_wherever_it_is() -> None:
    collection = Datasets([Letters("a-v0", "pq"), Remote("far-v0", "uvw"), Letters("old-v0", "o", deprecated="so")])
    assert collection.random_benchmark(weights={"a-v0": 0, "far-v0": 1}).uri.dataset == "far-v0"
    with pytest.warns(DeprecationWarning, match="old-v0"):
        assert collection.random_benchmark(weights={"a-v0": 0, "far-v0": 0, "old-v0": 1}).uri.dataset == "old-v0"


def test_where_nothing_is_installed_the_error_says_so() -> None:
    with pytest.raises(DatasetError, match="installed_only=False"):
        Datasets([Remote("far-v0", "u")]).random_benchmark()


def test_the_sizes_of_all_datasets_are_known_without_fetching_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    collection = default_datasets()
    assert [dataset.size >= 0 for dataset in collection] == [True] * len(list(collection))
    assert collection.size == 0  # generators have no end
    assert collection.random_benchmark().uri.dataset in collection
    assert next(collection.benchmark_uris()).dataset in collection


def test_datasets_are_mixed_by_name(datasets: Datasets) -> None:
    own = Letters("own-v0", "123")
    mixture = datasets.mix({"a-v0": 1, own: 3}, seed=5)
    counts = Counter(uri.dataset for uri in itertools.islice(mixture.benchmark_uris(), 640))
    assert counts == {"a-v0": 160, "own-v0": 480}
    with pytest.raises(DatasetNotFound):
        datasets.mix({"x-v0": 1})
