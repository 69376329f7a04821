"""Compilers of one's own, written for CompilerGym: a script that is the service of an environment."""

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from aiocg.compat import gym
from aiocg.compat.compiler_gym.datasets import Benchmark, Dataset
from aiocg.compat.compiler_gym.errors import ServiceError, ServiceInitError, SessionNotFound
from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv
from aiocg.compat.compiler_gym.service.connection import ConnectionOpts
from aiocg.compat.compiler_gym.spaces import Box, NamedDiscrete, Reward, Scalar, Sequence
from aiocg.compat.compiler_gym.util.registration import COMPILER_GYM_ENVS, register

SCRIPT = Path(__file__).with_name("service_script.py")
URIS = ("benchmark://example-v0/foo", "benchmark://example-v0/bar")


class RuntimeReward(Reward):
    def __init__(self) -> None:
        super().__init__(name="runtime", observation_spaces=["runtime"], default_negates_returns=True)
        self.previous = 0.0

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        self.previous = observation_view["runtime"]

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        before, self.previous = self.previous, observations[0]
        return float(self.previous - before)


class ExampleDataset(Dataset):
    def __init__(self) -> None:
        super().__init__(name="benchmark://example-v0", description="two programs", license="MIT")

    def benchmark_uris(self) -> Iterator[str]:
        yield from URIS

    def benchmark_from_parsed_uri(self, uri: Any) -> Benchmark:
        if str(uri) not in URIS:
            raise LookupError("Unknown program name")
        return Benchmark.from_file_contents(uri, b"Hello, world!")


def make() -> ClientServiceCompilerEnv:
    return ClientServiceCompilerEnv(
        service=SCRIPT,
        rewards=[RuntimeReward()],
        datasets=[ExampleDataset()],
        connection_settings=ConnectionOpts(local_service_exit_max_seconds=5),
    )


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with make() as made:
        yield made


@pytest.fixture
def env(shared: Any) -> Any:
    """Return an environment as it was made, on a process that others have used."""
    shared._end_session()
    shared.observation_space = shared.reward_space = None
    shared.benchmark = URIS[0]
    shared._benchmark_in_use = shared._next_benchmark
    shared._actions = []
    return shared


def test_a_script_declares_its_spaces(env: Any) -> None:
    assert env.compiler_version == "1.0.0"
    assert env.action_spaces == [NamedDiscrete(name="default", items=["a", "b", "c", "die", "hang"])]
    spaces = env.observation.spaces
    assert list(spaces) == ["ir", "features", "runtime"]
    assert spaces["ir"].space == Sequence(name="ir", size_range=(0, np.iinfo(np.int64).max), dtype=str)
    assert spaces["features"].space == Box(name="features", low=0, high=100, shape=(3,), dtype=np.int64)
    assert spaces["runtime"].space == Scalar(name="runtime", min=0, max=np.inf, dtype=float)
    assert spaces["ir"].deterministic
    assert spaces["runtime"].platform_dependent
    assert list(env.reward.spaces) == ["runtime"]


def test_before_a_reset_there_is_no_session(env: Any) -> None:
    assert env.benchmark == URIS[0]
    for ask in (lambda: env.step(0), lambda: env.observation["ir"], lambda: env.reward["runtime"]):
        with pytest.raises(SessionNotFound, match=r"Must call reset\(\) before step\(\)"):
            ask()


def test_steps_observe_and_reward(env: Any) -> None:
    env.observation_space, env.reward_space = "features", "runtime"
    first = env.reset(benchmark=URIS[1])
    assert first.tolist() == [0, 0, 0]
    assert first.dtype == np.int64
    observation, reward, done, info = env.step(1)
    assert (observation.tolist(), reward, done) == ([0, 1, 0], 1.0, False)
    assert not info["action_had_no_effect"]
    observation, reward, done, _ = env.multistep([0, 0, 2])
    assert (observation.tolist(), reward, done) == ([2, 1, 1], 3.0, False)
    assert env.episode_reward == 4.0
    assert env.observation.ir() == "Hello, world!"
    assert env.multistep([0] * 6)[2], "the session says that the episode is done"


def test_what_is_no_action_is_refused_and_the_episode_goes_on(env: Any) -> None:
    env.reset()
    with pytest.raises(ValueError, match="Out-of-range"):
        env.step(100)
    assert env.actions == []
    assert not env.step(0)[2]


def test_unknown_names_are_refused(env: Any) -> None:
    with pytest.raises(LookupError, match="Unknown program name"):
        env.reset(benchmark="example-v0/foobar")
    with pytest.raises(LookupError):
        env.observation_space = 100
    with pytest.raises(LookupError):
        env.reward_space = 100


def test_parameters_are_answered_by_the_session(env: Any) -> None:
    env.reset()
    assert env.send_params(("shout", "a"), ("shout", "b")) == ["A", "B"]
    with pytest.raises(ValueError, match="Unknown parameter: whisper"):
        env.send_param("whisper", "a")


