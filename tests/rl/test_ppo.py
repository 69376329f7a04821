"""Proximal policy optimisation, without a compiler."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from aiocg.policies import Policy, PolicyError
from aiocg.rl.ppo import Learner, Settings, advantages, pytorch

from .scripted import ACTIONS, BEST, FACTS, SIZE, START, play

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("torch") is None, reason="training needs PyTorch: pip install 'aiocg[rl]'"),
]

SETTINGS = Settings(episodes=60 * 16, batch=16, minibatch=64, hidden=(32,), rate=3e-3, entropy=0.01, seed=1)


def learner(settings: Settings = SETTINGS) -> Learner:
    return Learner(FACTS, settings, SIZE)


def train(one: Learner, updates: int) -> Learner:
    for _ in range(updates):
        seed, batch = one.settings.seed, one.settings.batch
        one.learn(play(one.policy(), [(seed, one.update, number) for number in range(batch)]))
    return one


def weights(one: Learner) -> list[Any]:
    return [parameter.detach().numpy().copy() for parameter in (*one.actor.parameters(), *one.critic.parameters())]


def equal(one: Learner, other: Learner) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(weights(one), weights(other), strict=True))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_solves_a_scripted_environment(seed: int) -> None:
    untrained = learner(msgspec.structs.replace(SETTINGS, seed=seed))
    (before,) = play(untrained.policy(), [None])
    trained = train(untrained, SETTINGS.updates)
    assert trained.finished
    (after,) = play(trained.policy(), [None])
    assert START >= before.best > after.best == BEST
    assert after.taken == tuple(after.actions[:6])  # six that are right


def test_the_same_seed_is_the_same_training_and_another_one_is_not() -> None:
    first, again = train(learner(), 3), train(learner(), 3)
    assert equal(first, again)
    assert not equal(first, train(learner(msgspec.structs.replace(SETTINGS, seed=2)), 3))


def test_a_training_that_goes_on_from_a_checkpoint_is_the_one_that_was_not_interrupted(tmp_path: Path) -> None:
    whole = train(learner(), 4)
    begun = train(learner(), 2)
    begun.curve.append({"update": 2.0})
    begun.save(tmp_path / "run.ckpt", {"programs": ["scripted-v0"]})
    again, more = Learner.load(tmp_path / "run.ckpt")
    assert (again.update, again.curve, more) == (2, [{"update": 2.0}], {"programs": ["scripted-v0"]})
    assert (again.settings, again.facts) == (begun.settings, begun.facts)
    assert equal(train(again, 2), whole)


def test_a_checkpoint_before_the_first_update_is_whole_too(tmp_path: Path) -> None:
    begun = learner()
    begun.save(tmp_path / "run.ckpt")
    again, _ = Learner.load(tmp_path / "run.ckpt")
    assert equal(train(again, 2), train(learner(), 2))


@pytest.mark.parametrize("damage", ["cut", "text", "policy"])
def test_a_damaged_checkpoint_is_refused_by_its_name(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "run.ckpt"
    learner().save(path)
    content = path.read_bytes()
    path.write_bytes({"cut": content[:1000], "text": b"no", "policy": learner().policy().to_bytes()}[damage])
    with pytest.raises(PolicyError, match=r"run\.ckpt") as caught:
        Learner.load(path)
    assert "pickle" not in str(caught.value)  # NumPy's advice how to read what is none


def test_numpy_computes_what_torch_computes() -> None:
    one = train(learner(), 2)
    features = np.random.default_rng(0).random((7, SIZE)).astype(np.float32)
    torch = pytorch()
    with torch.no_grad():
        wanted = one.actor(torch.from_numpy(features)).numpy()
    assert np.allclose(one.policy().logits(features), wanted, atol=1e-5)
    kept = Policy.from_bytes(one.policy().to_bytes()).logits(features)
    assert np.allclose(kept, wanted, atol=0.02 * np.abs(wanted).max())  # as numbers of 16 bits


def test_a_masked_action_is_not_likely_at_all() -> None:
    one, torch = learner(), pytorch()
    features = torch.zeros((1, SIZE))
    masks = torch.tensor([[True, False, True, False, True]])
    probabilities = one._log_probabilities(features, masks)[0].exp().detach().numpy()
    assert np.all((probabilities > 0.1) == masks[0].numpy())
    assert probabilities[1] == probabilities[3] == 0


def test_what_is_shown_is_imitated() -> None:
    expert = train(learner(), SETTINGS.updates)
    shown = play(expert.policy(), [None])
    novice = learner(msgspec.structs.replace(SETTINGS, seed=5))
    first = novice.imitate(shown, epochs=1)
    assert novice.imitate(shown, epochs=100) < first / 4
    (after,) = play(novice.policy(), [None])
    assert after.best == BEST


def test_a_learner_knows_its_programs_and_refuses_others() -> None:
    one = learner()
    one.know(["benchmark://a-v0/1", "benchmark://a-v0/2"])
    one.know(["benchmark://a-v0/2", "benchmark://a-v0/1"])
    assert one.facts.programs == 2 and one.facts.uris == ("benchmark://a-v0/1", "benchmark://a-v0/2")
    with pytest.raises(PolicyError, match="not those of the checkpoint"):
        one.know(["benchmark://a-v0/1"])


def test_advantages_are_those_of_each_episode_alone() -> None:
    rewards = [np.array([1.0, 0.0, 2.0]), np.array([3.0])]
    values = np.array([0.5, 1.0, -1.0, 2.0], np.float32)
    gains, returns = advantages(rewards, values, 0.9, 0.8)
    last = 2.0 - (-1.0)
    middle = 0.0 + 0.9 * -1.0 - 1.0 + 0.9 * 0.8 * last
    first = 1.0 + 0.9 * 1.0 - 0.5 + 0.9 * 0.8 * middle
    assert np.allclose(gains, [first, middle, last, 3.0 - 2.0], atol=1e-6)
    assert np.allclose(returns, gains + values)


def test_as_many_actions_as_were_trained_are_in_the_policy() -> None:
    policy = learner().policy()
    assert policy.facts.actions == ACTIONS and policy.layers[-1][0].shape[1] == len(ACTIONS) + 1
