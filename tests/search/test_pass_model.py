"""The model by which functionwise draws passes, and how it is learned."""

import random
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from aiocg.search.functionwise.pass_model import TRUST, PassModel, pass_model
from aiocg.search.functionwise.population import PASSES, Population

CHECKOUT = Path(__file__).resolve().parents[2]
with pytest.MonkeyPatch.context() as patch:  # `bench` is not installed, and is run in the root of the checkout
    patch.syspath_prepend(str(CHECKOUT))
    from bench.pass_model import Recording, Tried, fit


def model(behind: tuple[str, str] | None = None) -> PassModel:
    """A model by which all passes are as likely, but for one that is certain behind another one."""
    count = len(PASSES)
    logits = np.zeros((count + 1, count))
    if behind is not None:
        logits[PASSES.index(behind[0]), PASSES.index(behind[1])] = 100
    return PassModel(PASSES, np.zeros(count), logits, np.zeros((count + 1, count)), {})


def test_model_that_comes_along_knows_the_passes_and_prefers_some() -> None:
    found = pass_model()
    weights = found.weights(None, None)
    assert found.passes == PASSES and weights.sum() == pytest.approx(1)
    assert weights.min() >= (1 - TRUST) / len(PASSES)  # so that nothing is left out for ever
    assert weights.max() > 2 * weights.min()


def test_pass_is_drawn_by_those_beside_it() -> None:
    rng, found = random.Random(0), model(behind=("sroa<modify-cfg>", "gvn"))
    drawn = Counter(found.choose(rng, "sroa<modify-cfg>", None) for _ in range(400))
    assert 0.65 < drawn["gvn"] / 400 < 0.85
    assert Counter(found.choose(rng, "adce", None) for _ in range(400))["gvn"] < 40


def test_population_tries_what_the_model_prefers() -> None:
    population = Population({"f": 100.0}, (0,), model=model(behind=("adce", "gvn")))
    population.learn({"f": ("adce",)}, {"f": 90.0})
    tried = [population.propose().get("f", ()) for _ in range(300)]
    pairs = Counter(pair for passes in tried for pair in pairwise(passes) if pair[0] == "adce")
    assert pairs.most_common(1)[0][0] == ("adce", "gvn")


def test_what_helped_is_learned() -> None:
    tried = [Tried(None, text, None, text == "gvn") for text in PASSES for _ in range(40)]
    tried += [Tried("adce", text, "sink", text == "sccp") for text in PASSES for _ in range(40)]
    arrays = fit(tried)
    found = PassModel.of({name: np.asarray(value) for name, value in arrays.items()})
    assert PASSES[int(np.argmax(found.weights(None, None)))] == "gvn"
    assert PASSES[int(np.argmax(found.weights("adce", "sink")))] == "sccp"


def test_what_is_tried_is_noted_with_its_neighbours_and_whether_it_helped() -> None:
    Recording.tried.clear()
    population = Recording({"f": 100.0, "g": 50.0}, (0,))
    for _ in range(30):
        proposal = population.propose()
        population.learn(proposal, {name: 90.0 if passes == ("gvn",) else 101.0 for name, passes in proposal.items()})
    assert Recording.tried and {one.text for one in Recording.tried} <= set(PASSES)
    first = [one for one in Recording.tried if one.first is None and one.last is None]
    assert first and not any(one.helped for one in first if one.text != "gvn")
