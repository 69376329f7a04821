"""The parts of Gym 0.21: environments, wrappers, the registry, and spaces with its habits."""

import json
import pickle
from typing import Any

import gymnasium
import numpy as np
import pytest

from aiocg.compat import gym
from aiocg.compat.gym.utils import EzPickle, seeding


class Counter(gym.Env):
    """Its observation is how many steps there were, which is the reward too."""

    action_space = gym.spaces.Discrete(3)
    observation_space = gym.spaces.Box(0, 100, shape=(1,), dtype=np.int64)

    def __init__(self, start: int = 0) -> None:
        self.start = start
        self.closed = 0

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        self.count = self.start
        return self.count

    def step(self, action: Any) -> tuple[Any, Any, bool, dict[str, Any]]:
        self.count += 1
        return self.count, float(self.count), False, {"action": action}

    def close(self) -> None:
        self.closed += 1


def test_wrappers_pass_on_what_they_do_not_define() -> None:
    class Named(gym.Wrapper):
        pass

    env = Named(Counter(start=4))
    assert env.reset() == 4
    assert env.step(2) == (5, 5.0, False, {"action": 2})
    assert env.start == 4
    assert env.action_space is Counter.action_space
    env.action_space = gym.spaces.Discrete(2)
    assert env.action_space.n == 2
    assert env.unwrapped.action_space.n == 3
    assert isinstance(env.unwrapped, Counter)
    with pytest.raises(AttributeError, match="private"):
        _ = env._secret
    assert str(env) == "<Named<Counter instance>>"


def test_wrappers_change_observations_rewards_and_actions() -> None:
    class Text(gym.ObservationWrapper):
        def observation(self, observation: Any) -> Any:
            return str(observation)

    class Negated(gym.RewardWrapper):
        def reward(self, reward: Any) -> Any:
            return -reward

    class Next(gym.ActionWrapper):
        def action(self, action: Any) -> Any:
            return action + 1

    env = Text(Negated(Next(Counter())))
    assert env.reset() == "0"
    assert env.step(1) == ("1", -1.0, False, {"action": 2})


def test_an_environment_is_closed_by_its_block() -> None:
    env = Counter()
    with env as same:
        assert same is env
    assert env.closed == 1


def test_environments_are_made_by_their_ids() -> None:
    gym.register(id="counter-v3", entry_point=Counter, kwargs={"start": 2}, max_episode_steps=2)
    with gym.make("counter-v3", start=7) as env:
        assert isinstance(env, gym.wrappers.TimeLimit)
        assert env.reset() == 7
        assert env.step(0)[2:] == (False, {"action": 0})
        assert env.step(0)[2:] == (True, {"action": 0, "TimeLimit.truncated": True})
        assert env.unwrapped.spec.kwargs == {"start": 7}
    assert gym.spec("counter-v3").kwargs == gym.spec("counter-v3")._kwargs == {"start": 2}
    assert "llvm-v0" in [one.id for one in gym.envs.registry.all()] or gym.spec("llvm-v0")


@pytest.mark.parametrize(("id", "advice"), [("lvm-v0", "llvm-v0"), ("nothing-like-it-v0", "there are"), ("x", "form")])
def test_an_id_that_there_is_not_is_told(id: str, advice: str) -> None:
    with pytest.raises(gym.error.Error, match=advice):
        gym.make(id)
    with pytest.raises(gym.error.Error):
        gym.register(id="no version", entry_point=Counter)


def test_a_limit_of_steps_is_for_each_episode() -> None:
    env = gym.wrappers.TimeLimit(Counter(), max_episode_steps=2)
    with pytest.raises(AssertionError, match="before calling reset"):
        env.step(0)
    for _ in range(2):
        env.reset()
        assert [env.step(0)[2] for _ in range(2)] == [False, True]


def test_episodes_are_recorded_and_what_they_give_is_transformed() -> None:
    wrappers = gym.wrappers
    env = wrappers.RecordEpisodeStatistics(wrappers.TimeLimit(Counter(), max_episode_steps=3))
    env = wrappers.TransformReward(env, lambda reward: reward * 10)
    env = wrappers.TransformObservation(env, lambda observation: [observation])
    for _ in range(2):
        assert env.reset() == [0]
        last = [env.step(0) for _ in range(3)][-1]
        assert last[:3] == ([3], 30.0, True)
        assert (last[3]["episode"]["r"], last[3]["episode"]["l"]) == (6.0, 3)
    assert list(env.return_queue) == [6.0, 6.0]
    flat = wrappers.FlattenObservation(Counter())
    flat.env.observation_space = gym.spaces.Discrete(3)
    assert flat.reset().tolist() == [1, 0, 0]


def test_spaces_are_those_of_gymnasium_with_old_habits() -> None:
    numbers = gym.spaces.Discrete(5)
    assert isinstance(numbers, gymnasium.spaces.Discrete)
    assert numbers.seed(3) == [3]
    drawn = [numbers.sample() for _ in range(20)]
    assert set(drawn) <= set(range(5))
    assert json.loads(json.dumps(drawn)) == drawn, "plain ints"
    numbers.seed(3)
    assert [numbers.sample() for _ in range(20)] == drawn
    assert 4 in numbers
    assert np.int64(4) in numbers
    assert 5 not in numbers
    box = gym.spaces.Box(low=0, high=1, shape=(2,))
    assert [0.5, 1] in box, "a list counts as the array that it can be made into"
    assert [0.5, 2] not in box
    assert "text" not in box
    both = gym.spaces.Dict({"a": numbers, "b": box})
    assert len(both.seed(1)) == 2
    assert both.sample() in both
    pair = gym.spaces.Tuple([numbers, gym.spaces.MultiBinary(2), gym.spaces.MultiDiscrete([2, 3])])
    assert pair.sample() in pair
    assert gym.spaces.flatdim(pair) == 5 + 2 + 5


def test_random_numbers_are_those_of_the_old_generator() -> None:
    generator, seed = seeding.np_random(42)
    assert seed == 42
    assert generator.randint(1000) == seeding.np_random(42)[0].randint(1000)
    assert seeding.np_random()[1] != seeding.np_random()[1]
    with pytest.raises(gym.error.Error, match="non-negative"):
        seeding.np_random(-1)


class Remade(EzPickle):
    def __init__(self, number: int, *, text: str) -> None:
        super().__init__(number, text=text)
        self.made = (number, text)


def test_objects_are_pickled_by_their_arguments() -> None:
    assert pickle.loads(pickle.dumps(Remade(1, text="a"))).made == (1, "a")


def test_the_logger_drops_what_is_below_its_level(capsys: pytest.CaptureFixture[str]) -> None:
    gym.logger.info("not %d", 1)
    try:
        gym.logger.set_level(gym.logger.DEBUG)
        gym.logger.debug("shown %d", 2)
        gym.logger.setLevel(gym.logger.ERROR)
        gym.logger.warn("no warning either")
    finally:
        gym.logger.set_level(gym.logger.WARN)
    assert capsys.readouterr().out == "DEBUG: shown 2\n"
    with pytest.warns(UserWarning, match="shown 3"):
        gym.logger.warn("shown %d", 3)
