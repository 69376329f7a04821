"""Tuners on their own, without a compiler."""

import itertools
import logging
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from aiocg.search._driver import Peeler
from aiocg.search._evolution import LONGEST, Evolver, Portfolio
from aiocg.search._levelwise import Beam, Greedy
from aiocg.search._mcts import TreeSearcher
from aiocg.search._random import RandomWalks
from aiocg.search.tuner import FAILED, Outcome, Prefixed, Proposal, Tuner
from aiocg.search.vectors import Encoding, Minimizer, Nevergrad, OpenTuner, Vectors, encode_lists

from .toy import ALPHABET, START, STEPS, TARGET, Texts, outcome_of, play

BEST = float(TARGET - START)  # what coming to the target earns

TUNERS: dict[str, Callable[[int], Tuner]] = {
    "greedy": lambda seed: Greedy(ALPHABET),
    "beam": lambda seed: Beam(ALPHABET, 8, 12),
    "random": lambda seed: RandomWalks(ALPHABET, seed, 12),
    "evolve": lambda seed: Evolver(ALPHABET, seed),
    "mcts": lambda seed: TreeSearcher(ALPHABET, seed),
    "portfolio": lambda seed: Portfolio([Greedy(ALPHABET), Evolver(ALPHABET, seed), TreeSearcher(ALPHABET, seed)]),
    "evolve after": lambda seed: Prefixed(Evolver(ALPHABET, seed), ("double", "nothing")),
}
OUTSIDE: dict[str, Callable[[Encoding, int], Minimizer]] = {
    "nevergrad": Nevergrad,
    "opentuner": OpenTuner,
}
LEARNING = ("evolve", "mcts", "portfolio", "evolve after")
EVALUATIONS = 1500


@pytest.fixture(params=TUNERS)
def make(request: pytest.FixtureRequest) -> Callable[[int], Tuner]:
    return TUNERS[request.param]


@pytest.fixture(params=OUTSIDE)
def outside(request: pytest.FixtureRequest) -> Callable[[int], Tuner]:
    pytest.importorskip(request.param, reason=f"this search needs the extra {request.param}")
    return lambda seed: Vectors(encode_lists(ALPHABET, 12), OUTSIDE[request.param](encode_lists(ALPHABET, 12), seed))


def best_of(told: list[tuple[Proposal, Outcome]]) -> float:
    return max(outcome.reward for _, outcome in told)


def test_the_same_seed_is_the_same_search(make: Callable[[int], Tuner]) -> None:
    first, again = [[one.actions for one, _ in play(make(3), 120)] for _ in range(2)]
    assert first == again and len(set(first)) > 20


@pytest.mark.parametrize("name", [*LEARNING, "random"])
def test_another_seed_is_another_search(name: str) -> None:
    first, other = [[one.actions for one, _ in play(TUNERS[name](seed), 60)] for seed in (1, 2)]
    assert first != other


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNING if name != "mcts"])
def test_what_changes_lists_finds_the_target_or_comes_next_to_it(name: str) -> None:
    found = [best_of(play(TUNERS[name](seed), EVALUATIONS)) for seed in range(4)]
    assert max(found) >= BEST - 10
    assert min(found) >= BEST - 40


@pytest.mark.slow
def test_tree_search_leaves_the_way_that_greedy_search_takes() -> None:
    small = Texts(["increment", "double", "square"])
    climbed, grown = play(Greedy(small), 300), play(TreeSearcher(small, 0), 300)
    assert best_of(grown) > best_of(climbed) > 0


@pytest.mark.sampled
@pytest.mark.few(1)
def test_a_tuner_goes_on_when_most_things_fail(make: Callable[[int], Tuner]) -> None:
    told = play(make(0), 400)
    assert any(outcome.failed for _, outcome in told)
    assert best_of(told) > 0


def test_a_tuner_that_waits_for_outcomes_says_so_and_does_not_end(make: Callable[[int], Tuner]) -> None:
    tuner = make(0)
    asked = list(itertools.chain.from_iterable(itertools.takewhile(bool, (tuner.ask(50) for _ in range(4)))))
    assert asked
    for proposal in asked:
        tuner.tell(proposal, outcome_of(proposal.actions))
    assert tuner.ask(50)


