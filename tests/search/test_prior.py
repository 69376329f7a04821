"""Priors: what they change in searches, and models that are read from files."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg.search import Budget, beam, mcts
from aiocg.search._levelwise import Beam
from aiocg.search._mcts import TreeSearcher
from aiocg.search.priors import GainModel
from aiocg.search.tuner import Outcome

from .toy import ALPHABET, play

ACTIONS = ("nothing", "increment", "double", "square")


class Favours:
    """A prior that finds one action promising."""

    observations = ()

    def __init__(self, text: str) -> None:
        self.text = text

    def weights(self, state: Outcome, texts: Sequence[str]) -> Any:
        return np.array([float(text == self.text) for text in texts])


def model(**changed: Any) -> GainModel:
    """A model of one input, `x`, by which `double` gains what it says, and `nothing` never does anything."""
    weights, biases = np.zeros((8, 1), np.float32), np.zeros(8, np.float32)
    weights[2], biases[4] = 1, -20
    whole = GainModel(("value",), ACTIONS, 0.5, np.zeros(1), np.ones(1), ((weights, biases),))
    return whole._replace(**changed)


def test_a_tree_search_begins_with_what_the_prior_finds_promising() -> None:
    for favourite in ("square", "double"):
        lists = [one.actions for one, _ in play(TreeSearcher(ALPHABET, 0, Favours(favourite)), 4, batch=1, ahead=1)]
        assert lists[:2] == [(), (favourite,)]


def test_a_tree_search_tries_everything_whatever_the_prior_says() -> None:
    lists = {one.actions for one, _ in play(TreeSearcher(ALPHABET, 0, Favours("square")), 200)}
    assert {(text,) for text in ("nothing", "increment", "decrement", "double", "square", "refuse")} <= lists


def test_a_beam_extends_states_by_the_most_promising_actions_only() -> None:
    lists = [one.actions for one, _ in play(Beam(ALPHABET, 2, 3, Favours("double"), tries=1), 100)]
    assert lists == [(), ("double",), ("double",) * 2, ("double",) * 3]
    assert len(play(Beam(ALPHABET, 2, 3), 100)) > 10


def test_a_model_weighs_actions_by_gain_and_effect_and_knows_them_by_their_texts() -> None:
    state = Outcome(0.0, costs=(np.e - 1,))  # whose logarithm is 1
    nothing, double, square = model().weights(state, ["nothing", "double", "square"])
    assert double / square == pytest.approx(np.exp(1 / 0.5)) and nothing < square / 1e6
    other = model().weights(state, ["square", "of another compiler", "double"])
    assert other[2] > other[1] > other[0] and other.sum() == pytest.approx(1)


def test_a_model_is_the_same_when_it_is_read_again(tmp_path: Path) -> None:
    model().write(tmp_path / "prior.npz")
    again = GainModel.read(tmp_path / "prior.npz")
    assert again.actions == ACTIONS and again.observations == ("value",)
    np.testing.assert_array_equal(again.predict([5.0]), model().predict([5.0]))


@pytest.mark.parametrize("damage", ["text", "empty", "pickle", "other arrays", "shapes", "half"])
def test_a_file_that_is_no_model_is_refused_by_name(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "prior.npz"
    model().write(path)
    if damage == "text":
        path.write_text("no arrays")
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "pickle":
        np.savez(path, actions=np.array([{}], object), allow_pickle=True)
    elif damage == "other arrays":
        np.savez(path, actions=np.zeros(3))
    elif damage == "shapes":
        model(actions=ACTIONS[1:]).write(path)
    else:
        path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(ValueError, match=r"prior\.npz is not the file of a prior"):
        GainModel.read(path)


def test_a_beam_tries_other_actions_where_the_promising_ones_lead_nowhere() -> None:
    told = play(Beam(ALPHABET, 1, 1, Favours("nothing"), tries=2), 100)
    assert [one.actions for one, _ in told] == [(), ("nothing",), ("increment",)]
    told = play(Beam(ALPHABET, 1, 1, Favours("refuse"), tries=1), 100)
    assert [one.actions for one, _ in told] == [(), ("refuse",), ("nothing",), ("increment",)]


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_searches_with_a_model_do_not_try_what_it_knows_to_do_nothing(calm: Any, tmp_path: Path) -> None:
    path = tmp_path / "prior.npz"
    model().write(path)
    without, found = await beam(await calm(3, 50), depth=3), await beam(await calm(3, 50), depth=3, prior=path, tries=3)
    assert (found.actions, found.reward) == (without.actions, without.reward)
    assert found.evaluations < without.evaluations
    assert found.state.costs[0] == (6,)  # of "double"
    again = await beam(await calm(3, 50), depth=3, prior=path, tries=3, resume=found.state)
    assert again.state.outcomes == found.state.outcomes
    budget = Budget(evaluations=60)
    guided = await mcts(await calm(3, 50), prior=path, budget=budget)
    assert guided.reward == (await mcts(await calm(3, 50), budget=budget)).reward


@pytest.mark.asyncio(loop_scope="session")
async def test_a_prior_of_other_observations_is_refused(calm: Any) -> None:
    with pytest.raises(ValueError, match="looks at Autophase, which"):
        await mcts(await calm(3, 50), prior=model(observations=("Autophase",)))
