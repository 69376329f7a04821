"""A vector returns what Gymnasium's own vector over the same single environments returns, in each autoreset mode."""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import TimeLimit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import aiocg.gym
from aiocg.gym.vector import CompilerVectorEnv

COUNT = 3
LIMIT = 3  # steps of an episode
STARTS = (3, 5, 2**61 - 9)
NOTHING, INCREMENT, DOUBLE, SQUARE, REFUSE, CRASH = 0, 1, 2, 3, 4, 7

Pair = tuple[CompilerVectorEnv, "SyncVectorEnv[Any, Any]"]


def assert_equal(ours: Any, theirs: Any, where: str = "") -> None:
    """Check that two results are the same down to their types, dtypes and shapes."""
    assert type(ours) is type(theirs), where
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys(), where
        for key in ours:
            assert_equal(ours[key], theirs[key], f"{where}[{key!r}]")
    elif isinstance(ours, tuple) or (isinstance(ours, np.ndarray) and ours.dtype == object):
        assert len(ours) == len(theirs), where
        for place, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_equal(one, other, f"{where}[{place}]")
    elif isinstance(ours, np.ndarray):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape), where
        np.testing.assert_array_equal(ours, theirs, where)
    elif isinstance(ours, Exception):
        assert str(ours).splitlines()[0] == str(theirs).splitlines()[0], where
    else:
        assert ours == theirs, where


@pytest.fixture(scope="module")
def pairs(runtime: aiocg.gym.SyncRuntime) -> Callable[..., Pair]:
    """Make a vector of ours and one of Gymnasium's over the same scripted environments; each pair once."""
    made: dict[Any, Pair] = {}

    def pair(mode: AutoresetMode, observation: str | None = "value") -> Pair:
        def single(start: int) -> Callable[[], gymnasium.Env[Any, Any]]:
            return lambda: TimeLimit(
                runtime.make(
                    "scripted-v0", benchmark=f"scripted-v0/{start}", observation_space=observation, reward_space="value"
                ),
                LIMIT,
            )

        if (mode, observation) not in made:
            ours = runtime.make_vec(
                "scripted-v0",
                COUNT,
                benchmarks=[f"scripted-v0/{start}" for start in STARTS],
                observation_space=observation,
                reward_space="value",
                max_episode_steps=LIMIT,
                autoreset_mode=mode,
            )
            made[mode, observation] = ours, SyncVectorEnv([single(start) for start in STARTS], autoreset_mode=mode)
        return made[mode, observation]

    return pair


def play(pair: Pair, steps: list[list[int]]) -> None:
    """Step both vectors alike and compare all that they return."""
    ours, theirs = pair
    assert_equal(ours.reset(seed=7), theirs.reset(seed=7), "reset")
    for number, actions in enumerate(steps):
        mine, other = ours.step(np.array(actions)), theirs.step(np.array(actions))
        assert_equal(mine, other, f"step {number}")
        _, _, terminations, truncations, _ = mine
        ended = terminations | truncations
        if ours.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            both = [one.reset(options={"reset_mask": ended}) for one in pair]
            assert_equal(*both, f"reset after step {number}")


@pytest.mark.parametrize("mode", AutoresetMode)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(
        st.lists(st.sampled_from([NOTHING, INCREMENT, DOUBLE, SQUARE, REFUSE]), min_size=COUNT, max_size=COUNT),
        max_size=12,
    )
)
def test_any_episodes_are_those_of_gymnasium(
    pairs: Callable[..., Pair], mode: AutoresetMode, steps: list[list[int]]
) -> None:
    play(pairs(mode), steps)


@pytest.mark.parametrize("observation", ["vector", "block", "digits", "places", "value", None])
@pytest.mark.parametrize("mode", AutoresetMode)
def test_observations_of_every_kind_are_batched_as_gymnasium_does(
    pairs: Callable[..., Pair], mode: AutoresetMode, observation: str | None
) -> None:
    ours, theirs = pair = pairs(mode, observation)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.observation_space == theirs.observation_space
    assert ours.action_space == theirs.action_space
    assert ours.single_action_space == theirs.single_action_space
    play(pair, [[INCREMENT, REFUSE, DOUBLE], [SQUARE, NOTHING, REFUSE], [DOUBLE, INCREMENT, NOTHING]] * 2)
    observations, _ = ours.reset()
    assert observations in ours.observation_space


@pytest.mark.parametrize("mode", AutoresetMode)
def test_a_crash_ends_one_episode_as_in_gymnasium(pairs: Callable[..., Pair], mode: AutoresetMode) -> None:
    play(pairs(mode), [[INCREMENT] * 3, [DOUBLE, CRASH, DOUBLE], [INCREMENT] * 3, [INCREMENT] * 3])


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize("observation", ["Autophase", "InstCountDict", "Ir"])
def test_llvm_is_stepped_as_by_gymnasium(runtime: aiocg.gym.SyncRuntime, observation: str, mode: AutoresetMode) -> None:
    made = {"benchmark": "programs-v0/gcd", "runtime": runtime, "max_episode_steps": LIMIT}
    made["observation_space"], environment = observation, "llvm-ic-v0"
    ours = gymnasium.make_vec(environment, num_envs=COUNT, autoreset_mode=mode, **made)
    theirs = gymnasium.make_vec(
        environment, num_envs=COUNT, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode}, **made
    )
    assert isinstance(ours, CompilerVectorEnv)
    assert isinstance(theirs, SyncVectorEnv)
    assert (ours.observation_space, ours.action_space) == (theirs.observation_space, theirs.action_space)
    rng = np.random.default_rng(0)
    passes = len(ours.single_action_space.names)
    play((ours, theirs), rng.integers(0, passes, (7, COUNT)).tolist())
    ours.close()
    theirs.close()


def test_reset_mask_resets_some_and_shows_the_others_as_they_are(pairs: Callable[..., Pair]) -> None:
    for mode in AutoresetMode:
        ours, theirs = pair = pairs(mode)
        play(pair, [[INCREMENT, DOUBLE, SQUARE]])
        masks = [np.array(mask) for mask in ([True, False, False], [False, True, True], [True, True, True])]
        for mask in masks:
            assert_equal(
                ours.reset(seed=[1, None, 3], options={"reset_mask": mask}),
                theirs.reset(seed=[1, None, 3], options={"reset_mask": mask}),
            )
            assert_equal(ours.step([INCREMENT] * COUNT), theirs.step(np.array([INCREMENT] * COUNT)))
