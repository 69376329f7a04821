"""Each wrapper: what it does, and that it does it under every option, in forks, and in a chain with Gymnasium's."""

import copy
import itertools
import pickle
import statistics
import threading
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import wrappers as theirs

import aiocg.gym
from aiocg.errors import InvalidAction, ResetNeeded, UnknownName
from aiocg.gym import wrappers as ours
from aiocg.gym.wrappers import AUTOPHASE_FLAGS
from aiocg.spaces import CommandlineFlag
from aiocg.testing import scripted_benchmark

Env = aiocg.gym.CompilerEnv
INCREMENT, DOUBLE, REFUSE = 1, 2, 4

# Each class over an environment whose observation is a vector, of eight numbers; its actions 0 and 1 are then harmless.
EACH: dict[str, Callable[[Any], Any]] = {
    "CompilerEnvWrapper": ours.CompilerEnvWrapper,
    "CommandlineWithTerminalAction": ours.CommandlineWithTerminalAction,
    "ConstrainedCommandline": lambda env: ours.ConstrainedCommandline(env, ["nothing", "inc", "double", "hang"]),
    "TimeLimit": lambda env: ours.TimeLimit(env, 100),
    "IterateOverBenchmarks": lambda env: ours.IterateOverBenchmarks(env, [f"scripted-v0/{n}" for n in range(5, 99)]),
    "CycleOverBenchmarks": lambda env: ours.CycleOverBenchmarks(env, ["scripted-v0/5", "scripted-v0/6"]),
    "CycleOverBenchmarksIterator": lambda env: ours.CycleOverBenchmarksIterator(env, _two_benchmarks),
    "RandomOrderBenchmarks": lambda env: ours.RandomOrderBenchmarks(env, ["scripted-v0/5", "scripted-v0/6"]),
    "ForkOnStep": ours.ForkOnStep,
    "ValidateBenchmarkAfterEveryStep": ours.ValidateBenchmarkAfterEveryStep,
    "Counter": ours.Counter,
    "ClampedReward": lambda env: ours.ClampedReward(env, -0.5, 0.5, 0.0),
    "ConcatActionsHistogram": ours.ConcatActionsHistogram,
    "JustKeepGoing": lambda env: ours.JustKeepGoing(env, max_errors=0),
}


def _two_benchmarks() -> list[str]:
    return ["scripted-v0/5", "scripted-v0/6"]


def test_every_wrapper_is_in_the_table() -> None:
    others = {
        "AUTOPHASE_FLAGS",
        "ActionWrapper",
        "ForkableIterator",
        "ObservationWrapper",
        "RewardWrapper",
        "StepSettings",
    }
    only_llvm = {"AutophaseActionSpace", "AutophaseNormalizedFeatures", "RuntimePointEstimateReward"}
    assert set(EACH) | others | only_llvm == set(ours.__all__)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EACH)
def test_wrapper_under_every_option(name: str, scripted: Any) -> None:
    scripted.observation_space = "vector"
    env: Any = EACH[name](scripted)
    chooses = hasattr(env, "next_benchmark")
    forms: list[Any] = [{} if chooses else {"benchmark": "scripted-v0/5"}, {"options": {"reward_space": "value"}}]
    for form in forms:
        observation, info = env.reset(seed=1, **form)
        assert observation in env.observation_space and info["benchmark"].startswith("benchmark://scripted-v0/")
    env.unwrapped.reset(benchmark="scripted-v0/5")
    observation, reward, terminated, truncated, info = env.step(1)
    assert observation in env.observation_space and observation[0] == 6
    assert reward == (-0.5 if name == "ClampedReward" else -1.0) == env.episode_reward
    assert (terminated, truncated, info["action_had_no_effect"]) == (False, False, False)
    observation, rewards, *_ = env.step("inc", observation_spaces=["digits", "value"], reward_spaces=["value", "value"])
    assert observation == ["7", 7] and rewards == [reward, reward]
    assert env.multistep([1, "inc", 2], observation_spaces="value")[0] == 18 and env.step([2, 2])[0][0] == 72
    assert env.actions == [1, 1, 1, 1, 2, 2, 2]
    assert [each.observation[0] for each in env.expand([1, [1, 2]])] == [73, 146]
    child, other = env.fork(), copy.deepcopy(theirs.ClipReward(env, -9, 9))
    for number, one in enumerate((env, child, other), 1):
        assert one.step(1)[0][0] == 73 and one.unwrapped.multistep([1] * number)[0][0] == 73 + number
    assert type(child) is type(env) and child.get_wrapper_attr("benchmark") == env.benchmark
    snapshot = child.snapshot()
    child.step(1)
    child.restore(snapshot)
    assert child.actions == [1, 1, 1, 1, 2, 2, 2, 1, 1, 1] and child.multistep([])[0][0] == 75
    terminated, info = env.step("hang", timeout=0.1)[2::2]
    assert terminated and info["error_type"] == "DeadlineExceeded"
    with pytest.raises(ResetNeeded):
        env.step(1)
    assert child.step(1)[0][0] == 76
    child.close()
    other.close()
    assert "Wrapper" in str(env) or name in str(env)


