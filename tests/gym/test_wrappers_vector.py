"""Wrappers of vectors: that they do to each environment what those for one environment do."""

import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import vector as theirs

import aiocg.gym
from aiocg.errors import InvalidAction, ResetNeeded, UnknownName
from aiocg.gym import wrappers as single
from aiocg.gym.vector import CompilerVectorEnv
from aiocg.gym.wrappers import vector as ours
from aiocg.testing import scripted_benchmark
from aiocg.validation import ErrorKind, ValidationError

COUNT, LENGTH = 3, 4  # environments, and actions in an episode
ACTIONS = ["nothing", "inc", "double"]
SETTINGS: dict[str, Any] = {"observation_space": "vector", "reward_space": "value"}

Make = Callable[..., Any]


@pytest.fixture(params=["CompilerVectorEnv", "SyncVectorEnv"])
def make(request: pytest.FixtureRequest, runtime: aiocg.gym.SyncRuntime) -> Iterator[Make]:
    """A function that makes a vector of scripted environments that start at 5, 6 and 7."""
    made: list[Any] = []
    benchmarks = [scripted_benchmark(5 + index) for index in range(COUNT)]

    def make(mode: AutoresetMode = AutoresetMode.NEXT_STEP) -> Any:
        if request.param == "CompilerVectorEnv":
            vector: Any = runtime.make_vec(
                "scripted-v0", COUNT, benchmarks=benchmarks, max_episode_steps=LENGTH, autoreset_mode=mode, **SETTINGS
            )
        else:
            vector = SyncVectorEnv(
                [functools.partial(_limited, runtime, one) for one in benchmarks], autoreset_mode=mode
            )
        made.append(vector)
        return vector

    yield make
    for vector in made:
        vector.close()


def _limited(runtime: aiocg.gym.SyncRuntime, benchmark: Any) -> Any:
    env = runtime.make("scripted-v0", benchmark=benchmark, **SETTINGS)
    return gymnasium.wrappers.TimeLimit(env, LENGTH)


@pytest.fixture
def vector(runtime: aiocg.gym.SyncRuntime) -> Iterator[CompilerVectorEnv]:
    """Three scripted environments that start at 5."""
    with_five = runtime.make_vec(
        "scripted-v0", COUNT, benchmark="scripted-v0/5", reward_space="value", max_episode_steps=LENGTH
    )
    yield with_five
    with_five.close()


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_each_environment_is_wrapped_as_one_alone(make: Make, mode: AutoresetMode) -> None:
    envs: Any = ours.ConcatActionsHistogram(
        ours.ClampedReward(ours.ConstrainedCommandline(make(mode), ACTIONS), -2, 2, 0), norm_to_episode_len=LENGTH
    )
    assert envs.single_action_space.names == ("nothing", "increment", "double")
    assert envs.single_observation_space.shape == (11,) and envs.observation_space.shape == (COUNT, 11)
    observations, infos = envs.reset(seed=1)
    assert observations in envs.observation_space
    rng = np.random.default_rng(0)
    values = np.arange(5, 5 + COUNT)
    counts = np.zeros((COUNT, 3))
    over = np.zeros(COUNT, bool)
    for _ in range(3 * LENGTH):
        if mode is AutoresetMode.DISABLED and over.any():
            observations, _ = envs.reset(options={"reset_mask": over})
            values = np.where(over, np.arange(5, 5 + COUNT), values)
            counts[over] = 0
            over = np.zeros(COUNT, bool)
            assert observations[:, 0].tolist() == values.tolist()
            assert observations[:, 8:].tolist() == (counts / LENGTH).tolist()
        actions = rng.integers(3, size=COUNT)
        observations, rewards, terminations, truncations, infos = envs.step(actions)
        resets = over if mode is AutoresetMode.NEXT_STEP else np.zeros(COUNT, bool)
        after = np.where(resets, np.arange(5, 5 + COUNT), np.choose(actions, [values, values + 1, values * 2]))
        assert rewards.tolist() == np.where(resets, 0, np.clip(values - after, -2, 2)).tolist()
        counts[np.arange(COUNT), actions] += 1
        counts[resets] = 0
        ended = counts.sum(axis=1) == LENGTH
        assert truncations.tolist() == ended.tolist() and not terminations.any()
        if mode is AutoresetMode.SAME_STEP and ended.any():
            finals = np.stack(infos["final_obs"][ended])
            assert finals[:, 0].tolist() == after[ended].tolist()
            assert finals[:, 8:].tolist() == (counts[ended] / LENGTH).tolist()
            after = np.where(ended, np.arange(5, 5 + COUNT), after)
            counts[ended] = 0
        assert observations.dtype == np.float32 and observations in envs.observation_space
        assert observations[:, 0].tolist() == after.tolist()
        assert observations[:, 8:].tolist() == (counts / LENGTH).tolist()
        values, over = after, ended


