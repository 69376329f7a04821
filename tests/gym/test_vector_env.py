"""The vector for blocking code: Gymnasium's interface to it, its wrappers on it, and what is special to compilers."""

import copy
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import vector as wrappers

import aiocg
import aiocg.gym
from aiocg.errors import EnvClosed, InvalidAction, RuntimeClosed, UnknownName
from aiocg.gym.vector import CompilerVectorEnv, EnvsBusy, NothingPending

INCREMENT, DOUBLE, HANG, CRASH = 1, 2, 5, 7


@pytest.fixture
def vector(runtime: aiocg.gym.SyncRuntime) -> Iterator[CompilerVectorEnv]:
    """Four scripted environments that stand at 5, 6, 7 and 8."""
    benchmarks = [f"scripted-v0/{start}" for start in (5, 6, 7, 8)]
    vector = runtime.make_vec("scripted-v0", 4, benchmarks=benchmarks, reward_space="value", render_mode="ansi")
    vector.reset()
    yield vector
    vector.close()


# ------------------------------------------------------------------------------------------------ make_vec


def test_make_vec_gives_our_vector(runtime: aiocg.gym.SyncRuntime) -> None:
    envs = gymnasium.make_vec(
        "llvm-autophase-ic-v0", num_envs=3, benchmark="programs-v0/gcd", max_episode_steps=2, runtime=runtime
    )
    assert type(envs) is CompilerVectorEnv
    assert envs.num_envs == 3
    assert envs.spec is not None and envs.spec.id == "llvm-autophase-ic-v0"
    assert envs.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP
    assert envs.single_observation_space.shape == (56,)
    assert envs.observation_space.shape == (3, 56)
    assert envs.action_space == gymnasium.spaces.MultiDiscrete([len(envs.single_action_space.names)] * 3)
    observations, infos = envs.reset(seed=1)
    assert observations in envs.observation_space
    assert envs.np_random_seed == 1
    assert infos["benchmark"].tolist() == ["benchmark://programs-v0/gcd"] * 3
    observations, rewards, terminations, truncations, infos = envs.step(["mem2reg", ["sroa", "gvn"], 0])
    assert observations.dtype == np.int64
    assert rewards.dtype == np.float64 and rewards[0] > 0 and rewards[1] >= rewards[0]
    assert infos["state"].dtype == np.uint64
    assert not (terminations | truncations).any()
    *_, truncations, _ = envs.step(envs.action_space.sample())
    assert truncations.all()
    envs.close()


def test_make_vec_of_another_mode_gives_gymnasiums(runtime: aiocg.gym.SyncRuntime) -> None:
    envs = gymnasium.make_vec("llvm-ic-v0", num_envs=2, vectorization_mode="sync", runtime=runtime)
    assert type(envs) is gymnasium.vector.SyncVectorEnv
    envs.close()


def test_arguments_are_those_of_single_environments(runtime: aiocg.gym.SyncRuntime) -> None:
    class Zeros(aiocg.Reward):
        observation_spaces = ("value",)

        def reward(self, before: Any, after: Any, baseline: Any) -> float:
            return str(after["value"]).count("0")

    twice = aiocg.gym.CompilerEnv("scripted-v0", runtime=runtime)
    base = twice.observation_spaces["value"]
    twice.close()
    doubled = aiocg.spaces.ObservationSpace(
        "doubled", base.space, True, False, 0, "", sources=("value",), translate=lambda value: 2 * value
    )
    with_names = runtime.make_vec(
        "scripted-v0",
        2,
        benchmark="scripted-v0/5",
        action_space=["double", "increment"],
        extra_actions=["square"],
        reward_space=Zeros("zeros"),
        derived_observation_spaces=[doubled],
        observation_space="doubled",
        timeout=3,
    )
    assert with_names.single_action_space.names == ("double", "increment", "square")
    with_names.reset()
    observations, rewards, *_ = with_names.step(["double", 1])
    assert observations.tolist() == [20, 12]
    assert rewards.tolist() == [1.0, 0.0]
    assert with_names.get_attr("timeout") == (3.0, 3.0)
    with pytest.raises(UnknownName):
        runtime.make_vec("scripted-v0", 2, observation_space="nonesuch")
    with pytest.raises(UnknownName):
        runtime.make_vec("scripted-v0", 2, render_mode="rgb_array")
    with pytest.raises(ValueError, match="either benchmark"):
        runtime.make_vec("scripted-v0", 2, benchmark="scripted-v0/5", benchmarks="scripted-v0")


