"""Gymnasium knows the environments, and finds nothing wrong with them."""

import subprocess
import sys
import warnings
from collections.abc import Callable

import gymnasium
import pytest
from gymnasium.utils.env_checker import check_env

import aiocg.gym
import aiocg.testing
from aiocg.registry import EnvironmentSpec, environments, register

LLVM = [name for name in environments() if name.startswith("llvm-")]


@pytest.fixture(autouse=True, scope="module")
def ended() -> object:
    """End the default runtime after the tests of the module."""
    yield
    aiocg.gym.shutdown()


@pytest.mark.parametrize("name", LLVM)
def test_gymnasiums_checker_finds_nothing_wrong(name: str) -> None:
    env = gymnasium.make(name, benchmark="programs-v0/gcd")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*maximum value is infinity")  # an interval's weight may be infinite
        check_env(env.unwrapped)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "benchmark", "observation"),
    [("loops-v0", "loops-v0/sum?m=6&n=5", "action_mask"), ("loop_tool-v0", "loop_tool-cpu-v0/64", "action_state")],
)
def test_gymnasiums_checker_knows_that_a_reward_is_measured(name: str, benchmark: str, observation: str) -> None:
    env = gymnasium.make(name, benchmark=benchmark, observation_space=observation)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(env.unwrapped)


def test_made_environment_is_bare_and_has_its_spec() -> None:
    with gymnasium.make("llvm-ic-v0", benchmark="programs-v0/gcd") as env:
        assert type(env) is aiocg.gym.LlvmEnv
        assert env.spec is not None and env.spec.id == "llvm-ic-v0"
        assert env.reward_space == "IrInstructionCountOz"
        with gymnasium.make(env.spec) as other:
            assert isinstance(other, aiocg.gym.LlvmEnv)
            assert str(other.benchmark.uri) == "benchmark://programs-v0/gcd"
        assert "llvm-ic-v0" in env.spec.to_json()


def test_limit_of_steps_is_gymnasiums() -> None:
    with gymnasium.make("llvm-ic-v0", benchmark="programs-v0/gcd", max_episode_steps=2) as env:
        env.reset()
        assert not env.step(0)[3]
        assert env.step(0)[3]


def test_environments_of_the_users_are_registered_on_request() -> None:
    register(
        EnvironmentSpec(
            id="counting-v0",
            worker="scripted",
            description="for this test",
            benchmark=aiocg.testing.scripted_benchmark(3),
            observation_space="value",
        )
    )
    assert "counting-v0" not in gymnasium.registry
    aiocg.gym.register_all()
    with gymnasium.make("counting-v0") as env:
        assert env.reset()[0] == 3


def test_unknown_environment_is_told_by_name(default: Callable[[], aiocg.gym.SyncRuntime]) -> None:
    with pytest.raises(gymnasium.error.NameNotFound):
        gymnasium.make("llvm-autophse-ic-v0")
    with pytest.raises(aiocg.errors.UnknownName, match="did you mean llvm-v0"):
        default().make("lvm-v0")


@pytest.mark.slow
def test_module_in_the_id_is_enough() -> None:
    script = (
        "import gymnasium; env = gymnasium.make('aiocg.gym:llvm-v0', benchmark='programs-v0/gcd')\n"
        "print(env.reset()[1]['benchmark'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "benchmark://programs-v0/gcd"
    assert done.stderr == ""


def test_importing_the_facade_starts_nothing() -> None:
    script = "import threading, aiocg.gym; print(threading.active_count())"
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"