def test_send_and_recv_go_through_wrappers(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.Counter(ours.ClampedReward(ours.ConstrainedCommandline(vector, ["double", "inc"]), -2, 2, 0))
    envs.async_reset()
    envs.recv(COUNT)
    envs.send([0, "inc"], [2, 0])
    rewards: dict[int, float] = {}
    while envs.pending:
        *_, infos = results = envs.recv(min_ready=1)
        rewards |= dict(zip(infos["env_id"].tolist(), results[1].tolist(), strict=True))
    assert rewards == {2: -2.0, 0: -1.0}
    assert [len(actions) for actions in envs.get_attr("actions")] == [1, 0, 1]
    assert envs.counters["send"] == 1 and envs.counters["recv"] >= 2


def test_names_and_several_actions_in_a_list(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.ConstrainedCommandline(vector, ["double", "inc"])
    envs.reset()
    rewards = envs.step(["double", [1, "inc"], 1])[1]
    assert rewards.tolist() == [-5.0, -2.0, -1.0]
    for bad in (["square", 0, 0], [0, 0, 2]):
        with pytest.raises((UnknownName, InvalidAction)):
            envs.step(bad)
    assert envs.step(np.array([0, 0, 0]))[1].tolist() == [-10.0, -7.0, -6.0]


def test_fork_of_a_wrapped_vector_diverges(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.Counter(ours.ConstrainedCommandline(vector, ["double", "inc"]))
    envs.reset()
    envs.step([0, 0, 0])
    child = envs.fork()
    assert child.step([1, 1, 1])[1].tolist() == [-1.0] * 3 and envs.step([0, 0, 0])[1].tolist() == [-10.0] * 3
    assert envs.counters["fork"] == 1 and child.counters == {**dict.fromkeys(child.counters, 0), "step": 1}
    child.close()
    with pytest.raises(TypeError, match="fork"):
        copy.copy(envs)
    assert not envs.closed


def test_terminal_action_ends_one_episode_and_the_next_step_resets_it(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.ClampedReward(ours.CommandlineWithTerminalAction(vector), -9, 9, 0)
    envs.reset()
    end = int(envs.single_action_space.n) - 1
    _, rewards, terminations, truncations, infos = envs.step([1, ["inc", end, "double"], end])
    assert rewards.tolist() == [-1.0, -1.0, 0.0] and terminations.tolist() == [False, True, True]
    assert infos["terminal_action"].tolist() == [False, True, True] and not truncations.any()
    _, rewards, terminations, _, infos = envs.step([2, 2, 2])
    assert rewards.tolist() == [-6.0, 0.0, 0.0] and not terminations.any()
    assert infos["_benchmark"].tolist() == [False, True, True] and "env_id" not in infos
    assert envs.get_attr("action_texts") == (("increment", "double"), (), ())
    assert envs.step(np.array([1, 1, 1]))[1].tolist() == [-1.0] * 3
    # in the step that also reaches the limit of the episode, and with an error before it
    _, _, terminations, truncations, infos = envs.step([end, 1, ["refuse", end]])
    assert terminations.tolist() == [True, False, True] and truncations.tolist() == [True, False, False]
    assert infos["terminal_action"].tolist() == [True, False, False]
    assert envs.step([1, 1, 1])[4]["_benchmark"].tolist() == [True, False, True]
    assert envs.get_attr("action_texts") == ((), ("increment",) * 3, ())


def test_terminal_action_with_send_and_recv(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.CommandlineWithTerminalAction(vector)
    end = int(envs.single_action_space.n) - 1
    envs.async_reset()
    envs.recv(COUNT)
    envs.send([end, 1], [1, 0])
    ended: dict[int, bool] = {}
    while envs.pending:
        *_, infos = results = envs.recv()
        ended |= dict(zip(infos["env_id"].tolist(), results[2].tolist(), strict=True))
    assert ended == {0: False, 1: True}
    envs.send([1, 1], [1, 2])  # which resets the first of them
    while envs.pending:
        envs.recv()
    assert envs.get_attr("action_texts") == (("increment",), (), ("increment",))


def test_terminal_action_without_autoreset(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = runtime.make_vec("scripted-v0", 2, benchmark="scripted-v0/5", autoreset_mode="Disabled")
    envs: Any = ours.CommandlineWithTerminalAction(vector)
    envs.reset()
    terminations = envs.step([1, "end-of-episode"])[2]
    with pytest.raises(ResetNeeded, match=r"\[1\]"):
        envs.step([1, 1])
    envs.reset(options={"reset_mask": terminations})
    assert not envs.step([1, 1])[2].any() and envs.get_attr("actions") == ([1, 1], [1])
    envs.close()
    same = runtime.make_vec("scripted-v0", 2, benchmark="scripted-v0/5", autoreset_mode="SameStep")
    with pytest.raises(ValueError, match="NextStep"):
        ours.CommandlineWithTerminalAction(same)
    with pytest.raises(TypeError, match=r"no end_episodes\(\)"):
        ours.CommandlineWithTerminalAction(theirs.RecordEpisodeStatistics(vector))
    same.close()


def test_what_fails_validation_is_ended_alone(runtime: aiocg.gym.SyncRuntime) -> None:
    benchmark = scripted_benchmark(5)
    benchmark.add_validation_callback(_above_ten)
    vector = runtime.make_vec("scripted-v0", COUNT, benchmark=benchmark, reward_space="value", max_episode_steps=LENGTH)
    validated = ours.ValidateBenchmarkAfterEveryStep(vector, -7.0, flakiness=1)
    envs: Any = ours.CommandlineWithTerminalAction(validated)
    end = int(envs.single_action_space.n) - 1
    envs.reset()
    _, rewards, terminations, _, infos = envs.step([1, 3, "refuse"])  # square: 25
    assert rewards.tolist() == [-1.0, -7.0, 0.0] and terminations.tolist() == [False, True, True]
    assert infos["_validation_errors"].tolist() == [False, True, False] and infos["error_type"][1:].all()
    assert infos["error_type"].tolist() == [None, "Wrong output", "ActionFailed"]
    assert infos["validation_errors"][1][0].data["value"] == 25 and infos["error_details"][1] == "Wrong output"
    results = envs.step([end, 1, 1])
    assert results[2].tolist() == [True, False, False] and results[4]["_benchmark"].tolist() == [False, True, True]
    results = envs.step(np.array([1, 3, 0]))
    assert results[1].tolist() == [0.0, -7.0, 0.0] and results[4]["_benchmark"].tolist() == [True, False, False]
    assert envs.step([1, 1, 1])[1].tolist() == [-1.0, 0.0, -1.0]
    assert not envs.reset(options={"reset_mask": np.array([True, False, False])})[1].get("error_type")
    envs.close()


async def _above_ten(env: Any) -> list[ValidationError]:
    value = await env.observe("value")
    return [ValidationError(kind=ErrorKind.WRONG_OUTPUT, data={"value": value})] if value > 10 else []


def test_gymnasiums_vector_wrappers_go_over_and_under(vector: CompilerVectorEnv) -> None:
    envs: Any = ours.ConstrainedCommandline(theirs.RecordEpisodeStatistics(vector), ["double", "inc"])
    envs = theirs.TransformReward(ours.ClampedReward(envs, -3, 3, 0), lambda reward: reward * 2)
    envs.reset()
    for _ in range(LENGTH):
        rewards, infos = envs.step(np.array([0, 1, 1]))[1::3]
    assert rewards.tolist() == [-6.0, -2.0, -2.0] and infos["episode"]["r"].tolist() == [-75.0, -4.0, -4.0]


def test_wrappers_for_autophase(runtime: aiocg.gym.SyncRuntime) -> None:
    with runtime.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd") as bare:
        alone: Any = single.AutophaseNormalizedFeatures(single.AutophaseActionSpace(bare))
        vector = runtime.make_vec(
            "llvm-autophase-ic-v0", 2, benchmark="programs-v0/gcd", action_space="PassesLegacy124"
        )
        envs: Any = ours.AutophaseNormalizedFeatures(ours.AutophaseActionSpace(vector))
        assert envs.single_action_space.names == alone.action_space.names
        assert envs.single_observation_space == alone.observation_space
        assert np.array_equal(envs.reset()[0], [alone.reset()[0]] * 2)
        for action in ("-mem2reg", "-prune-eh", "-sroa"):
            result = alone.step(action)
            observations, rewards, *_ = envs.step([action, action])
            assert np.array_equal(observations, [result[0]] * 2) and rewards.tolist() == [result[1]] * 2
        with pytest.raises(TypeError, match="Autophase"):
            ours.AutophaseNormalizedFeatures(envs)
        envs.close()
        plain = runtime.make_vec("llvm-ic-v0", 1, benchmark="programs-v0/gcd")
        with pytest.raises(UnknownName) as caught:
            ours.AutophaseActionSpace(plain)
        assert "PassesLegacy124" in caught.value.__notes__[0]
        plain.close()


def test_what_has_no_vector_form_is_put_around_each_environment(runtime: aiocg.gym.SyncRuntime) -> None:
    def make() -> Any:
        env: Any = runtime.make("scripted-v0", benchmark="scripted-v0/5", **SETTINGS)
        env = single.CycleOverBenchmarks(single.JustKeepGoing(env), ["scripted-v0/1", "scripted-v0/2"])
        return single.CommandlineWithTerminalAction(env)

    envs = SyncVectorEnv([make, make])
    end = int(envs.single_action_space.n) - 1  # type: ignore[attr-defined]
    envs.reset(seed=1)
    observations, _, terminations, *_ = envs.step(np.array([end, 4]))  # the second refuses
    assert observations[:, 0].tolist() == [1, 1] and terminations.tolist() == [True, False]
    assert envs.step(np.array([1, 1]))[0][:, 0].tolist() == [2, 2]
    assert envs.get_attr("action_texts") == ((), ("increment",))
    envs.close()