# --------------------------------------------------------------------------------------------- observations


def test_without_copies_the_same_array_is_overwritten(runtime: aiocg.gym.SyncRuntime) -> None:
    made = {"benchmark": "scripted-v0/5", "observation_space": "vector"}
    same, fresh = runtime.make_vec("scripted-v0", 2, copy=False, **made), runtime.make_vec("scripted-v0", 2, **made)
    first, _ = same.reset()
    second, *_ = same.step([INCREMENT, DOUBLE])
    assert second is first
    assert first[:, 0].tolist() == [6, 10]
    first, _ = fresh.reset()
    second, *_ = fresh.step([INCREMENT, DOUBLE])
    assert first[:, 0].tolist() == [5, 5]
    assert second[:, 0].tolist() == [6, 10]
    assert second.flags.writeable and second.flags.owndata


def test_single_numbers_are_arrays_in_gymnasiums_vectors_too(runtime: aiocg.gym.SyncRuntime) -> None:
    made = {"benchmark": "programs-v0/gcd", "observation_space": "IrInstructionCount", "runtime": runtime}
    ours = gymnasium.make_vec("llvm-v0", num_envs=2, **made)
    theirs = gymnasium.make_vec("llvm-v0", num_envs=2, vectorization_mode="sync", **made)
    assert ours.observation_space == theirs.observation_space
    for vector in (ours, theirs):
        observations, _ = vector.reset()
        assert observations.dtype == np.int64 and observations.shape == (2,)
        assert observations in vector.observation_space
        assert vector.observation_space.sample().shape == (2,)
        vector.close()
    same = runtime.make_vec("scripted-v0", 2, copy=False)
    first, _ = same.reset()
    assert same.step([INCREMENT, DOUBLE])[0] is first


def test_graphs_and_text_are_tuples(runtime: aiocg.gym.SyncRuntime) -> None:
    text = runtime.make_vec("llvm-v0", 2, benchmark="programs-v0/gcd", observation_space="Ir")
    observations, _ = text.reset()
    assert isinstance(observations, tuple) and all("define" in one for one in observations)
    graphs = runtime.make_vec("llvm-v0", 2, benchmark="programs-v0/gcd", observation_space="Programl")
    observations, _ = graphs.reset()
    assert [type(one).__name__ for one in observations] == ["MultiDiGraph"] * 2
    nothing = runtime.make_vec("llvm-v0", 2, benchmark="programs-v0/gcd")
    assert nothing.reset()[0] == (None, None)
    assert (None, None) in nothing.observation_space


def test_actions_that_depend_on_the_program_are_sampled_from_what_there_is(runtime: aiocg.gym.SyncRuntime) -> None:
    envs = runtime.make_vec(
        "llvm-ic-v0", 2, benchmarks=["programs-v0/gcd", "programs-v0/qsort"], action_space="FunctionPasses"
    )
    envs.reset()
    highest = envs.action_space.high[:, 0] + 1
    assert highest.tolist() == [len(env.action_space.targets) for env in envs.asynchronous.envs]
    assert highest[0] != highest[1]
    envs.action_space.seed(1)
    samples = [envs.action_space.sample() for _ in range(3)]
    assert not np.array_equal(samples[0], samples[1])
    for sample in samples:
        *_, terminations, _, _ = envs.step(sample)
        assert not terminations.any()
    vectors = runtime.make_vec("llvm-ic-v0", 2, benchmark="programs-v0/gcd", action_space="ParametrizedPasses")
    vectors.reset()
    vectors.step(vectors.action_space.sample())


# ------------------------------------------------------------------------------------------------- receiving


def test_send_and_recv_go_round(vector: CompilerVectorEnv) -> None:
    vector.async_reset()
    steps = np.zeros(4, int)
    while steps.min() < 5:
        observations, rewards, terminations, _, infos = vector.recv(min_ready=2)
        ids = infos["env_id"]
        assert len(observations) == len(rewards) == len(terminations) == len(ids) >= 2
        assert [5 + i + steps[i] for i in ids] == list(observations)
        steps[ids] += 1
        vector.send(np.full(len(ids), INCREMENT), ids)
    assert vector.pending == 4
    with pytest.raises(EnvsBusy):
        vector.step([INCREMENT] * 4)
    vector.recv(min_ready=4)
    with pytest.raises(NothingPending):
        vector.recv()
    vector.step([INCREMENT] * 4)


