"""loop_tool's environment with CompilerGym's interface: the original's own tests, and what its users' scripts do."""

from collections.abc import Iterator
from typing import Any

import pytest

from aiocg.compat import compiler_gym, gym
from aiocg.compat.compiler_gym.envs import LoopToolEnv, loop_tool
from aiocg.compat.compiler_gym.errors import EnvironmentNotSupported
from aiocg.errors import EnvironmentNotSupported as NativeNotSupported
from aiocg.gym import CompilerEnv

TOGGLE_MODE, UP, DOWN, TOGGLE_THREAD, SPLIT = range(5)
CPU = "benchmark://loop_tool-cpu-v0/1024"


@pytest.fixture
def env() -> Iterator[Any]:
    with compiler_gym.make("loop_tool-v0") as made:
        yield made


def test_an_environment_is_made_by_gym_too_and_has_the_originals_spaces() -> None:
    with gym.make("loop_tool-v0") as env:
        assert isinstance(env, LoopToolEnv) and env.spec.id == "loop_tool-v0"
        assert env.benchmark == "benchmark://loop_tool-cpu-v0/1"
        assert (env.observation_space_spec.id, env.reward_space) == ("action_state", "flops")
        assert [space.name for space in env.action_spaces] == ["simple", "split"]
        assert env.action_space.names == ["toggle_mode", "up", "down", "toggle_thread"]
        assert list(env.observation.spaces) == ["flops", "loop_tree", "action_state"]
        assert [dataset.name for dataset in env.datasets] == [
            "benchmark://loop_tool-cpu-v0",
            "benchmark://loop_tool-cuda-v0",
        ]
    assert isinstance(env.reward.spaces["flops"], loop_tool.FLOPSReward)


@pytest.mark.slow
def test_induced_remainder(env: Any) -> None:
    env.observation_space = "loop_tree"
    env.reset(benchmark=env.datasets.benchmark(uri=CPU), action_space="simple")
    for action in (TOGGLE_MODE, UP, TOGGLE_MODE, UP):
        env.step(action)
    observation, reward, done, _ = env.step(UP)
    assert observation.splitlines()[:4] == [
        "for a in 341 r 1 : L0 cpu_parallel [thread]",
        " for a' in 3 : L1",
        "  for a'' in 1 : L2",
        "   %0[a] <- read()",
    ]
    assert isinstance(reward, float) and not done
    assert env.commandline() == "0,1,0,1,1"


@pytest.mark.slow
def test_thread_removal_and_addition(env: Any) -> None:
    env.observation_space = "loop_tree"
    env.reset(benchmark=CPU)
    assert env.step(TOGGLE_THREAD)[0].startswith("for a in 1024 : L0\n for a' in 1 : L1\n")
    env.reset()
    env.multistep([TOGGLE_MODE, UP])
    assert env.step(TOGGLE_THREAD)[0].startswith(
        "for a in 1024 : L0 cpu_parallel [thread]\n for a' in 1 : L1 cpu_parallel [thread]\n"
    )


@pytest.mark.slow
def test_speed_is_measured_and_its_increase_is_the_reward(env: Any) -> None:
    env.reset(benchmark=CPU)
    total, flops = env.observation["flops"], 0.0
    env.reset(benchmark=CPU)
    total = env.reward.spaces["flops"].previous_value
    for action in (TOGGLE_MODE, UP, TOGGLE_MODE, *[UP] * 5):
        (flops,), (reward,), _, _ = env.step(action, observation_spaces=["flops"], reward_spaces=["flops"])
        assert flops > 0
        total += reward
    assert total == pytest.approx(flops)


def test_split_works_and_the_state_has_three_numbers(env: Any) -> None:
    assert list(env.reset(benchmark=CPU, action_space="split")) == [0, 1024, 0]
    state, _, _, _ = env.step(SPLIT)
    assert list(state) == [0, 512, 0] and env.observation_space.contains(state)
    with env.fork() as other:
        assert list(other.step(SPLIT)[0]) == [0, 256, 0]
    assert list(env.observation["action_state"]) == [0, 512, 0]


@pytest.mark.parametrize("action", [4, -1, "up", None])
def test_what_is_no_action_is_refused(env: Any, action: object) -> None:
    env.reset(benchmark=CPU, action_space="simple")
    with pytest.raises(ValueError):
        env.step(action)
    env.step(UP)


def test_without_a_gpu_a_reset_says_what_is_missing(env: Any) -> None:
    cuda = "benchmark://loop_tool-cuda-v0/1024"
    with CompilerEnv("loop_tool-v0", benchmark=cuda) as native:
        try:
            native.reset()
        except NativeNotSupported:
            pass
        else:
            pytest.skip("there is a GPU")
    with pytest.raises(EnvironmentNotSupported, match="CUDA"):
        env.reset(benchmark=cuda)
    assert list(env.reset(benchmark=CPU)) == [0, 1024, 0]
