"""What all wrappers have in common, and Gymnasium's own wrappers on our environments."""

import copy
import pickle
from collections.abc import Iterable
from typing import Any, Unpack

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as theirs

import aiocg.gym
from aiocg.env.step import StepResult
from aiocg.errors import EnvClosed, InvalidAction, ResetNeeded, UnknownName
from aiocg.gym import wrappers as ours
from aiocg.gym.wrappers import CompilerEnvWrapper, StepSettings
from aiocg.spaces.rewards import CostReward


class Negated(ours.RewardWrapper):
    """Rewards times -1."""

    def convert_reward(self, reward: float) -> float:
        """Negate."""
        return -reward


class Text(ours.ObservationWrapper):
    """Observations as text."""

    def convert_observation(self, observation: Any) -> str:
        """Write."""
        return f"<{observation}>"


class Shifted(ours.ActionWrapper):
    """Action n is action n + 1 below."""

    def action(self, action: Any) -> Any:
        """Add 1."""
        return action + 1

    def reverse_action(self, action: Any) -> Any:
        """Subtract 1."""
        return action - 1


INCREMENT, DOUBLE = 1, 2


# ------------------------------------------------------------------------------------------- everything is there


def test_wrapper_has_everything_that_the_environment_has(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = CompilerEnvWrapper(ours.Counter(scripted))
    env.observation_space = "value"
    assert env.step("inc")[0] == 6 and env.observation["digits"] == "6" and env.observation.digits() == "6"
    assert env.reward["value"] == -1.0 and env.episode_reward == -1.0 and env.reward_space_spec.name == "value"
    assert env.actions == [1] and env.action_texts == ("increment",) and env.in_episode
    assert env.benchmark == scripted.benchmark and env.datasets is scripted.datasets
    assert env.state.actions == ("increment",) and env.state_hash == scripted.state_hash
    assert env.action_space is scripted.action_space and env.unwrapped is scripted
    assert "observe" in dir(env) and env.has_wrapper_attr("expand") and not env.has_wrapper_attr("nonsense")
    with pytest.raises(AttributeError, match="nonsense"):
        _ = env.nonsense
    with pytest.raises(TypeError, match="wraps a CompilerEnv"):
        CompilerEnvWrapper(gymnasium.make("CartPole-v1"))


def test_what_is_set_on_a_wrapper_is_set_on_the_environment(scripted: aiocg.gym.CompilerEnv) -> None:
    for env in (CompilerEnvWrapper(scripted), CompilerEnvWrapper(theirs.OrderEnforcing(CompilerEnvWrapper(scripted)))):
        env.reset()
        env.timeout = 7.0
        env.observation_space = "digits"
        env.reward_space = None
        env.action_space = "Recipes"
        assert scripted.timeout == 7.0 and scripted.observation_space_spec is not None and scripted.reward_space is None
        assert scripted.action_space.name == "Recipes" and env.step("odd")[0] == "11"
        with pytest.warns(UserWarning, match="reset"):
            env.benchmark = "scripted-v0/8"
        env.action_space = scripted.action_spaces["scripted"]
        env.reward_space = CostReward("mine", "value")
        env.observation_space = None
        assert env.reset(benchmark="scripted-v0/5")[0] is None and env.step("inc")[1] == -1.0
        assert env.reward_space == "mine"
        env.own = "of the wrapper"
        assert not hasattr(scripted, "own")
        with pytest.raises(AttributeError):
            env.episode_walltime = 3  # nobody can


def test_space_of_gymnasium_is_the_wrappers_own(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = Shifted(scripted)
    env.action_space = gymnasium.spaces.Discrete(2)
    env.observation_space = gymnasium.spaces.Box(0, 1)
    assert env.action_space.n == 2 and env.observation_space.shape == (1,)
    assert scripted.action_space.name == "scripted" and scripted.observation_space_spec is not None
    assert env.step(0)[0] == 6 and env.actions == [0] and scripted.actions == [1]


def test_reset_passes_everything_on(scripted: aiocg.gym.CompilerEnv) -> None:
    for env in (CompilerEnvWrapper(scripted), CompilerEnvWrapper(theirs.OrderEnforcing(scripted))):
        observation, info = env.reset(
            seed=3,
            options={"benchmark": "scripted-v0/9", "observation_space": "value", "timeout": 9.0},
            observation_space="digits",
        )
        assert observation == "9" and info["benchmark"] == "benchmark://scripted-v0/9"
        drawn = env.action_space.sample()
        env.reset(seed=3)
        assert env.action_space.sample() == drawn
        with pytest.raises(UnknownName, match="setting"):
            env.reset(nonsense=1)


def test_step_passes_lists_and_timeouts_on(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = Shifted(ours.Counter(CompilerEnvWrapper(scripted)))
    observation, reward, *_ = env.step(0, observation_spaces=["digits", "value"], reward_spaces=["value"])
    assert observation == ["6", 6] and reward == [-1.0]
    assert env.multistep((0, 1), reward_spaces="value")[:2] == (14, -8.0)
    hang = env.action_space.index("hang")
    terminated, info = env.step(hang - 1, timeout=0.4)[2::2]
    assert terminated and info["error_type"] == "DeadlineExceeded"
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_one_action_and_several_are_told_apart(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = CompilerEnvWrapper(scripted)
    assert env.step(np.int64(1))[0] == 6 and env.step(np.array(1))[0] == 7
    assert env.step(np.array([1, 1]))[0] == 9 and env.step((1, "double"))[0] == 20 and env.step([])[0] == 20
    for bad in (99, 1.5, None, True, b"inc", {1}, np.array(99), [[1]]):
        with pytest.raises(InvalidAction):
            env.step(bad)
    env.action_space = "Arithmetic"
    assert env.step((1, 1, 0))[0] == 25 and env.step(np.array([1, 0, 0]))[0] == 26
    assert env.step([(1, 0, 0), "add<5>"])[0] == 32 and env.step({"pass": "add", "number": "10"})[0] == 42
    env.action_space = "Places"
    env.step([])
    assert env.step((0, 1))[0] == 40 and env.step([(1, 0), "@0(raise)"])[0] == 51


def test_overriding_step_alone_is_refused_with_advice() -> None:
    with pytest.raises(TypeError, match="override multistep alone"):

        class Wrong(CompilerEnvWrapper):
            def step(self, action: Any, **settings: Unpack[StepSettings]) -> StepResult:
                return super().step(action, **settings)


def test_overriding_multistep_is_enough(scripted: aiocg.gym.CompilerEnv) -> None:
    class Twice(CompilerEnvWrapper):
        def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
            return super().multistep([action for action in actions for _ in range(2)], **settings)

    env: Any = Twice(Twice(scripted))
    assert env.step(INCREMENT)[0] == 9 and env.multistep([INCREMENT])[0] == 13


# -------------------------------------------------------------------------------------- actions, rewards, observations


def test_transformations_apply_wherever_their_values_pass(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = Text(Negated(Shifted(scripted)))
    assert env.reset(benchmark="scripted-v0/3")[0] == "<3>"
    assert env.step(0)[:2] == ("<4>", 1.0)
    assert env.multistep([0, 1])[:2] == ("<10>", 6.0)
    assert env.episode_reward == 7.0 and scripted.episode_reward == -7.0
    assert env.actions == [0, 0, 1]
    one, two, bad = env.expand([0, [1, 0], env.action_space.index("refuse") - 1])
    assert (one.actions, one.observation, one.reward) == ((0,), "<11>", 1.0)
    assert (two.actions, two.observation, two.reward) == ((1, 0), "<21>", 11.0)
    assert bad.error is not None and bad.observation is None and bad.reward is None
    assert env.state.reward == -7.0 and not env.validate().wrong  # the environment's own, so that others find it again


def test_what_is_asked_for_by_name_comes_as_it_is_and_each_reward_is_converted(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.add_reward_space(CostReward("other", "value"))
    env: Any = Text(Negated(scripted))
    assert env.step("inc", observation_spaces="value", reward_spaces=["other", "value"])[:2] == (6, [1.0, 1.0])
    assert env.episode_reward == 1.0
    assert env.step("inc", reward_spaces="other")[1] == 1.0 and env.episode_reward == 1.0
    assert env.step("inc", observation_spaces=["digits"], reward_spaces="value")[:2] == (["8"], 1.0)
    assert env.episode_reward == 2.0
    assert env.expand(["inc"], observation_spaces=["value"], reward_spaces=["other"])[0].reward == [1.0]
    env.observation_space = None
    assert env.step("inc")[0] is None
    env.reward_space = "other"
    assert env.episode_reward == 0.0 and env.step("inc")[1] == 1.0 and env.episode_reward == 1.0
    env.reward_space = None
    assert env.episode_reward is None and env.step("inc")[1] == 0.0


@pytest.mark.parametrize("constrained", [False, True])
def test_candidate_has_the_histogram_of_the_step_that_it_is(scripted: Any, constrained: bool) -> None:
    scripted.observation_space = "vector"
    below = ours.ConstrainedCommandline(scripted, ["double", "inc"]) if constrained else scripted
    env: Any = ours.ConcatActionsHistogram(below)
    env.reset()
    env.step("inc")
    candidates = [["inc", "double"], env.action_space.index("double"), []]
    for candidate, actions in zip(env.expand(candidates), candidates, strict=True):
        with env.fork() as child:
            assert candidate.observation.tolist() == child.step(actions)[0].tolist()
    failed, asked = env.expand(["crash"] if not constrained else []), env.expand(["inc"], observation_spaces="value")
    assert [one.observation for one in failed] == [None] * len(failed) and asked[0].observation == 7


def test_undefined_transformations_say_so(scripted: aiocg.gym.CompilerEnv) -> None:
    with pytest.raises(NotImplementedError, match=r"convert_observation\(\)"):
        ours.ObservationWrapper(scripted).reset()
    with pytest.raises(NotImplementedError, match=r"convert_reward\(\)"):
        ours.RewardWrapper(scripted).step("inc")
    with pytest.raises(NotImplementedError, match=r"action\(\)"):
        ours.ActionWrapper(scripted).step("inc")


def test_apply_counts_as_one_step(scripted: aiocg.gym.CompilerEnv) -> None:
    state = scripted.fork()
    state.step(["inc", "double"])
    env: Any = Negated(ours.TimeLimit(scripted, 3))
    env.step("inc")
    env.apply(state.state)
    assert env.episode_reward == 7.0 and env.observation["value"] == 12
    assert env.step("inc")[3]  # the third action


# ------------------------------------------------------------------------------------------ forks and snapshots


def test_fork_of_a_chain_diverges_with_all_its_wrappers(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = theirs.TimeLimit(Negated(theirs.RecordEpisodeStatistics(Shifted(scripted))), 3)
    env.reset()
    env.step(0)
    child = copy.deepcopy(env)
    assert type(child) is type(env) and child.unwrapped is not scripted
    assert child.step(1)[:2] == (12, 6.0)
    observation, reward, terminated, truncated, _ = child.step(1)
    assert (observation, reward, terminated, truncated) == (24, 12.0, False, True)
    assert child.get_wrapper_attr("episode_returns") == -19.0 and child.get_wrapper_attr("episode_lengths") == 3
    assert env.step(0)[:4] == (7, 1.0, False, False)
    assert env.get_wrapper_attr("episode_reward") == 2.0 and child.get_wrapper_attr("episode_reward") == 19.0
    child.close()
    assert env.step(0)[0] == 8
    with pytest.raises(EnvClosed):
        child.step(0)


def test_fork_is_of_the_same_class_and_copies_what_a_subclass_holds(scripted: aiocg.gym.CompilerEnv) -> None:
    class Mine(Negated):
        fork_shares = (*Negated.fork_shares, "log")

        def __init__(self, env: "gymnasium.Env[Any, Any]", name: str) -> None:
            super().__init__(env)
            self.name, self.seen, self.log = name, [1], ["common"]

    env: Any = Mine(scripted, "mine")
    child = env.fork()
    child.seen.append(2)
    child.log.append("more")
    assert type(child) is Mine and child.name == "mine" and env.seen == [1] and env.log is child.log
    with pytest.raises(TypeError, match="fork"):
        copy.copy(env)


def test_snapshot_has_what_wrappers_know_of_the_episode(scripted: aiocg.gym.CompilerEnv) -> None:
    env: Any = CompilerEnvWrapper(Negated(ours.TimeLimit(theirs.OrderEnforcing(Negated(scripted)), 4)))
    env.reset()
    env.step("inc")
    snapshot = env.snapshot()
    env.multistep(["inc", "inc", "inc"])
    assert not env.in_episode and env.episode_reward == -4.0
    child = env.fork()
    for one in (env, child):
        one.restore(snapshot)
        assert one.in_episode and one.episode_reward == -1.0
        assert one.multistep([])[0] == 6
        assert one.multistep(["inc", "inc"])[:4] == (8, -2.0, False, False)
        assert one.step("inc")[3] and one.episode_reward == -4.0
    env.restore(env.unwrapped.fork().snapshot())  # which knows nothing of wrappers
    assert env.episode_reward == -4.0 and not snapshot.closed
    scripted.restore(snapshot.bare)
    assert scripted.episode_reward == -1.0
    snapshot.close()
    with pytest.raises(EnvClosed):
        env.restore(snapshot)


@pytest.mark.slow
def test_chain_can_be_pickled(llvm: aiocg.gym.LlvmEnv) -> None:
    with gymnasium.make("llvm-ic-v0", benchmark="programs-v0/gcd", runtime=llvm.runtime) as bare:
        env: Any = ours.TimeLimit(ours.ConstrainedCommandline(Negated(bare), ["mem2reg", "gvn"]), 5)
        env.reset()
        env.step("mem2reg")
        with pickle.loads(pickle.dumps(env)) as other:
            assert other.actions == [0] and other.state_hash == env.state_hash
            assert other.episode_reward == env.episode_reward and other.action_space.names == ("mem2reg", "gvn")
            assert other.multistep([1] * 9)[3] and other.actions == [0, 1, 1, 1, 1]
    aiocg.gym.shutdown()


# ---------------------------------------------------------------------------------------------- Gymnasium's own


def test_gymnasiums_wrappers_work_over_and_under_ours(scripted: aiocg.gym.CompilerEnv) -> None:
    checked = theirs.OrderEnforcing(theirs.PassiveEnvChecker(scripted))
    inner = theirs.TransformReward(checked, lambda reward: float(reward) * 2)
    env: Any = theirs.TransformObservation(ours.Counter(inner), lambda value: value + 100, None)
    env = theirs.ClipReward(theirs.TimeLimit(theirs.RecordEpisodeStatistics(env), 4), -3.0, 3.0)
    assert env.reset(seed=1, options={"benchmark": "scripted-v0/2"})[0] == 102
    assert env.step(INCREMENT)[:2] == (103, -2.0) and env.step(DOUBLE)[:2] == (106, -3.0)
    assert env.get_wrapper_attr("counters")["step"] == 2 and env.unwrapped is scripted
    child = copy.deepcopy(env)
    env.step(INCREMENT)
    assert env.step(INCREMENT)[3] and not child.step(INCREMENT)[3]
    assert env.get_wrapper_attr("state").actions == ("increment", "double", "increment", "increment")


def test_several_actions_do_not_go_past_gymnasiums_wrappers(scripted: aiocg.gym.CompilerEnv) -> None:
    seen: list[float] = []

    def double(reward: Any) -> float:
        seen.append(reward)
        return 2.0 * float(reward)

    env: Any = CompilerEnvWrapper(theirs.TimeLimit(theirs.TransformReward(CompilerEnvWrapper(scripted), double), 3))
    with pytest.raises(ResetNeeded):
        CompilerEnvWrapper(theirs.TimeLimit(scripted.runtime.make("scripted-v0", benchmark="scripted-v0/1"), 3)).step(1)
    env.reset()
    observation, reward, terminated, truncated, info = env.multistep(["inc", "double"])
    assert (observation, reward, terminated, truncated) == (12, -14.0, False, False) and seen == [-1.0, -6.0]
    assert info["action_had_no_effect"] is False and info["new_action_space"] is False
    assert env.step([])[:2] == (12, 0.0)
    assert env.multistep(["nothing", "inc", "inc"])[:4] == (12, 0.0, False, True)  # to the end of the episode
    assert env.actions == [1, 2, 0]
    with pytest.raises(TypeError, match="TimeLimit of Gymnasium, which is below"):
        env.step(0, reward_spaces=["value"])
    env.reset()
    assert env.step(env.action_space.index("hang"), timeout=0.4)[4]["error_type"] == "DeadlineExceeded"
    assert scripted.timeout == 60.0


def test_spec_rebuilds_the_chain(llvm: aiocg.gym.LlvmEnv) -> None:
    bare = gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd", runtime=llvm.runtime)
    env: Any = ours.ConstrainedCommandline(bare, flags=["mem2reg", "gvn"])
    env = ours.CommandlineWithTerminalAction(ours.ClampedReward(ours.AutophaseNormalizedFeatures(env), max=0.5))
    env = ours.ConcatActionsHistogram(ours.TimeLimit(ours.CycleOverBenchmarks(env, ["programs-v0/gcd"]), 4), 4)
    again = gymnasium.make(env.spec)
    assert [type(layer) for layer in _layers(again)] == [type(layer) for layer in _layers(env)]
    assert again.action_space == env.action_space and again.observation_space == env.observation_space
    for one in (env, again):
        observation, _ = one.reset(seed=1)
        assert observation in one.observation_space
        assert one.step(0)[1] == pytest.approx(0.5, abs=0.01)


def _layers(env: "gymnasium.Env[Any, Any]") -> "list[gymnasium.Env[Any, Any]]":
    return [env, *_layers(env.env)] if isinstance(env, gymnasium.Wrapper) else [env]