@pytest.mark.parametrize("observation", ["vector", "digits", None])
def test_when_nothing_is_ready_in_time_the_batch_is_empty(
    runtime: aiocg.gym.SyncRuntime, observation: str | None
) -> None:
    vector = runtime.make_vec("scripted-v0", 1, observation_space=observation, timeout=0.5)
    vector.reset()
    vector.send([HANG])
    observations, rewards, *_, infos = vector.recv(deadline=0)
    assert len(observations) == len(rewards) == len(infos["env_id"]) == 0
    if observation == "vector":
        assert observations.shape == (0, 8) and observations.dtype == np.int64
    *_, terminations, _, infos = vector.recv()
    assert terminations.tolist() == [True]
    vector.close()


def test_one_thread_can_send_while_another_receives(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = runtime.make_vec("scripted-v0", 2, benchmark="scripted-v0/5")
    slow = runtime.make_vec("scripted-v0", 1, benchmark="scripted-v0/5")  # there is one worker
    vector.reset()
    slow.reset()
    slow.send([HANG])
    vector.send([INCREMENT], [0])
    received: list[list[int]] = []
    receiver = threading.Thread(target=lambda: received.append(vector.recv(min_ready=1)[-1]["env_id"].tolist()))
    receiver.start()
    vector.send([INCREMENT], [1])  # the other thread waits meanwhile
    assert received == []
    slow.close()  # which ends what it does
    receiver.join(timeout=60)
    assert received == [[0, 1]]


# ------------------------------------------------------------------------------------------ what is underneath


def test_methods_and_attributes_of_all_environments(vector: CompilerVectorEnv) -> None:
    vector.step([INCREMENT, DOUBLE, INCREMENT, DOUBLE])
    assert vector.call("observe", "digits") == ("6", "12", "8", "16")
    assert vector.get_attr("episode_reward") == (-1.0, -6.0, -1.0, -8.0)
    assert vector.get_attr("action_texts") == (("increment",), ("double",), ("increment",), ("double",))
    vector.set_attr("timeout", 5)
    assert vector.get_attr("timeout") == (5.0,) * 4
    vector.set_attr("timeout", [1, 2, 3, 4])
    assert vector.get_attr("timeout") == (1.0, 2.0, 3.0, 4.0)
    vector.set_attr("reward_space", None)
    _, rewards, *_ = vector.step([INCREMENT] * 4)
    assert rewards.tolist() == [0.0] * 4
    with pytest.raises(ValueError, match="2 values for 4"):
        vector.set_attr("timeout", [1, 2])
    for name in ("step", "reset", "close", "_session", "nonesuch"):
        with pytest.raises(AttributeError, match=name):
            vector.call(name)
    for name in ("action_space", "observation_space", "_session", "nonesuch", "actions"):
        with pytest.raises(AttributeError):
            vector.set_attr(name, None)


def test_options_of_a_reset_stay(vector: CompilerVectorEnv) -> None:
    observations, infos = vector.reset(options={"benchmark": "scripted-v0/9"})
    assert observations.tolist() == [9] * 4
    vector.step([INCREMENT] * 4)
    observations, _ = vector.reset()
    assert observations.tolist() == [9] * 4
    mask = np.array([True, False, False, True])
    programs = [f"scripted-v0/{number}" for number in (1, 2, 3, 4)]
    observations, infos = vector.reset(options={"benchmarks": programs, "reset_mask": mask})
    assert observations.tolist() == [1, 9, 9, 4]
    assert infos["_benchmark"].tolist() == mask.tolist()
    vector.reset(options={"reward_space": None})
    assert vector.get_attr("reward_space") == (None,) * 4


def test_seeds_make_sampling_repeatable(vector: CompilerVectorEnv) -> None:
    def samples() -> list[int]:
        return [env.action_space.sample() for env in vector.asynchronous.envs]

    vector.reset(seed=3)
    first = samples()
    vector.reset(seed=[3, 4, 5, 6])
    assert samples() == first
    vector.reset(seed=np.int64(3))
    assert samples() == first
    vector.reset()
    assert samples() != first


def test_render_has_a_line_for_each(vector: CompilerVectorEnv, capsys: pytest.CaptureFixture[str]) -> None:
    vector.step([INCREMENT, CRASH, DOUBLE, DOUBLE])
    lines = vector.render()
    assert lines is not None and len(lines) == 4
    assert "increment" in lines[0] and "benchmark://scripted-v0/5" in lines[0]
    assert "SIGSEGV" in lines[1]
    shown = vector.runtime.make_vec("scripted-v0", 2, render_mode="human")
    shown.reset()
    shown.step([INCREMENT, DOUBLE])
    assert capsys.readouterr().out.count("scripted-v0") >= 4
    silent = vector.runtime.make_vec("scripted-v0", 2)
    with pytest.raises(ValueError, match="render_mode"):
        silent.render()


def test_a_fork_goes_its_own_way(vector: CompilerVectorEnv) -> None:
    vector.step([INCREMENT, CRASH, DOUBLE, DOUBLE])
    fork = copy.deepcopy(vector)
    observations, *_ = vector.step([INCREMENT] * 4)
    assert observations.tolist() == [7, 6, 15, 17]
    observations, _, terminations, _, _ = fork.step([DOUBLE] * 4)
    assert observations.tolist() == [12, 6, 28, 32]
    assert not terminations.any()
    assert fork.action_space == vector.action_space
    fork.close()
    vector.step([INCREMENT] * 4)
    with pytest.raises(TypeError, match="fork"):
        copy.copy(vector)
    with pytest.raises(TypeError, match="pickle the states"):
        pickle.dumps(vector)


def test_closing_is_final_and_idempotent(runtime: aiocg.gym.SyncRuntime) -> None:
    vector = runtime.make_vec("scripted-v0", 2)
    vector.reset()
    vector.close()
    vector.close()
    assert vector.closed
    calls = (vector.reset, vector.recv, vector.fork, vector.async_reset)
    for call in (*calls, lambda: vector.step([1, 1]), lambda: vector.call("observe", "value")):
        with pytest.raises(EnvClosed, match="vector was closed"):
            call()
    runtime.make_vec("scripted-v0", 2).reset()  # the runtime goes on


def test_a_vector_outlives_its_runtime_only_to_be_closed() -> None:
    with aiocg.gym.SyncRuntime(workers=1) as runtime:
        vector = runtime.make_vec("scripted-v0", 2)
        vector.reset()
    with pytest.raises(RuntimeClosed):
        vector.step([INCREMENT] * 2)
    vector.close()


def test_bad_actions_do_nothing(vector: CompilerVectorEnv) -> None:
    with pytest.raises(InvalidAction, match="3 actions for 4 environments"):
        vector.step([INCREMENT] * 3)
    with pytest.raises(UnknownName, match="increment"):
        vector.step(["increment", "incremnt", 0, 0])
    with pytest.raises(InvalidAction):
        vector.send([99], [0])
    assert vector.pending == 0
    assert vector.call("observe", "value") == (5, 6, 7, 8)


# ------------------------------------------------------------------------------------------ Gymnasium's wrappers


def test_episode_statistics_are_recorded(runtime: aiocg.gym.SyncRuntime) -> None:
    envs = wrappers.RecordEpisodeStatistics(
        runtime.make_vec("scripted-v0", 3, benchmark="scripted-v0/5", reward_space="value", max_episode_steps=4)
    )
    envs.reset()
    for _ in range(3):
        *_, infos = envs.step(np.array([INCREMENT] * 3))
        assert "episode" not in infos
    *_, infos = envs.step(np.array([INCREMENT] * 3))
    assert infos["episode"]["r"].tolist() == [-4.0] * 3
    assert infos["episode"]["l"].tolist() == [4] * 3


def test_observations_and_rewards_are_transformed(runtime: aiocg.gym.SyncRuntime) -> None:
    envs: Any = gymnasium.make_vec("llvm-autophase-ic-v0", num_envs=4, benchmark="programs-v0/gcd", runtime=runtime)
    envs = wrappers.NormalizeObservation(wrappers.DtypeObservation(envs, np.float32))
    envs = wrappers.TransformReward(envs, lambda rewards: 10 * rewards)
    envs = wrappers.ClipReward(envs, -1.0, 1.0)
    envs.reset(seed=0)
    rng = np.random.default_rng(0)
    for _ in range(10):
        observations, rewards, *_ = envs.step(rng.integers(0, len(envs.unwrapped.single_action_space.names), 4))
        assert observations.shape == (4, 56) and np.isfinite(observations).all()
        assert np.abs(rewards).max() <= 1.0
    listing = wrappers.DictInfoToList(envs)  # some releases of Gymnasium close the vector when this goes
    *_, infos = listing.step(np.zeros(4, int))
    assert [set(info) for info in infos] == [{"action_had_no_effect", "new_action_space", "state"}] * 4
    assert envs.unwrapped.get_attr("in_episode") == (True,) * 4
    envs.close()
    assert envs.unwrapped.closed