def test_where_nothing_can_be_done_greedy_and_tree_search_end() -> None:
    still = Texts(["nothing", "refuse"])
    for tuner in (Greedy(still), TreeSearcher(still, 0), Beam(still, 4, 10)):
        told = play(tuner, 1000)
        assert {one.actions for one, _ in told} == {(), ("nothing",), ("refuse",)}


def test_a_start_that_fails_ends_every_search() -> None:
    for name in ("greedy", "beam", "random", "evolve", "mcts"):
        tuner = Prefixed(TUNERS[name](0), ["refuse"])
        assert len(play(tuner, 100)) == 1


def test_evolution_drops_what_has_no_effect_and_keeps_lists_short() -> None:
    tuner = Evolver(ALPHABET, 0)
    told = play(tuner, 800)
    assert max(len(one.actions) for one, _ in told) <= LONGEST
    late = [text for one, _ in told[-200:] for text in one.actions]
    assert late.count("nothing") < len(late) / len(STEPS)


def test_evolution_tries_little_twice() -> None:
    lists = [one.actions for one, _ in play(Evolver(ALPHABET, 0), 800)]
    assert len(set(lists)) > 0.95 * len(lists)


@pytest.mark.slow
def test_tree_search_follows_the_same_list_once() -> None:
    lists = [one.actions for one, _ in play(TreeSearcher(ALPHABET, 0), 800)]
    assert len(set(lists)) == len(lists)


def test_a_prefix_is_before_all_lists_and_the_tuner_does_not_see_it() -> None:
    seen: list[Outcome] = []

    class Inner:
        def ask(self, count: int) -> list[Proposal]:
            return [Proposal(("increment", "nothing"))]

        def tell(self, proposal: Proposal, outcome: Outcome) -> None:
            assert proposal.actions == ("increment", "nothing")
            seen.append(outcome)

    ((proposal, outcome),) = play(Prefixed(Inner(), ["double"]), 1, batch=1, ahead=1)
    assert proposal.actions == ("double", "increment", "nothing") and outcome.state == 7
    assert seen == [Outcome(outcome.reward, ("increment",), 7)]


class Fixed:
    """Earns the same with each of its lists, which are all different."""

    def __init__(self, rewards: list[float]) -> None:
        self.asked = 0
        self.rewards = rewards

    def ask(self, count: int) -> list[Proposal]:
        self.asked += count
        return [Proposal((str(self.asked),), self)] * count

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        assert proposal.tag is self


def test_a_portfolio_goes_on_with_what_finds_something() -> None:
    good, bad = Fixed([]), Fixed([])
    tuner, reward = Portfolio([bad, good]), 0.0
    for _ in range(100):
        for proposal in tuner.ask(4):
            if proposal.tag[1].tag is good:
                reward += 1
                tuner.tell(proposal, Outcome(reward))
            else:
                tuner.tell(proposal, Outcome(-1.0))
    assert good.asked > 5 * bad.asked > 0


# ----------------------------------------------------------------------------------------------------------- peeling


def peeled(actions: tuple[str, ...], batch: int = 5) -> Peeler:
    tuner = Peeler(actions, outcome_of(actions).reward)
    play(tuner, 10_000, batch=batch, ahead=1)
    return tuner


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_each_action_that_is_left_earns_its_place(batch: int) -> None:
    useless = ("increment", "decrement")
    actions = ("nothing", *useless, "square", "double", *useless, "nothing", *useless, "double", "increment")
    tuner = peeled(actions, batch)
    reward = outcome_of(tuner.actions).reward
    assert reward >= outcome_of(actions).reward and len(tuner.actions) < len(actions) - 5
    for index in range(len(tuner.actions)):
        assert outcome_of(tuner.actions[:index] + tuner.actions[index + 1 :]).reward < reward


def test_a_list_that_needs_all_its_actions_stays() -> None:
    actions = ("square", "square", "double")
    assert peeled(actions).actions == actions and peeled(("increment",)).actions == ("increment",)


def test_what_fails_is_never_good_enough() -> None:
    tuner = Peeler(("a", "b", "c", "d"), 1.0)
    while proposals := tuner.ask(3):
        for proposal in proposals:
            tuner.tell(proposal, Outcome(FAILED))
    assert tuner.actions == ("a", "b", "c", "d")