@pytest.mark.parametrize("name", EACH)
def test_wrapper_over_one_of_gymnasiums(name: str, scripted: Any) -> None:
    scripted.observation_space = "vector"
    env: Any = EACH[name](theirs.TimeLimit(scripted, 4))
    env.reset()
    scripted.reset(benchmark="scripted-v0/5")
    assert env.step(1)[0][0] == 6 and env.multistep([1, 1])[0][0] == 8
    child = copy.deepcopy(env)
    for one in (env, child):
        assert one.multistep([1, 1, 1])[2:4] == (False, True) and one.get_wrapper_attr("observation")["value"] == 9


@pytest.mark.few(2)
@pytest.mark.parametrize("name", EACH)
def test_wrapper_can_be_pickled(name: str, scripted: Env) -> None:
    with gymnasium.make("llvm-autophase-ic-v0", benchmark="programs-v0/gcd", runtime=scripted.runtime) as bare:
        if name == "ConstrainedCommandline":
            env: Any = ours.ConstrainedCommandline(bare, ["mem2reg"])
        elif "Benchmarks" in name:
            make = getattr(ours, name)
            env = make(bare, _programs if name.endswith("Iterator") else ["programs-v0/gcd", "programs-v0/crc32"])
        else:
            env = EACH[name](bare)
        env.reset()
        env.step(0)
        text = pickle.dumps(env)
        assert len(text) < len(pickle.dumps(bare)) + 2000
        with pickle.loads(text) as other:
            assert type(other) is type(env) and other.actions == [0] and other.state_hash == env.state_hash
            assert other.reset()[1] == env.reset()[1]


def _programs() -> list[str]:
    return ["programs-v0/gcd", "programs-v0/crc32"]


@pytest.fixture(scope="module", autouse=True)
def _no_default_runtime() -> Any:
    yield
    aiocg.gym.shutdown()  # where what was pickled came back


# --------------------------------------------------------------------------------------------------- action spaces


def test_terminal_action_is_the_last_and_ends_the_episode(scripted: Any) -> None:
    env: Any = ours.CommandlineWithTerminalAction(scripted)
    assert env.action_space.n == scripted.action_space.n + 1 and env.action_space.names[-1] == "end-of-episode"
    last = int(env.action_space.n) - 1
    assert env.step(INCREMENT)[2] is False
    observation, reward, terminated, truncated, info = env.multistep(["inc", last, "inc"])
    assert (observation, reward, terminated, truncated) == (7, -1.0, True, False) and info["terminal_action"]
    assert env.actions == [INCREMENT, INCREMENT] and not env.in_episode and env.fork().in_episode is False
    env.reset()
    assert env.in_episode
    observation, reward, terminated, *_ = env.step("# end-of-episode", reward_spaces=["value"])
    assert (observation, reward, terminated) == (5, [0.0], True)
    with pytest.raises(ResetNeeded):
        env.step("inc")
    env.reset()
    one, two = env.expand([["inc", last, "double"], [last]])
    assert (one.observation, one.actions, two.observation) == (6, ("inc", last, "double"), 5)
    assert env.action_space.from_string(env.action_space.to_string([1, last])) == [1, last]
    terminated, info = env.multistep(["refuse", last])[2::2]
    assert terminated and "terminal_action" not in info and info["error_type"] == "ActionFailed"