def test_a_session_that_cannot_fork_is_replayed(env: Any) -> None:
    env.reset()
    env.multistep([0, 1])
    with env.fork() as other:
        assert other.actions == [0, 1]
        assert other.benchmark == env.benchmark
        other.step(0)
        assert env.observation["features"].tolist() == [1, 1, 0]
        assert other.observation["features"].tolist() == [2, 1, 0]


def test_a_script_that_dies_ends_the_episode_and_comes_back_with_a_reset(env: Any) -> None:
    env.reset(observation_space="features", reward_space="runtime")
    env.step(0)
    observation, reward, done, info = env.step(3)
    assert done
    assert info["error_type"] == "ServiceError"
    assert "returncode 7" in info["error_details"]
    assert observation.tolist() == [0, 0, 0]
    assert reward == -1.0, "what was earned is taken back"
    assert not env.in_episode
    with pytest.raises(SessionNotFound):
        env.step(0)
    assert env.reset().tolist() == [0, 0, 0]
    assert not env.step(0)[2]


def test_a_script_that_hangs_is_killed(env: Any) -> None:
    env.reset()
    process = psutil.Process(env.service.backend.process.pid)
    _, _, done, info = env.step(4, timeout=0.3)
    assert done
    assert info["error_type"] == "TimeoutError"
    assert not process.is_running()
    env.reset()


def test_an_interrupt_ends_the_script_and_a_reset_starts_it_again(env: Any) -> None:
    env.reset()
    env.step(0)
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        env.step(4)
    assert env.actions == [0]
    assert env.step(0)[2]
    env.reset()
    assert env.observation["features"].tolist() == [0, 0, 0]


def test_closing_ends_the_process_and_leaves_no_folder(env: Any, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    env.close()
    env.reset()
    process = psutil.Process(env.service.backend.process.pid)
    assert [path.name.startswith("aiocg-service-") for path in tmp_path.iterdir()] == [True]
    env.close()
    assert not process.is_running()
    assert list(tmp_path.iterdir()) == []


def test_a_process_and_its_folder_end_with_the_one_that_started_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    program = f"""
from aiocg.compat.compiler_gym.service.connection import CompilerGymServiceConnection
import os
service = CompilerGymServiceConnection({str(SCRIPT)!r})
print(service.backend.process.pid, flush=True)
os.kill(os.getpid(), 9)
"""
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True)
    number = int(done.stdout)
    deadline = time.monotonic() + 60
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, "the service is still there"
            time.sleep(0.05)
    while list(tmp_path.iterdir()):
        assert time.monotonic() < deadline, "its folder is still there"
        time.sleep(0.05)


def test_what_is_no_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        ClientServiceCompilerEnv(service=tmp_path / "nothing.py")
    program = tmp_path / "program"
    program.write_bytes(b"\x7fELF")
    with pytest.raises(ServiceInitError, match="not a Python script"):
        ClientServiceCompilerEnv(service=program)
    script = tmp_path / "script.py"
    script.write_text("print()")
    with pytest.raises(ServiceError, match="did not become a service"):
        ClientServiceCompilerEnv(service=script)
    with pytest.raises(ServiceError, match="not a connection of this process"):
        ClientServiceCompilerEnv(service="localhost:1")


def test_started_by_hand_a_service_says_what_it_is() -> None:
    for arguments, problem in ((["foobar"], "'foobar'"), ([], "`service` of an environment")):
        command = [sys.executable, "-m", "aiocg.compat", str(SCRIPT), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 1
        assert "ERROR:" in done.stderr
        assert problem in done.stderr


def test_an_environment_of_ones_own_can_be_registered() -> None:
    register(
        id="example-compiler-v0",
        entry_point="aiocg.compat.compiler_gym.service.client_service_compiler_env:ClientServiceCompilerEnv",
        kwargs={"service": SCRIPT, "rewards": [RuntimeReward()], "datasets": [ExampleDataset()]},
    )
    assert "example-compiler-v0" in COMPILER_GYM_ENVS
    with gym.make("example-compiler-v0", reward_space="runtime") as env:
        env.reset()
        assert env.step(0)[1] == 1.0
        assert env.spec.id == "example-compiler-v0"


# ------------------------------------------------------------------------------------- programs of LLVM, called


@pytest.mark.slow
def test_a_script_may_call_opt_and_llc() -> None:
    source = b"int sum(int *p) { int s = 0; for (int i = 0; i < 64; i++) s += p[i]; return s; }"
    with ClientServiceCompilerEnv(service=SCRIPT.with_name("unrolling_script.py")) as env:
        env.reset(benchmark=Benchmark.from_file_contents("benchmark://user-v0/sum", source))
        before = env.observation["lines"]
        *_, info = env.step(2)
        assert not info["action_had_no_effect"]
        assert env.observation["ir"].count("add nsw i32") >= 8
        assert env.observation["lines"] > before