# ------------------------------------------------------------------------------------------------- outside tuners


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.few(1)
def test_an_outside_tuner_finds_more_the_longer_it_searches_and_the_same_with_the_same_seed(
    outside: Callable[[int], Tuner],
) -> None:
    outside(0).ask(1)  # what it needs is imported
    noise = random.getstate(), np.random.get_state()[1].tolist()  # type: ignore[index, union-attr]
    first, again, other = [play(outside(seed), count) for seed, count in ((1, 250), (1, 250), (2, 60))]
    assert [one.actions for one, _ in first] == [one.actions for one, _ in again]
    assert [one.actions for one, _ in first[:60]] != [one.actions for one, _ in other]
    assert best_of(first) > best_of(first[:30]) and best_of(first) > BEST / 2
    assert any(outcome.failed for _, outcome in first)
    assert len({one.actions for one, _ in first}) > 150
    assert noise == (random.getstate(), np.random.get_state()[1].tolist())  # type: ignore[index, union-attr]


@pytest.mark.slow
@pytest.mark.few(1)
def test_an_outside_tuner_proposes_nothing_that_fails_when_it_has_seen_nothing_else(
    outside: Callable[[int], Tuner],
) -> None:
    tuner = outside(0)
    for _ in range(6):
        for proposal in tuner.ask(16):
            tuner.tell(proposal, Outcome(FAILED))
    assert tuner.ask(16)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", OUTSIDE)
def test_an_outside_tuner_proposes_the_same_in_another_process(name: str) -> None:
    pytest.importorskip(name, reason=f"this search needs the extra {name}")
    script = (
        f"from {OUTSIDE[name].__module__} import {OUTSIDE[name].__name__} as Outside\n"  # type: ignore[attr-defined]
        "from aiocg.search.vectors import Encoding\n"
        "minimizer, asked = Outside(Encoding([50] * 20, lambda vector: (), sparse=False), 1), []\n"
        "for _ in range(250):\n"
        "    vector, tag = minimizer.ask()\n"
        "    asked.append(tuple(vector))\n"
        "    minimizer.tell(tag, -float(sum(value in (5, 17) for value in vector)))\n"
        "print(asked)\n"
    )
    seen = set()
    for seed in ("7", "33"):  # which orders sets of texts, and leaves other gaps for new objects
        gaps = f"class Gap: ...\nkept = [Gap() for _ in range(5000)][::{seed}]\n"
        line = [sys.executable, "-P", "-c", gaps + script]
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        seen.add(subprocess.run(line, capture_output=True, text=True, check=True, env=environment).stdout)
    assert len(seen) == 1


@pytest.mark.parametrize("name", OUTSIDE)
def test_without_its_package_an_outside_tuner_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [one for one in sys.modules if one.split(".")[0] == name or one == "aiocg.search._bandit"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=rf"pip install 'aiocg\[{name}\]'"):
        OUTSIDE[name](encode_lists(ALPHABET, 12), 0)


@pytest.mark.slow
def test_nevergrad_names_an_optimizer_that_there_is_not() -> None:
    pytest.importorskip("nevergrad", reason="this search needs the extra nevergrad")
    with pytest.raises(ValueError, match="no optimizer 'Nonsense'"):
        Nevergrad(encode_lists(ALPHABET, 12), 0, "Nonsense")


@pytest.mark.slow
def test_opentuner_leaves_the_formatter_of_others_and_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("opentuner", reason="this search needs the extra opentuner")
    monkeypatch.chdir(tmp_path)
    before = logging.Formatter
    script = (
        "import logging; before = logging.Formatter\n"
        "from aiocg.search.vectors import Encoding\n"
        "from aiocg.search.vectors import OpenTuner\n"
        "OpenTuner(Encoding([3] * 9, lambda vector: (), sparse=False), 0).ask()\n"
        "assert logging.Formatter is before and not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert logging.Formatter is before and not list(tmp_path.iterdir())


def test_vectors_of_lists_leave_out_what_is_0_and_changes_stay_within_the_sizes() -> None:
    encoding = encode_lists(ALPHABET, 12)
    assert encoding.actions([0, 1, 0, 4, *[0] * 8]) == ("nothing", "double")
    rng = np.random.default_rng(0)
    vector, changed = encoding.draw(rng), 0
    for _ in range(300):
        before, vector = vector, encoding.change(vector, rng)
        assert all(0 <= value < size for value, size in zip(vector, encoding.sizes, strict=True))
        changed += sum(one != other for one, other in zip(before, vector, strict=True))
    assert 600 < changed < 1800  # a few of the twelve each time