def test_terminal_action_may_be_ones_own_and_follows_the_action_space(scripted: Env) -> None:
    stop = CommandlineFlag("stop", "--stop", "Stop here")
    env: Any = ours.CommandlineWithTerminalAction(scripted, terminal=stop)
    env.reset(action_space="Recipes")
    assert env.action_space.names == ("successor", "odd", "fourth", "stop")
    assert env.step("odd")[0] == 11 and env.step(3)[2]
    with pytest.raises(TypeError, match="discrete"):
        env.reset(action_space="Places")
        env.step((0, 0))
    scripted.reset(action_space="scripted")
    with pytest.raises(ValueError, match="'double' already"):
        ours.CommandlineWithTerminalAction(scripted, terminal=CommandlineFlag("double", "-d", ""))


def test_constrained_space_has_the_actions_given_in_their_order(scripted: Env) -> None:
    env: Any = ours.ConstrainedCommandline(scripted, flags=(flag for flag in ["double", "inc"]), name="two")
    assert env.action_space.names == ("double", "increment") and env.action_space.name == "two"
    assert env.action(0) == DOUBLE and env.action([0, 1]) == [DOUBLE, INCREMENT]
    assert env.step(0)[0] == 10 and env.multistep([1, "inc", "double"])[0] == 24
    assert env.actions == [0, 1, 1, 0] and scripted.actions == [2, 1, 1, 2]
    scripted.step("square")
    assert env.actions[-1] == "square"  # a text, as it is no action of the space
    for bad in ("square", 2):
        with pytest.raises((UnknownName, InvalidAction)):
            env.step(bad)
    assert env.expand([0, [1, 0]])[1].actions == (1, 0)
    inner = ours.ConstrainedCommandline(env, [1])
    assert inner.step("inc")[0] == 577 and inner.actions == ["double", 0, 0, "double", "square", 0]
    with pytest.raises(TypeError, match="no flags"):
        ours.ConstrainedCommandline(scripted, [])
    with pytest.raises(TypeError, match="not as a text"):
        ours.ConstrainedCommandline(scripted, "double")
    with pytest.raises(UnknownName, match="did you mean"):
        ours.ConstrainedCommandline(scripted, ["dubble"])


def test_constrained_space_is_looked_up_in_another_space_too(scripted: Env) -> None:
    scripted.action_space = ["square", "increment", "double"]
    env: Any = ours.CommandlineWithTerminalAction(ours.ConstrainedCommandline(scripted, ["double", "increment"]))
    assert env.step(0)[0] == 10
    env.action_space = "scripted"
    assert env.step(0)[0] == 20 and env.action_space.names == ("double", "increment", "end-of-episode")
    with pytest.raises(UnknownName):
        env.reset(action_space="Recipes")
        env.step(0)


def test_autophases_actions(llvm: aiocg.gym.LlvmEnv) -> None:
    env: Any = ours.AutophaseActionSpace(llvm)
    assert env.action_space.n == len(AUTOPHASE_FLAGS) == 42 and env.action_space.names == AUTOPHASE_FLAGS
    env.reset()
    assert env.step("-mem2reg")[1] > 0
    for action in range(42):
        assert not env.step(action)[2]
    assert env.actions[0] == AUTOPHASE_FLAGS.index("-mem2reg")
    with env.fork() as child:
        assert child.action_space == env.action_space and len(child.actions) == 43


# -------------------------------------------------------------------------------------------------- episode length


