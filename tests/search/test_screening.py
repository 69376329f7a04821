"""How the search that learns which options do harm learns it, and what it finds by that."""

from collections import deque

import numpy as np
import pytest

from aiocg.search.command_lines import DRIFT, WINDOW, Screener
from aiocg.search.tuner import FAILED
from aiocg.search.variation import KNOWN, Choices, Variation
from aiocg.transport.options import UNSET, Option, words

LEVEL = Option("-O", "level", texts=("-O0", "-O2", "-Os"))
FLAGS = tuple(Option(f"-f{n}", "flag", texts=(f"-f{n}", f"-fno-{n}"), initial="[enabled]") for n in range(300))
OPTIONS = (LEVEL, *FLAGS)
GOOD = {7: 1, 60: 1, 111: 1, 200: 0, 299: 1}  # by option, what is worth 10
HARM = range(20, 80, 2)  # what costs 5, other than `GOOD`
BROKEN = (31, 90)  # what does not compile


def worth(choices: Choices) -> float:
    given = {index for index, choice in enumerate(choices) if index and choice != UNSET}
    if any(index in given for index in BROKEN):
        return FAILED
    good = sum(choices[index] == choice for index, choice in GOOD.items())
    return 10.0 * good - 5.0 * sum(index in given and index not in GOOD for index in HARM) + 20.0 * (choices[0] == 2)


def search(seed: int, evaluations: int) -> tuple[Screener, list[Choices]]:
    """Search with results that are known a window later, as in a search with workers."""
    screener, waiting, asked = Screener(Variation(OPTIONS), seed), deque[Choices](), []
    for _ in range(evaluations):
        if len(waiting) == WINDOW:
            screener.tell(oldest := waiting.popleft(), worth(oldest))
        waiting.append(screener.ask())
        asked.append(waiting[-1])
    for choices in waiting:
        screener.tell(choices, worth(choices))
    return screener, asked


@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
def test_it_finds_what_matters_among_many_options_within_few_evaluations(seed: int) -> None:
    _, asked = search(seed, 400)
    assert max(map(worth, asked)) >= 60.0, "each option and value alone would take 603"


def test_it_learns_what_does_harm_and_leaves_it_alone() -> None:
    screener, _ = search(0, 400)
    harm, harmful = screener._harm(), sorted({*HARM, *BROKEN} - set(GOOD))
    worst = np.argsort(harm)[-len(harmful) :].tolist()
    assert len(set(worst) & set(harmful)) > 0.6 * len(harmful)
    assert np.median(harm[harmful]) > 2 * np.median(harm)
    assert np.all((harm > 0) & (harm < 1))
    changes = [screener._change() for _ in range(200)]
    counts = np.sum([np.not_equal(changed, screener._best) for changed in changes], axis=0)
    assert counts[harmful].mean() < 0.9 * counts.mean()


def test_a_change_of_which_nothing_is_known_touches_several_options() -> None:
    screener = Screener(Variation(OPTIONS), 0)
    sizes = [np.count_nonzero(np.not_equal(screener._change(), screener._best)) for _ in range(50)]
    assert max(sizes) <= 7 and np.median(sizes) >= 6, "0.9 ** 7 is about a half"


def test_two_changes_that_were_made_at_the_same_time_are_joined() -> None:
    screener = Screener(Variation(OPTIONS), 0)
    for _ in Variation(OPTIONS).starts:
        screener.tell(choices := screener.ask(), worth(choices))
    nothing = screener._best
    asked = [screener.ask(), screener.ask()]  # both from the same
    made = [(*nothing[:index], GOOD[index], *nothing[index + 1 :]) for index in (7, 111)]
    assert len(asked) == len(made)
    for choices in made:
        screener.tell(choices, worth(choices))
    assert screener.ask() == (*made[0][:111], GOOD[111], *made[0][112:])


def test_it_tries_each_option_that_is_known_to_help_for_itself() -> None:
    known = [word for word in KNOWN if not word[-1].isdigit()][:20]
    options = (LEVEL, *(Option(word, "flag", texts=(word,)) for word in known))
    worths = [20.0 * (index == 0) + (-3.0 if index == 5 else 1.0) for index in range(1 + len(known))]
    variation = Variation(options)
    screener = Screener(variation, 0)
    for _ in range(len(variation.starts) + len(known)):
        choices = screener.ask()
        screener.tell(
            choices, sum(worths[index] for index, choice in enumerate(choices) if choice == len(options[index]) - 1)
        )
    assert words(options, screener._best) == ("-Os", *known[:4], *known[5:])


def test_of_equal_lines_the_latest_is_kept_and_of_long_ones_the_shorter() -> None:
    screener = Screener(Variation(OPTIONS), 0)
    nothing = (UNSET,) * len(OPTIONS)
    screener.ask()
    screener.tell(nothing, 0.0)
    harmless = [index for index in range(100, 300) if index not in (*GOOD, *BROKEN)]
    for given, kept in ((DRIFT, True), (DRIFT + 1, False), (DRIFT - 5, True), (DRIFT, True)):
        choices = tuple(0 if index in harmless[:given] else UNSET for index in range(len(OPTIONS)))
        before = screener._best
        screener.ask()
        screener.tell(choices, 0.0)
        assert screener._best == (choices if kept else before)


def test_the_same_seed_is_the_same_search() -> None:
    assert search(3, 80)[1] == search(3, 80)[1] != search(4, 80)[1]
