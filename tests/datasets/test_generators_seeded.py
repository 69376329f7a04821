"""Datasets whose programs are named by seeds and parameters."""

import itertools
import random
from collections.abc import Mapping

import pytest

from aiocg.datasets import Benchmark, BenchmarkNotFound, BenchmarkUri, Datasets, InvalidBenchmarkUri
from aiocg.datasets.generators.seeded import SEEDS, Integer, SeededDataset, Switch, Value, _Choice


class Words(SeededDataset):
    """Each program is a text that says how it was asked for."""

    def benchmark_of_seed(self, uri: BenchmarkUri, seed: int, values: Mapping[str, Value]) -> Benchmark:
        return Benchmark(uri, lambda: f"{seed} {dict(values)}".encode())


PARAMETERS = {"max-funcs": Integer(1, 10), "pointers": Switch(), "kind": _Choice(("loops", "calls"))}


@pytest.fixture
def words() -> Words:
    return Words("generator://words-v0", "words", parameters=PARAMETERS)


def test_a_program_is_named_by_its_seed(words: Words) -> None:
    for given in ("7", "words-v0/7", "generator://words-v0/7"):
        assert str(words[given]) == "generator://words-v0/7"
        assert words[given].content == b"7 {}"
    assert words.benchmark_from_seed(7) == words["7"]
    assert words["4294967295"].content == b"4294967295 {}"
    assert Datasets([words]).benchmark("generator://words-v0/0").content == b"0 {}"


@pytest.mark.parametrize(
    "path", ["x", "07", "-1", "1.0", "+1", "1_0", "1/2", "\u0661", "4294967296", "9" * 5000, "7#part"]
)
def test_what_is_no_seed_is_refused(words: Words, path: str) -> None:
    with pytest.raises(BenchmarkNotFound, match="whole numbers from 0 to 4294967295") as caught:
        words.benchmark(f"generator://words-v0/{path}")
    assert caught.value.nearest == ("generator://words-v0/0", "generator://words-v0/1")


def test_parameters_are_read_in_one_order(words: Words) -> None:
    benchmark = words["7?pointers=no&max-funcs=3"]
    assert benchmark.content == b"7 {'max-funcs': 3, 'pointers': False}"
    assert str(benchmark) == "generator://words-v0/7?pointers=no&max-funcs=3"
    assert words["7?kind=calls&pointers=yes"].content == b"7 {'pointers': True, 'kind': 'calls'}"
    same = words.benchmark_from_seed(7, pointers=False, max_funcs=3)
    assert same == benchmark and same.content == benchmark.content


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("max-funcs=11", "'max-funcs' cannot be '11'; it is a whole number from 1 to 10"),
        ("max-funcs=three", "a whole number from 1 to 10"),
        ("max-funcs=", "a whole number from 1 to 10"),
        ("pointers=maybe", "'yes' or 'no'"),
        ("kind=jumps", "one of 'loops', 'calls'"),
        ("max-func=3", "did you mean 'max-funcs'"),
        ("no-pointers", "did you mean 'pointers', which is 'yes' or 'no'"),
        ("colour=red", "it has max-funcs, pointers, kind"),
        ("pointers=no&pointers=no", "given twice"),
    ],
)
def test_a_parameter_that_cannot_be_so_is_refused_with_an_example_that_can(
    words: Words, query: str, message: str
) -> None:
    with pytest.raises(InvalidBenchmarkUri, match=message) as caught:
        words.benchmark(f"7?{query}")
    assert words.benchmark(caught.value.example).content


def test_a_generator_without_parameters_says_so() -> None:
    with pytest.raises(InvalidBenchmarkUri, match="plain-v0 has no parameters"):
        Words("generator://plain-v0", "plain")["1?size=3"]


def test_the_nth_program_is_at_hand_at_once(words: Words) -> None:
    assert (words.size, bool(words)) == (0, True)
    assert str(words.uri_at(SEEDS - 1)) == "generator://words-v0/4294967295"
    for outside in (-1, SEEDS):
        with pytest.raises(IndexError, match="seeds are from 0 to 4294967295"):
            words.uri_at(outside)
    assert [str(uri) for uri in itertools.islice(words.benchmark_uris(), 2)] == words._first_names()
    assert [b.content for b in itertools.islice(words, 3)] == [b"0 {}", b"1 {}", b"2 {}"]


def test_draws_are_spread_over_all_seeds_and_repeat(words: Words) -> None:
    drawn = [int(words.random_benchmark(rng).uri.path) for rng in map(random.Random, range(200))]
    assert drawn == [int(words.random_benchmark(random.Random(n)).uri.path) for n in range(200)]
    assert min(drawn) < SEEDS // 20 and max(drawn) > SEEDS - SEEDS // 20


def test_a_slice_of_seeds_is_a_dataset(words: Words) -> None:
    part = words[10:1000]
    assert part.size == 990
    assert [str(uri) for uri in itertools.islice(part.benchmark_uris(), 2)] == [
        "generator://words-v0/10",
        "generator://words-v0/11",
    ]


def test_whoever_holds_a_program_shares_it(words: Words) -> None:
    held = words["7"]
    assert words["7"] is held
    assert words["7?max-funcs=3"] is not held