def test_time_limit_counts_actions(scripted: Env) -> None:
    env: Any = ours.TimeLimit(scripted, max_episode_steps=3)
    env.reset()
    assert env.multistep(["inc", "inc"])[2:4] == (False, False)
    with env.fork() as child:
        observation, _, terminated, truncated, info = child.multistep(["inc", "inc", "inc"])
        assert (observation, terminated, truncated, info["TimeLimit.truncated"]) == (8, False, True, True)
        assert child.step("inc")[0] == 8 and child.step("inc")[3]  # none beyond the limit
    assert env.step([])[3] is False and env.in_episode
    terminated, truncated, info = env.step("refuse")[2:]
    assert terminated and truncated and info["TimeLimit.truncated"] is False
    assert env.reset() and env.step("inc")[3] is False
    for bad in (0, None, 1.5):
        with pytest.raises(ValueError, match="max_episode_steps"):
            ours.TimeLimit(scripted, bad)  # type: ignore[arg-type]


def test_time_limit_of_the_spec(llvm: aiocg.gym.LlvmEnv) -> None:
    with gymnasium.make("llvm-v0", max_episode_steps=2, runtime=llvm.runtime, benchmark="programs-v0/gcd") as bare:
        assert isinstance(bare, theirs.TimeLimit)
        env: Any = ours.TimeLimit(bare)
        env.reset()
        assert env.multistep([0, 0, 0])[3] and env.actions == [0, 0]


# ------------------------------------------------------------------------------------------------------- benchmarks


def test_benchmarks_one_after_the_other(scripted: Env) -> None:
    env: Any = ours.IterateOverBenchmarks(scripted, (f"scripted-v0/{n}" for n in range(1, 5)))
    assert env.reset(reward_space=None)[0] == 1 and env.reward_space is None
    with env.fork() as child, copy.deepcopy(env) as other:
        assert [child.reset()[0] for _ in range(3)] == [2, 3, 4]
        assert env.reset()[0] == 2 and other.reset()[0] == 2
        with pytest.raises(StopIteration):
            child.reset()
    assert env.reset()[0] == 3
    with pytest.raises(TypeError, match="passed to reset"):
        env.reset(benchmark="scripted-v0/1")
    with pytest.raises(TypeError, match="passed to reset"):
        env.reset(options={"benchmark": "scripted-v0/1"})
    assert env.reset(options={"benchmark": None})[0] == 4
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(env)  # a generator cannot be


def test_benchmarks_shared_with_forks(scripted: Env) -> None:
    env: Any = ours.IterateOverBenchmarks(scripted, ["scripted-v0/1", "scripted-v0/2"], fork_shares_iterator=True)
    with env.fork() as child:
        assert env.reset()[0] == 1 and child.reset()[0] == 2
        with pytest.raises(StopIteration):
            env.reset()


def test_benchmarks_over_and_over(scripted: Env) -> None:
    two: list[Any] = ["scripted-v0/1", scripted_benchmark(2)]
    for benchmarks in (two, iter(two), (each for each in two)):
        env: Any = ours.CycleOverBenchmarks(scripted, benchmarks)
        assert [env.reset()[0] for _ in range(3)] == [1, 2, 1]
        with env.fork() as child:
            assert child.reset()[0] == 2
        assert env.reset()[0] == 2
    made = itertools.count(1)
    env = ours.CycleOverBenchmarksIterator(scripted, lambda: (f"scripted-v0/{n}" for n in range(next(made), 3)))
    assert [env.reset()[0] for _ in range(3)] == [1, 2, 2]
    with pytest.raises(StopIteration):
        env.reset()
    with pytest.raises(StopIteration):
        ours.CycleOverBenchmarks(scripted, []).reset()
    for choose in (ours.CycleOverBenchmarks, ours.IterateOverBenchmarks, ours.RandomOrderBenchmarks):
        with pytest.raises(TypeError, match="given as a list or a dataset"):
            choose(scripted, "scripted-v0/1")


def test_dataset_is_not_listed_to_iterate_over_it(scripted: Env) -> None:
    env: Any = ours.CycleOverBenchmarks(scripted, scripted.datasets["scripted-v0"])  # which has no end
    assert [env.reset()[0] for _ in range(3)] == [0, 1, 2]
    env = ours.IterateOverBenchmarks(scripted, scripted.datasets["scripted-v0"][10:12])
    assert [env.reset()[0] for _ in range(2)] == [10, 11]


