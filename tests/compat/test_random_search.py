"""CompilerGym's random search, and its runner for the leaderboard: the files they write, and what stops them."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiocg.compat.compiler_gym import make
from aiocg.compat.compiler_gym.compiler_env_state import CompilerEnvStateReader
from aiocg.compat.compiler_gym.random_search import (
    RandomAgentWorker,
    RandomSearchProgressLogEntry,
    random_search,
    replay_actions_from_logs,
)

GCD = "benchmark://programs-v0/gcd"


def make_env() -> Any:
    return make("llvm-ic-v0", benchmark=GCD)


@pytest.mark.slow
def test_search_writes_its_files_and_returns_the_best_state(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with random_search(make_env, outdir=tmp_path, patience=20, total_runtime=1, nproc=2) as env:
        best = env.episode_reward
        assert best > 0
        actions = [env.action_space.names[action] for action in env.actions]
    assert json.loads((tmp_path / "random_search.json").read_text()) == {
        "benchmark": GCD,
        "env": "llvm-ic-v0",
        "patience": 20,
        "reward": "IrInstructionCountOz",
    }
    header, *lines = (tmp_path / "random_search_progress.csv").read_text().splitlines()
    assert header == "runtime_seconds,total_episode_count,total_step_count,num_passes,reward"
    progress = [RandomSearchProgressLogEntry.from_csv(line) for line in lines]
    assert [entry.to_csv() for entry in progress] == lines
    assert [entry.reward for entry in progress] == sorted({entry.reward for entry in progress})
    assert (tmp_path / "random_search_best_actions.txt").read_text().split() == actions
    commandline = (tmp_path / "random_search_best_actions_commandline.txt").read_text()
    assert commandline.startswith("opt ")
    assert all(action in commandline for action in actions)
    with open(tmp_path / "random_search_best_actions_progress.csv") as file:
        rows = list(csv.reader(file))
    assert [row[5] for row in rows] == actions
    assert sum(float(row[4]) for row in rows) == pytest.approx(best)
    assert (tmp_path / "unoptimized.bc").read_bytes() != (tmp_path / "optimized.bc").read_bytes()
    printed = capsys.readouterr().out
    assert "Started 2 worker threads" in printed
    assert "IR instruction count" in printed

    with make_env() as env:
        replay_actions_from_logs(env, tmp_path)
        assert env.episode_reward == pytest.approx(best)
        assert env.benchmark == GCD
    before = (tmp_path / "random_search.json").stat().st_mtime_ns
    with random_search(make_env, outdir=tmp_path, skip_done=True) as env:
        assert env.episode_reward == pytest.approx(best)
    assert (tmp_path / "random_search.json").stat().st_mtime_ns == before


def test_search_needs_a_compiler_and_a_reward(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="reward space must be specified"):
        random_search(lambda: make("llvm-v0", benchmark=GCD), outdir=tmp_path)
    assert list(tmp_path.iterdir()) == []

    class Other:
        unwrapped = 1

        def __enter__(self) -> "Other":
            return self

        def __exit__(self, *error: object) -> None:
            pass

    with pytest.raises(TypeError, match=r"requires CompilerEnv. Called with: Other"):
        random_search(Other, outdir=tmp_path)


def test_thread_that_cannot_make_its_environment_is_not_waited_for(tmp_path: Path) -> None:
    made = []

    def fragile() -> Any:
        made.append(1)
        if len(made) > 1:
            raise OSError("no more")
        return make_env()

    with pytest.raises(OSError, match="no more"):
        random_search(fragile, outdir=tmp_path, total_runtime=600, nproc=2)


def test_worker_is_told_to_end() -> None:
    worker = RandomAgentWorker(make_env, patience=5)
    worker.alive = False
    worker.start()
    worker.join(60)
    assert not worker.is_alive()
    assert (worker.total_environment_count, worker.total_episode_count) == (1, 1)
    assert worker.total_step_count >= 6
    assert worker.error is None


POLICY = """
import aiocg.compat
aiocg.compat.install()
from compiler_gym.leaderboard.llvm_instcount import eval_llvm_instcount_policy

def policy(env):
    assert env.reward_space.name == "IrInstructionCountOz"
    env.observation_space = "InstCount"
    env.step(env.action_space["-mem2reg"])

if __name__ == "__main__":
    eval_llvm_instcount_policy(policy)
"""


@pytest.mark.slow
def test_leaderboard_runs_a_policy_on_each_program_and_goes_on_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "policy.py").write_text(POLICY)
    flags = ["--test_dataset=programs-v0", "--max_benchmarks=2", "--leaderboard_results=r.csv"]

    def run(*more: str) -> str:
        command = [sys.executable, "-P", "policy.py", *flags, *more]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100)
        assert done.returncode == 0, done.stderr
        return done.stdout

    printed = run("--n=1", "--novalidate")
    assert "Completed: 2 / 2 (100.0%)" in printed
    with CompilerEnvStateReader(open(tmp_path / "r.csv")) as reader:
        states = list(reader)
    assert [state.benchmark for state in states] == ["benchmark://programs-v0/adpcm", "benchmark://programs-v0/aes"]
    assert all(state.reward > 0 and "-mem2reg" in state.commandline for state in states)
    run("--n=2", "--novalidate", "--resume")
    with CompilerEnvStateReader(open(tmp_path / "r.csv")) as reader:
        assert len(list(reader)) == 4
    assert (tmp_path / "llvm_instcount-results.log").is_file()
