"""What scripts for CompilerGym do that others have written."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiocg.compat import compiler_gym
from aiocg.compat.compiler_gym.envs.llvm.datasets import CBenchDataset
from aiocg.compat.compiler_gym.errors import DatasetInitError
from aiocg.compat.compiler_gym.service.proto import BenchmarkDynamicConfig, Command
from aiocg.compat.compiler_gym.spaces import Reward
from aiocg.compat.datasets._stand_ins import StandInWarning


@pytest.fixture
def env() -> Iterator[Any]:
    with compiler_gym.make("llvm-ic-v0", benchmark="programs-v0/gcd") as made:
        made.reset()
        yield made


def _drawn_by_forks(env: Any, count: int) -> list[int]:
    drawn = []
    for _ in range(count):
        with env.fork() as fork:
            drawn.append(fork.action_space.sample())
    return drawn


def test_forks_of_one_state_draw_different_actions(env: Any) -> None:
    """A hill climber forks, draws an action in the fork, and keeps or closes it."""
    env.action_space.sample()  # which seeds it
    assert len(set(_drawn_by_forks(env, 8))) > 3


def test_what_forks_draw_follows_from_the_seed(env: Any) -> None:
    env.action_space.seed(7)
    once = _drawn_by_forks(env, 3)
    env.action_space.seed(7)
    assert _drawn_by_forks(env, 3) == once


@pytest.mark.slow
def test_any_package_may_be_imported_first() -> None:
    """Most scripts begin with `import compiler_gym`, some with a class from somewhere within."""
    code = """
import importlib, sys
from aiocg.compat._names import MODULES, PACKAGES
for old in [*PACKAGES, *MODULES]:
    for name in [name for name in sys.modules if name.startswith("aiocg.compat.")]:
        del sys.modules[name]
    importlib.reload(sys.modules["aiocg.compat"])
    module = importlib.import_module(f"aiocg.compat.{old}")
    assert all(hasattr(module, exported) for exported in getattr(module, "__all__", ())), old
"""
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.slow
def test_environments_may_be_closed_by_the_end_of_the_interpreter(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("""
import compiler_gym

class Manager:
    def __init__(self):
        self.env = compiler_gym.make("llvm-ic-v0", benchmark="programs-v0/gcd")
        self.env.reset()

    def __del__(self):
        self.env.close()
        print("closed", flush=True)

manager = Manager()
""")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "aiocg.compat", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "closed\n", "")


def test_a_reward_may_have_an_id_for_a_name(env: Any) -> None:
    """It was called so in the first releases."""

    class Constant(Reward):
        def update(self, actions: Any, observations: Any, observation_view: Any) -> float:
            return 3.0

    with pytest.warns(DeprecationWarning, match="renamed `name`"):
        reward = Constant(id="three", observation_spaces=[])
    env.reward.add_space(reward)
    env.reward_space = "three"
    env.reset()
    assert env.step(0)[1] == 3.0


def test_installing_cbench_first_is_no_error_where_others_run_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path))
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.delenv("AIOCG_DATASET_MIRROR", raising=False)
    dataset = CBenchDataset()
    with pytest.warns(StandInWarning, match="cbench-v1 is not installed"):
        dataset.install()
    assert not dataset.installed
    monkeypatch.setenv("AIOCG_COMPAT_STAND_INS", "0")
    with pytest.raises(DatasetInitError, match="cannot be fetched"):
        dataset.install()


@pytest.mark.needs("libc")
@pytest.mark.parametrize("merged", [True, False])
def test_a_program_of_a_command_line_runs_once_its_benchmark_says_how(tmp_path: Path, merged: bool) -> None:
    """The first form is the maintainers' answer to those who asked for it."""
    source = tmp_path / "sum.c"
    source.write_text("int main(void) { long s = 0; for (long i = 0; i < 1000000; i++) s += i ^ s; return s == 1; }")
    with compiler_gym.make("llvm-v0") as env:
        benchmark = env.make_benchmark_from_command_line(["gcc", "-DNDEBUG", str(source), "-o", str(tmp_path / "sum")])
        if merged:
            build = Command(argument=["$CC", "$IN"], outfile=["a.out"], timeout_seconds=60)
            run = Command(argument=["./a.out"], timeout_seconds=60)
            benchmark.proto.dynamic_config.MergeFrom(BenchmarkDynamicConfig(build_cmd=build, run_cmd=run))
        else:
            benchmark.proto.dynamic_config.run_cmd.argument.append("./sum")
        env.reset(benchmark=benchmark)
        env.runtime_observation_count = 2
        assert env.observation["IsRunnable"]
        assert (env.observation.Runtime() > 0).tolist() == [True, True]
