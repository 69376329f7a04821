"""How choices are drawn and changed, and how soon a genetic algorithm with these operators finds what matters."""

import numpy as np
import pytest

from aiocg.search.variation import HEADS, KNOWN, Variation
from aiocg.transport.options import UNSET, Option, words

LEVEL = Option("-O", "level", texts=("-O0", "-O2", "-Os"))
FLAGS = tuple(Option(f"-f{n}", "flag", texts=(f"-f{n}", f"-fno-{n}"), initial="[disabled]") for n in range(60))
ON = Option("-fon", "flag", texts=("-fon", "-fno-on"), initial="[enabled]")
WIDE = Option("--param=wide", "param", template="--param=wide={}", low=1, high=2**31 - 1, initial="100")
MIXED = Option("-fa", "alignment", texts=("-fa", "-fno-a"), template="-fa={}", low=-4, high=4)
OPTIONS = (LEVEL, *FLAGS, ON, WIDE, MIXED)


def test_it_starts_with_nothing_and_with_each_level_alone() -> None:
    variation = Variation(OPTIONS)
    nothing = (UNSET,) * len(OPTIONS)
    assert variation.levels == tuple((level, *nothing[1:]) for level in range(3))
    assert variation.starts == (nothing, *variation.levels) and not variation.heads


def test_the_heads_have_more_and_more_of_what_is_known_to_help_where_the_compiler_has_it() -> None:
    known = [word for word in KNOWN if not word[-1].isdigit()][1:5]
    options = (LEVEL, *(Option(word, "flag", texts=(word,)) for word in reversed(known)))
    variation = Variation(options)
    lines = [words(options, choices) for choices in variation.heads]
    assert [set(line) for line in lines] == [{"-Os", *known[:count]} for count in HEADS]
    level, *others = options
    newer = Variation([Option("-O", "level", texts=(*level.texts, "-Oz")), *others])
    assert ["-Oz" in words(newer._options, choices) for choices in newer.heads] == [True] * len(HEADS)
    assert [options[index].word(choice) for index, choice in variation.known] == known


def test_what_is_known_to_help_is_changed_as_often_as_all_else_and_mostly_to_what_helps() -> None:
    options = (*OPTIONS, *(Option(word, "flag", texts=("-other", word)) for word in KNOWN[1:3]))
    variation, rng = Variation(options), np.random.default_rng(0)
    assert variation.shares[-2:].sum() == pytest.approx(0.5)
    redrawn = [variation.redraw(len(options) - 1, UNSET, rng) for _ in range(400)]
    assert redrawn.count(1) == pytest.approx(300, abs=50)
    assert {variation.redraw(len(options) - 1, 1, rng) for _ in range(50)} >= {UNSET, 0}


def test_all_that_is_drawn_is_a_choice() -> None:
    variation, rng = Variation(OPTIONS), np.random.default_rng(0)
    choices = variation.draw(rng)
    for _ in range(300):
        for made in (choices, variation.draw(rng)):
            assert len(made) == len(OPTIONS)
            assert all(UNSET <= choice < len(option) for option, choice in zip(OPTIONS, made, strict=True))
        choices = variation.change(choices, rng)


def test_what_is_drawn_has_a_level_and_few_or_many_options() -> None:
    variation, rng = Variation(OPTIONS), np.random.default_rng(0)
    drawn = [variation.draw(rng) for _ in range(300)]
    assert {choices[0] for choices in drawn} == {0, 1, 2}
    given = [sum(choice != UNSET for choice in choices) for choices in drawn]
    assert min(given) <= 3 and max(given) > 50
    assert 0.2 < np.mean([number < 10 for number in given]) < 0.8


def test_most_changes_are_small_and_some_are_large() -> None:
    variation, rng = Variation(OPTIONS), np.random.default_rng(0)
    nothing = variation.starts[0]
    sizes = [sum(choice != UNSET for choice in variation.change(nothing, rng)) for _ in range(1000)]
    assert min(sizes) <= 1 and np.median(sizes) <= 4 and max(sizes) > 12


def test_a_change_also_drops_options() -> None:
    variation, rng = Variation(OPTIONS), np.random.default_rng(0)
    full = tuple(0 for _ in OPTIONS)
    assert any(UNSET in variation.change(full, rng) for _ in range(20))


def test_numbers_are_drawn_by_orders_of_magnitude() -> None:
    variation, rng = Variation((WIDE,)), np.random.default_rng(0)
    numbers = [WIDE.low + variation.change((UNSET,), rng)[0] for _ in range(2000)]
    assert all(np.mean([low <= n < 10 * low for n in numbers]) > 0.02 for low in (1, 10, 100, 1000, 10**6, 10**8))
    assert np.mean([100 / 16 <= number <= 1600 for number in numbers]) > 0.5  # around what it is by default
    near = [WIDE.low + variation.change((10**6,), rng)[0] for _ in range(2000)]
    assert np.mean([10**6 / 16 <= number <= 16 * 10**6 for number in near if number]) > 0.25


def test_what_is_on_by_default_is_mostly_switched_off() -> None:
    variation, rng = Variation((ON,)), np.random.default_rng(0)
    choices = [variation.change((UNSET,), rng)[0] for _ in range(400)]
    assert 0.8 < np.mean([choice == 1 for choice in choices]) < 0.95


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_breeding_finds_the_few_options_that_matter(seed: int) -> None:
    pytest.importorskip("pymoo", reason="the genetic search needs pymoo, of the extra search")
    from aiocg.search._breeding import algorithm, member

    wanted = {0: 2, 3: 0, 17: 1, 18: 1, 40: 0, len(FLAGS) + 1: 1}  # by option; all others do harm

    def cost(choices: tuple[int, ...]) -> float:
        return sum(
            (-10.0 if wanted[index] == choice else 5.0) if index in wanted else 0.1
            for index, choice in enumerate(choices)
            if choice != UNSET
        )

    made = algorithm(Variation(OPTIONS), seed, 30)
    best = 0.0
    waiting = [tuple(one.X.tolist()) for one in made.ask()]
    assert waiting[0] == (UNSET,) * len(OPTIONS)
    for _ in range(1500):
        choices = waiting.pop(0) if waiting else tuple(made.ask()[0].X.tolist())
        best = min(best, cost(choices))
        made.tell(infills=member(choices, cost(choices)))
    assert best <= -10.0 * len(wanted) + 2.0
