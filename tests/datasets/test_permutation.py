"""Orders that are computed: each number once, undone by `index`, evenly spread, and the same for ever."""

import itertools
import math
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiocg.datasets._index_views import Permutation

LARGEST = 2**63 - 1

# Published orders depend on these. Should they ever change, so do all shuffles, splits and mixtures of everybody.
KNOWN = {
    (10, 0, ""): [8, 9, 5, 0, 4, 7, 3, 1, 2, 6],
    (10, 1, ""): [5, 8, 6, 9, 2, 7, 1, 4, 3, 0],
    (10, 0, "benchmark://programs-v0"): [8, 7, 3, 4, 6, 2, 0, 9, 5, 1],
    (1_041_333, 0, ""): [477259, 335677, 724425, 88388],
    (2**32, -7, ""): [2226635904, 2242731699, 2986754862, 2288376637],
    (LARGEST, 2**70, ""): [39615238254680539, 8622197046688192175, 561651613341522005, 3660140504355276146],
}


def deviation(counts: Mapping[Any, int], cells: int) -> float:
    """Return chi-square of counts that should be alike, in standard deviations from what chance gives."""
    expected = sum(counts.values()) / cells
    square = sum((count - expected) ** 2 for count in counts.values()) / expected + (cells - len(counts)) * expected
    return (square - (cells - 1)) / math.sqrt(2 * (cells - 1))


@settings(deadline=None)
@given(size=st.integers(0, 3000), seed=st.integers(), name=st.text())
def test_every_number_comes_once(size: int, seed: int, name: str) -> None:
    order = Permutation(size, seed, name)
    assert len(order) == size
    assert sorted(order) == list(range(size))


@settings(deadline=None)
@given(size=st.integers(1, LARGEST), seed=st.integers(), data=st.data())
def test_index_undoes_it_at_any_size(size: int, seed: int, data: st.DataObject) -> None:
    order = Permutation(size, seed)
    place = data.draw(st.integers(0, size - 1))
    assert 0 <= order[place] < size
    assert order.index(order[place]) == place
    assert order[order.index(place)] == place


@pytest.mark.parametrize("size", [2**k + d for k in (2, 8, 16, 31, 32, 62) for d in (-1, 0, 1)])
def test_neighbours_of_powers_are_sizes_like_others(size: int) -> None:
    order = Permutation(size, 5)
    places = {0, 1, size // 2, size - 2, size - 1}
    assert {order.index(order[place]) for place in places} == places


def test_same_seed_same_order_and_other_seed_or_name_or_size_another() -> None:
    orders = [Permutation(*of) for of in ((1000, 0), (1000, 1), (1000, -1), (1000, 0, "x"), (1000, 2**64), (1001, 0))]
    assert list(orders[0]) == list(Permutation(1000, 0))
    for one, other in itertools.combinations(orders, 2):
        alike = sum(a == b for a, b in zip(one, other, strict=False))
        assert alike < 12  # one is expected


@pytest.mark.parametrize("place", [-1, 10, 2**70])
def test_there_is_nothing_beyond_the_ends(place: int) -> None:
    with pytest.raises(IndexError, match="from 0 to 9"):
        Permutation(10, 0)[place]
    with pytest.raises(IndexError, match="from 0 to 9"):
        Permutation(10, 0).index(place)


def test_sizes_and_seeds_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="-1"):
        Permutation(-1, 0)
    with pytest.raises(ValueError, match="2\\*\\*63"):
        Permutation(2**63, 0)
    with pytest.raises(TypeError):
        Permutation(10, 0.5)  # type: ignore[arg-type]


@pytest.mark.few(1)
@pytest.mark.parametrize(("size", "trials"), [(2, 2000), (3, 3000), (4, 4000), (5, 8000)])
def test_of_few_numbers_all_orders_are_equally_likely(size: int, trials: int) -> None:
    counts = Counter(tuple(Permutation(size, seed)) for seed in range(trials))
    assert deviation(counts, math.factorial(size)) < 4


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("size", [9, 25, 127, 128, 200])
def test_over_the_seeds_every_number_is_as_often_at_every_place(size: int) -> None:
    trials = 40_000 // size
    cells: Counter[tuple[int, int]] = Counter()
    steps: Counter[int] = Counter()
    for seed in range(trials):
        order = list(Permutation(size, seed))
        cells.update(enumerate(order))
        steps.update((b - a) % size for a, b in itertools.pairwise(order))
    assert abs(deviation(cells, size * size)) < 4
    assert abs(deviation(steps, size - 1)) < 4  # what were neighbours are as far apart as any two


def test_even_and_odd_orders_are_equally_likely() -> None:
    odd = sum(_is_odd(list(Permutation(9, seed))) for seed in range(2000))
    assert abs(odd - 1000) < 4 * math.sqrt(500)


def _is_odd(order: list[int]) -> bool:
    return sum(a > b for a, b in itertools.combinations(order, 2)) % 2 == 1


@pytest.mark.parametrize("seed", range(3))
def test_within_one_large_order_places_and_numbers_are_independent(seed: int) -> None:
    size, places = 1_041_333, range(20_000)
    order = Permutation(size, seed)
    numbers = [order[place] for place in places]
    bins = 50
    assert abs(deviation(Counter(number * bins // size for number in numbers), bins)) < 4
    assert abs(deviation(Counter(number % 64 for number in numbers), 64)) < 4
    pairs = Counter((a * bins // size, b * bins // size) for a, b in itertools.pairwise(numbers))
    assert abs(deviation(pairs, bins * bins)) < 4
    steps = Counter(((b - a) % size) * bins // size for a, b in itertools.pairwise(numbers))
    assert abs(deviation(steps, bins)) < 4


def test_orders_of_neighbouring_seeds_are_independent() -> None:
    size = 1_041_333
    one, other = Permutation(size, 0), Permutation(size, 1)
    bins = 30
    pairs = Counter((one[place] * bins // size, other[place] * bins // size) for place in range(20_000))
    assert abs(deviation(pairs, bins * bins)) < 4


@pytest.mark.parametrize("of", KNOWN)
def test_orders_never_change(of: tuple[int, int, str]) -> None:
    order = Permutation(*of)
    assert [order[place] for place in range(len(KNOWN[of]))] == KNOWN[of]


def test_it_does_not_depend_on_the_hashes_of_a_process() -> None:
    script = "from aiocg.datasets._index_views import Permutation; print(list(Permutation(10, 0, 'name')))"
    for seed in ("0", "1"):
        done = subprocess.run(
            [sys.executable, "-P", "-c", script], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True
        )
        assert done.stdout == f"{list(Permutation(10, 0, 'name'))}\n", done.stderr