def test_random_benchmarks_are_seeded_and_forks_draw_the_same(scripted: Env) -> None:
    benchmarks = (f"scripted-v0/{n}" for n in range(1000))
    env: Any = ours.RandomOrderBenchmarks(scripted, benchmarks, rng=np.random.default_rng(1))
    first = [env.reset()[0] for _ in range(3)]
    with env.fork() as child:
        assert type(child) is ours.RandomOrderBenchmarks
        later = [child.reset()[0] for _ in range(3)]
        assert [env.reset()[0] for _ in range(3)] == later and len({*first, *later}) > 3
    drawn = [env.reset(seed=7)[0], env.reset()[0]]
    assert drawn == [env.reset(seed=7)[0], env.reset()[0]]
    assert [ours.RandomOrderBenchmarks(scripted, ["scripted-v0/1"]).reset()[0] for _ in range(2)] == [1, 1]
    with pytest.raises(ValueError, match="no benchmarks"):
        ours.RandomOrderBenchmarks(scripted, [])


def test_copies_of_an_iterator_go_on_in_threads_of_their_own() -> None:
    first = ours.ForkableIterator(lambda: (n for n in range(20_000)))
    copies = [first, *(copy.copy(first) for _ in range(3))]
    found: list[list[int]] = [[] for _ in copies]
    threads = [
        threading.Thread(target=lambda one=one, into=into: into.extend(one))
        for one, into in zip(copies, found, strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [list(range(20_000))] * 4


# ------------------------------------------------------------------------------------------------- going back, going on


def test_undo_goes_back_step_by_step_in_forks_too(scripted: Env) -> None:
    env: Any = ours.ForkOnStep(ours.ClampedReward(scripted, -1, 1, 0))
    env.reset(benchmark="scripted-v0/3", options={"observation_space": "value"})
    env.step("double")
    env.multistep(["inc", "inc"])
    assert len(env.stack) == 2 and env.episode_reward == -2.0
    child = env.fork()
    assert child.undo() is child and child.actions == [DOUBLE] and child.episode_reward == -1.0
    child.step("refuse")
    assert not child.in_episode
    assert child.undo().in_episode and child.step("inc")[0] == 7
    assert env.observation["value"] == 8 and env.undo().undo().observation["value"] == 3
    assert env.undo().actions == [] and env.stack == []
    child.undo().undo()
    assert child.observation["value"] == 3 and child.episode_reward == 0.0
    child.close()
    env.step("inc")
    with pytest.raises(InvalidAction):
        env.step(99)
    assert len(env.stack) == 1
    env.reset()
    assert env.stack == [] and env.undo().in_episode


def test_undo_survives_the_death_of_the_worker(scripted: Env) -> None:
    env: Any = ours.ForkOnStep(scripted)
    env.reset()
    env.step("inc")
    assert env.step("crash")[2]
    assert env.undo().step("double")[0] == 12


def test_errors_are_undone_and_the_episode_goes_on(scripted: Env) -> None:
    env: Any = ours.JustKeepGoing(ours.TimeLimit(scripted, 10), max_errors=3)
    env.reset()
    env.step("inc")
    for actions in ("refuse", ["double", "crash"]):
        observation, reward, terminated, truncated, info = env.step(actions)
        assert (observation, reward, terminated, truncated) == (6, 0.0, False, False)
        assert info["error_type"] in ("ActionFailed", "WorkerCrashed") and info["error_details"]
        assert info["action_had_no_effect"]
    assert env.episode_reward == -1.0 and env.actions == [INCREMENT] and env.errors == 2
    with env.fork() as child:
        assert child.step("hang", reward_spaces=["value"], timeout=0.3)[:3] == (6, [0.0], False)
        assert child.step("refuse")[2] and child.errors == 3
    assert env.step("inc")[0] == 7
    with pytest.raises(InvalidAction):
        env.step(99)
    env.reset()
    assert env.errors == 0 and not env.step("refuse")[2]


def test_what_cannot_be_undone_ends_the_episode(scripted: Env) -> None:
    env: Any = ours.JustKeepGoing(scripted)
    env.reset()
    env.step("forget")  # another number in every process, so that no other can come back to it
    terminated, info = env.step("crash")[2::2]
    assert terminated and info["error_type"] == "WorkerCrashed" and not env.in_episode
    assert env.reset()[0] == 5 and env.step("inc")[0] == 6


def test_errors_of_observations_are_survived(scripted: Env) -> None:
    env: Any = ours.JustKeepGoing(scripted)
    assert env.step("inc", observation_spaces="value")[0] == 6
    observation, _, terminated, _, info = env.step("inc", observation_spaces=["value", "impossible"])
    assert terminated and info["error_type"] == "ObservationFailed" and observation is not None


# ----------------------------------------------------------------------------------------------------- validation


def _errors_above_ten(limit: int = 10) -> Any:
    async def callback(env: Any) -> list[Any]:
        from aiocg.validation import ErrorKind, ValidationError

        value = await env.observe("value")
        return [ValidationError(kind=ErrorKind.WRONG_OUTPUT, data={"value": value})] if value > limit else []

    return callback


def test_what_fails_validation_ends_the_episode_with_a_penalty(scripted: Env) -> None:
    benchmark = scripted_benchmark(5)
    benchmark.add_validation_callback(_errors_above_ten())
    env: Any = ours.ValidateBenchmarkAfterEveryStep(ours.Counter(scripted), reward_penalty=-7.0, flakiness=1)
    env.reset(benchmark=benchmark)
    assert env.step("inc")[1:3] == (-1.0, False) and env.step("inc", reward_spaces=["value"])[1] == [-1.0]
    with env.fork() as child:
        observation, reward, terminated, _, info = child.step("double", reward_spaces=["value", "value"])
        assert (observation, reward, terminated) == (14, [-7.0, -7.0], True)
        assert info["error_type"] and info["error_details"] and len(info["validation_errors"]) == 1
        assert child.episode_reward == -9.0 and not child.in_episode
    assert env.multistep(["double", "nothing"], timeout=30)[1:3] == (-7.0, True)
    assert env.counters["multistep"] == 3
    env.reset()
    assert env.episode_reward == 0.0 and env.step("nothing")[2] is False
    going = ours.JustKeepGoing(env)
    going.reset()
    assert going.step(["double", "inc"])[:3] == (5, 0.0, False) and going.step("inc")[:3] == (6, -1.0, False)
    with pytest.raises(TypeError, match="nonsense"):
        ours.ValidateBenchmarkAfterEveryStep(scripted, nonsense=1)


@pytest.mark.slow
def test_program_is_validated(llvm: aiocg.gym.LlvmEnv) -> None:
    env: Any = ours.ValidateBenchmarkAfterEveryStep(llvm, sanitizers=())
    env.reset()
    assert env.step("mem2reg")[1:3] == (pytest.approx(0.8, abs=0.1), False)


# -------------------------------------------------------------------------------------------- rewards, observations


def test_counter_counts_every_kind_of_call(scripted: Env) -> None:
    env: Any = ours.Counter(scripted)
    env.reset()
    env.step("inc")
    env.step(["inc", "inc"])
    env.multistep(["inc"])
    with env.fork() as child:
        assert set(child.counters.values()) == {0}
    with copy.deepcopy(theirs.TimeLimit(env, 3)):
        pass
    assert env.counters == {"close": 0, "reset": 1, "step": 2, "multistep": 1, "fork": 2}
    env.close()
    assert env.counters["close"] == 1 and child.counters["close"] == 1


def test_clamped_reward(scripted: Env) -> None:
    env: Any = ours.ClampedReward(scripted, min=-2, max=1, leakiness_factor=0.1)
    assert env.step("inc")[1] == -1.0 and env.step("double")[1] == pytest.approx(-2.4)
    assert env.episode_reward == pytest.approx(-3.4) and env.reward_range == (-np.inf, np.inf)
    assert ours.ClampedReward(scripted, leakiness_factor=0).reward_range == (-1, 1)
    assert env.convert_reward(2.0) == pytest.approx(1.1)
    for bad in ({"min": 2}, {"leakiness_factor": -1}):
        with pytest.raises(ValueError, match="leakiness_factor"):
            ours.ClampedReward(scripted, **bad)


def test_normalised_autophase(llvm: aiocg.gym.LlvmEnv) -> None:
    env: Any = ours.AutophaseNormalizedFeatures(llvm)
    observation, _ = env.reset()
    raw = env.observation["Autophase"]
    assert observation in env.observation_space and observation.dtype == np.float32
    assert np.allclose(observation, np.minimum(raw / raw[51], 1)) and observation[51] == 1
    assert env.step("mem2reg")[0] in env.observation_space
    assert env.step([], observation_spaces="Autophase")[0].dtype == np.int64
    assert env.expand([["gvn"]])[0].observation.max() == 1
    env.reset(observation_space="InstCount")
    assert env.observation_space.shape == (len(env.observation["InstCount"]),)
    assert env.step("mem2reg")[0] in env.observation_space
    assert not ours._transformation.normalised(np.zeros((2, 56), np.int64)).any()


def test_histogram_of_actions(scripted: Any) -> None:
    scripted.observation_space = "vector"
    env: Any = ours.ConcatActionsHistogram(scripted)
    count = int(scripted.action_space.n)
    assert env.observation_space.shape == (8 + count,) and env.observation_space.dtype == np.int64
    observation, _ = env.reset()
    assert observation in env.observation_space and not observation[8:].any()
    env.multistep(["inc", "double", "inc"])
    snapshot = env.snapshot()
    with env.fork() as child:
        histogram = child.step("inc")[0][8:]
        assert histogram[INCREMENT] == 3 and histogram[DOUBLE] == 1 and histogram.sum() == 4
    env.step("inc")
    env.restore(snapshot)
    assert env.step([])[0][8:].sum() == 3
    assert env.step([], observation_spaces="vector")[0].shape == (8,)
    env.reset(action_space="Recipes")
    assert env.observation_space.shape == (11,) and env.step("odd")[0].tolist()[8:] == [0, 1, 0]
    with pytest.raises(TypeError, match="Box of one dimension"):
        env.reset(observation_space="digits")


def test_normalised_histogram_sums_to_one_at_the_end(scripted: Env) -> None:
    scripted.observation_space = "vector"
    two = ours.ConstrainedCommandline(scripted, ["inc", "double"])
    env: Any = ours.ConcatActionsHistogram(two, norm_to_episode_len=4)
    assert env.observation_space.dtype == np.float32 and env.observation_space.high[8:].tolist() == [1, 1]
    env.reset()
    observation = env.multistep([0, 1, 0, 0])[0]
    assert observation in env.observation_space and observation[8:].tolist() == [0.75, 0.25]
    for bad in ({"observation_space": "digits"}, {"action_space": "Places", "observation_space": "vector"}):
        scripted.reset(options=bad)
        with pytest.raises(TypeError):
            ours.ConcatActionsHistogram(scripted)


@pytest.mark.slow
def test_runtime_reward(llvm: aiocg.gym.LlvmEnv) -> None:
    env: Any = ours.RuntimePointEstimateReward(llvm, runtime_count=2, warmup_count=1, estimator=min)
    assert env.reward_space == "runtime" and env.runtime_observation_count == 2 and env.runtime_warmup_runs_count == 1
    env.reset()
    reward = env.step("mem2reg")[1]
    assert isinstance(reward, float) and abs(reward) < 1
    with env.fork() as child:
        assert child.reward_space == "runtime" and child.runtime_observation_count == 2
        assert child.reward_space_spec.estimator is min and isinstance(child.step("gvn")[1], float)
    assert ours.RuntimePointEstimateReward(llvm).reward_space_spec.estimator is statistics.median
