"""The search for options, by a compiler that is a table."""

import json
from collections.abc import Sequence

import pytest

from aiocg.search import Budget
from aiocg.tune._cost import Bound, Measured
from aiocg.tune._options import ALL_FILES, LINK, Choice, Space, Words, words_of
from aiocg.tune._searching import minimise, search

LEVELS = (("-Os",), ("-O2",))
SIZES = {"-Os": 700, "-O2": 900}


class Table:
    """Files of 1,000 bytes, of which options take some, and a link that takes more where sections are apart.

    Args:
        effects: by how much an option changes the size of a file; "*" for all others.
        local: whether the sizes of files are known apart.
    """

    def __init__(self, effects: dict[str, dict[str, int]], sources: Sequence[str], *, local: bool = True) -> None:
        self.effects, self.sources, self.is_local = effects, sources, local
        self.best: dict[str, Words] = {}
        self.cost = self._cost({})
        self.asked = 0

    def _size(self, name: str, words: Words) -> int | None:
        if "-fail" in words:
            return None
        level = next((SIZES[word] for word in reversed(words) if word in SIZES), 1000)
        given = {word for word in words if word not in SIZES}
        return level + sum(
            self.effects.get(word, {}).get(name, self.effects.get(word, {}).get("*", 0)) for word in given
        )

    def sizes(self, jobs: Sequence[tuple[str, Words]]) -> list[int | None]:
        return [self._size(*job) for job in jobs]

    def _cost(self, choice: Choice) -> float | None:
        sizes = self.sizes([(name, words_of(choice, name)) for name in self.sources])
        if any(size is None for size in sizes):
            return None
        apart = "-ffunction-sections" in choice.get(ALL_FILES, ())
        collected = 50 if apart and "-Wl,--gc-sections" in choice.get(LINK, ()) else 0
        return float(sum(size for size in sizes if size is not None) - collected + 10 * apart)

    def improves(self, choice: Choice, *, equal: bool = False) -> bool:
        self.asked += 1
        cost = self._cost(choice)
        better = cost is not None and (cost < self.cost or (equal and cost == self.cost))
        if better and cost is not None:
            self.best, self.cost = {name: words for name, words in choice.items() if words}, cost
        return better


EFFECTS = {
    "-fgood": {"*": -20},
    "-fmixed": {"a.c": -50, "*": 10},
    "-fidle": {},
    "-fbad": {"*": 5},
}
OPTIONS = tuple((word,) for word in ("-fidle", "-fail", "-fbad", "-fmixed", "-fgood"))
SECTIONS: Choice = {ALL_FILES: ("-ffunction-sections",), LINK: ("-Wl,--gc-sections",)}


@pytest.mark.parametrize("local", [True, False])
def test_each_file_gets_what_is_good_for_it_and_nothing_else(local: bool) -> None:
    table = Table(EFFECTS, ["a.c", "b.c", "c.c"], local=local)
    meter = Budget(evaluations=10**6, seconds=1.0).start()
    search(table, Space(LEVELS, OPTIONS, (SECTIONS,)), meter)
    meter.budget = Budget(seconds=10.0)
    minimise(table, Space(LEVELS, OPTIONS, (SECTIONS,)), meter)
    assert table.cost == 3 * 700 - 3 * 20 - 50 - 40
    assert set(table.best[ALL_FILES]) == {"-Os", "-ffunction-sections", "-fgood"}
    assert table.best["a.c"] == ("-fmixed",)
    assert table.best[LINK] == ("-Wl,--gc-sections",)
    assert "b.c" not in table.best
    assert "c.c" not in table.best


def test_no_time_is_no_search() -> None:
    table = Table(EFFECTS, ["a.c"])
    search(table, Space(LEVELS, OPTIONS), Budget(seconds=0.0).start())
    assert table.best == {}
    assert table.asked == 0


def test_a_build_of_one_file_and_no_space_ends() -> None:
    table = Table({}, ["a.c"])
    search(table, Space(), Budget(seconds=5.0).start())
    minimise(table, Space(), Budget(seconds=5.0).start())
    assert table.best == {}


@pytest.mark.parametrize(
    ("text", "now", "excess"),
    [
        ("cycles=+2%", 102.0, 0.0),
        ("cycles=+2%", 153.0, 0.5),
        ("cycles=-10%", 90.0, 0.0),
        ("cycles = 200", 150.0, 0.0),
        ("cycles=100", 150.0, 0.5),
    ],
)
def test_bounds_are_shares_of_the_builds_own_or_numbers(text: str, now: float, excess: float) -> None:
    assert Bound.read(text).excess({"cycles": now}, {"cycles": 100.0}) == pytest.approx(excess)


def test_results_that_do_not_fit_are_worse_than_all_that_do() -> None:
    sizes = [Measured(10.0), Measured(5.0, overflow=3), Measured(float("inf"), overflow=1), Measured(20.0)]
    assert [one.key for one in sorted(sizes, key=lambda one: one.key)] == [(0, 10), (0, 20), (1, float("inf")), (3, 5)]
    assert json.dumps(sizes[0].cost)
