"""CompilerGym's wrappers on real environments: what they change, and that forks, lists and timeouts go through them."""

import pickle
import sqlite3
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg.compat import gym
from aiocg.compat.compiler_gym import make, wrappers
from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.envs import CompilerEnv
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, ValidationError
from aiocg.compat.compiler_gym.spaces import CommandlineFlag

GCD, CRC32, QSORT = (f"benchmark://programs-v0/{name}" for name in ("gcd", "crc32", "qsort"))


@pytest.fixture
def env() -> Iterator[Any]:
    with make("llvm-v0", benchmark=GCD) as env:
        yield env


class Observation(wrappers.ObservationWrapper):
    def convert_observation(self, observation: Any) -> Any:
        return ("seen", observation)


class Reward(wrappers.RewardWrapper):
    def convert_reward(self, reward: float) -> float:
        return -5.0


class Action(wrappers.ActionWrapper):
    def action(self, action: int) -> int:
        return action - 1


KINDS = [wrappers.CompilerEnvWrapper, Observation, Reward, Action]


@pytest.mark.parametrize("kind", KINDS)
def test_wrapper_has_the_whole_interface(env: Any, kind: Any) -> None:
    wrapped = kind(env)
    assert isinstance(wrapped, CompilerEnv)
    assert isinstance(wrapped, gym.Wrapper)
    assert wrapped.unwrapped is env
    wrapped.observation_space, wrapped.reward_space = "Autophase", "IrInstructionCount"
    assert env.observation_space_spec.id == wrapped.observation_space_spec.id == "Autophase"
    assert wrapped.reward_space.name == wrapped.reward_space_spec.name == "IrInstructionCount"
    assert not wrapped.in_episode
    wrapped.reset()
    assert wrapped.in_episode
    wrapped.step(1)
    assert len(wrapped.actions) == 1
    assert wrapped.state.benchmark == GCD == str(wrapped.benchmark)
    assert wrapped.commandline() == env.commandline()
    assert wrapped.version == env.version
    assert wrapped.action_space == env.action_space
    assert "programs-v0" in wrapped.datasets
    assert wrapped.observation["IrInstructionCount"] > 0
    assert "IrInstructionCountOz" in wrapped.reward.spaces
    assert wrapped.ir_sha1 == env.ir_sha1  # of LLVM environments only
    assert wrapped.episode_walltime > 0
    with wrapped.fork() as fork:
        assert isinstance(fork, kind)
        assert fork.actions == wrapped.actions
    with pytest.warns(UserWarning, match="no effect until reset"):
        wrapped.benchmark = CRC32
    wrapped.reset()
    assert wrapped.benchmark == CRC32


@pytest.mark.parametrize("kind", KINDS)
def test_lists_and_timeouts_go_through_wrappers(env: Any, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    inner = env.multistep

    def multistep(*args: Any, **named: Any) -> Any:
        seen.append(named.get("timeout", 300))
        return inner(*args, **named)

    monkeypatch.setattr(env, "multistep", multistep)
    wrapped = kind(env)
    wrapped.reset()
    (text, count), (absolute, relative), done, _ = wrapped.multistep(
        [1, 1], ["Ir", "IrInstructionCount"], ["IrInstructionCount", "IrInstructionCountOz"], timeout=70
    )
    assert isinstance(text, str)
    assert (isinstance(count, int), isinstance(absolute, float), isinstance(relative, float)) == (True, True, True)
    assert not done
    (again,), _, _, _ = wrapped.step(1, observation_spaces=["IrInstructionCount"], timeout=80)
    assert again == count
    assert seen == [70, 80]


def test_deprecated_forms_of_steps_warn_and_work(env: Any) -> None:
    wrapped = wrappers.CompilerEnvWrapper(env)
    wrapped.reset()
    with pytest.warns(DeprecationWarning, match="multistep") as caught:
        wrapped.step([0, 0])
    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="renamed `observation_spaces`"):
        (count,), _, _, _ = wrapped.step(0, observations=["IrInstructionCount"])
    with pytest.warns(DeprecationWarning, match="renamed `reward_spaces`"):
        _, (reward,), _, _ = wrapped.multistep([0], rewards=["IrInstructionCount"])
    assert (count > 0, reward) == (True, 0)
    wrapped.step(np.int64(0))
    wrapped.step(np.array(0))
    assert wrapped.actions == [0] * 6


def test_observations_rewards_and_actions_are_changed(env: Any) -> None:
    env.observation_space, env.reward_space = "IrInstructionCount", "IrInstructionCount"
    wrapped = Action(Reward(Observation(env)))
    before = wrapped.reset()
    assert before[0] == "seen"
    observation, reward, _, _ = wrapped.step(env.action_space["-mem2reg"] + 1)
    assert (observation[0], observation[1] < before[1], reward) == ("seen", True, -5)
    wrapped.step(1)
    assert wrapped.episode_reward == -10
    assert env.actions[1] == 0
    with pytest.raises(TypeError, match="abstract"):
        wrappers.ObservationWrapper(env)


def test_hooks_by_their_older_names_are_called(env: Any) -> None:
    with pytest.warns(DeprecationWarning, match="convert_observation") as caught:

        class Length(wrappers.ObservationWrapper):
            def observation(self, observation: str) -> int:
                return len(observation)

    assert caught[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="convert_reward"):

        class Half(wrappers.RewardWrapper):
            def reward(self, reward: float) -> float:
                return reward / 2

    env.observation_space, env.reward_space = "Ir", "IrInstructionCount"
    wrapped = Half(Length(env))
    assert wrapped.reset() == len(env.ir)
    _, reward, _, _ = wrapped.step(env.action_space["-mem2reg"])
    assert reward == wrapped.episode_reward > 0
    assert wrapped.observation["IrInstructionCount"] > 0


def test_old_wrapper_without_a_timeout_still_works(env: Any) -> None:
    class Old(wrappers.CompilerEnvWrapper):
        def multistep(self, actions, observation_spaces=None, reward_spaces=None, observations=None, rewards=None):  # type: ignore[no-untyped-def, override]
            return self.env.multistep(actions, observation_spaces=observation_spaces, reward_spaces=reward_spaces)

    wrapped = wrappers.TimeLimit(Old(env), max_episode_steps=2)
    wrapped.reset()
    assert wrapped.step(0)[2] is False
    assert wrapped.step(0)[2] is True


def test_episode_ends_after_so_many_actions(env: Any) -> None:
    wrapped = wrappers.TimeLimit(env, max_episode_steps=3)
    with pytest.raises(AssertionError, match="before calling reset"):
        wrapped.step(0)
    wrapped.reset()
    wrapped.multistep([0, 0])
    with wrapped.fork() as fork:
        for one in (wrapped, fork):
            _, _, done, info = one.step(0)
            assert (done, info["TimeLimit.truncated"]) == (True, True)
    wrapped.reset()
    assert wrapped.step(0)[2] is False
    unlimited = wrappers.TimeLimit(env)
    unlimited.reset()
    assert unlimited.step(0)[2] is False


def test_last_action_ends_the_episode(env: Any) -> None:
    end = CommandlineFlag("stop", "# stop", "Stop")
    wrapped = wrappers.CommandlineWithTerminalAction(env, terminal=end)
    assert wrapped.action_space.flags == [*env.action_space.flags, "# stop"]
    wrapped.reset()
    last = wrapped.action_space["# stop"]
    with wrapped.fork() as fork:
        assert fork.action_space == wrapped.action_space
        _, _, done, info = fork.multistep([0, last, 0])
        assert (done, info["terminal_action"], fork.actions) == (True, True, [0])
    _, _, done, info = wrapped.step(0)
    assert (done, "terminal_action" in info) == (False, False)
    assert wrapped.step(last)[2] is True


def test_some_flags_are_numbered_anew(env: Any) -> None:
    wrapped = wrappers.ConstrainedCommandline(env, flags=["-mem2reg", "-reg2mem"], name="two")
    assert (wrapped.action_space.n, wrapped.action_space.flags) == (2, ["-mem2reg", "-reg2mem"])
    assert wrapped.action_space.name == "ConstrainedCommandline<two, 2>"
    assert wrapped.action([1, 0]) == [env.action_space["-reg2mem"], env.action_space["-mem2reg"]]
    wrapped.reset()
    wrapped.multistep([0, 1])
    with wrapped.fork() as fork:
        fork.step(0)
        assert (wrapped.actions, fork.actions) == ([0, 1], [0, 1, 0])
        assert fork.action_space.name == wrapped.action_space.name
    with pytest.raises(TypeError, match="No flags"):
        wrappers.ConstrainedCommandline(env, flags=[])
    with pytest.raises(LookupError, match="-nothing"):
        wrappers.ConstrainedCommandline(env, flags=["-nothing"])


def uris(env: Any, resets: int, **options: Any) -> list[str]:
    found = []
    for _ in range(resets):
        env.reset(**options)
        found.append(str(env.benchmark))
    return found


def test_programs_are_taken_one_after_the_other(env: Any) -> None:
    wrapped = wrappers.IterateOverBenchmarks(env, [GCD, CRC32, QSORT])
    assert uris(wrapped, 1, observation_space="Ir", reward_space="IrInstructionCount") == [GCD]
    assert (env.observation_space_spec.id, env.reward_space.name) == ("Ir", "IrInstructionCount")
    with wrapped.fork() as fork:
        assert uris(wrapped, 2) == uris(fork, 2) == [CRC32, QSORT]
    for _ in range(2):
        with pytest.raises(StopIteration):
            wrapped.reset()
    with pytest.raises(TypeError, match="Benchmark passed to IterateOverBenchmarks"):
        wrapped.reset(benchmark=GCD)


def test_forks_can_share_the_programs(env: Any) -> None:
    wrapped = wrappers.CycleOverBenchmarks(env, [GCD, CRC32, QSORT], fork_shares_iterator=True)
    with wrapped.fork() as fork:
        assert uris(wrapped, 1) + uris(fork, 1) + uris(wrapped, 1) + uris(fork, 1) == [GCD, CRC32, QSORT, GCD]


def test_programs_begin_again(env: Any) -> None:
    assert uris(wrappers.CycleOverBenchmarks(env, iter([GCD, CRC32])), 3) == [GCD, CRC32, GCD]
    wrapped = wrappers.CycleOverBenchmarksIterator(env, lambda: iter([GCD, CRC32]))
    assert uris(wrapped, 3) == [GCD, CRC32, GCD]
    with wrapped.fork() as fork:
        assert uris(fork, 1) == [GCD]


def test_programs_are_drawn_and_forks_draw_too(env: Any) -> None:
    def drawn(seed: int) -> list[str]:
        return uris(wrappers.RandomOrderBenchmarks(env, [GCD, CRC32], rng=np.random.default_rng(seed)), 6)

    assert drawn(1) == drawn(1)
    assert set(drawn(1)) == {GCD, CRC32}
    with wrappers.RandomOrderBenchmarks(env, [GCD, CRC32]).fork() as fork:
        assert isinstance(fork, wrappers.RandomOrderBenchmarks)
        assert set(uris(fork, 4)) <= {GCD, CRC32}


def test_steps_are_undone(env: Any) -> None:
    env.observation_space = "IrInstructionCount"
    wrapped = wrappers.ForkOnStep(env)
    before = wrapped.reset(benchmark=GCD)
    assert isinstance(before, int)
    wrapped.step(env.action_space["-mem2reg"])
    wrapped.multistep([0, 1])
    assert len(wrapped.stack) == 2
    with wrapped.fork() as fork:
        fork.undo()
        fork.undo()
        assert (fork.actions, len(wrapped.actions)) == ([], 3)
    wrapped.undo()
    assert wrapped.actions == [wrapped.action_space["-mem2reg"]]
    wrapped.undo()
    assert (wrapped.actions, wrapped.observation["IrInstructionCount"], wrapped.undo()) == ([], before, None)
    wrapped.step(0)
    wrapped.reset()
    assert wrapped.stack == []
    wrapped.close()
    wrapped.close()


def test_calls_are_counted(env: Any) -> None:
    wrapped = wrappers.Counter(env)
    wrapped.reset()
    wrapped.step(0)
    wrapped.multistep([0, 0])
    with wrapped.fork() as fork:
        assert fork.counters == {"close": 0, "reset": 0, "step": 0, "fork": 0}
        fork.step(0)
        assert fork.counters["step"] == 1
    wrapped.close()
    assert wrapped.counters == {"close": 1, "reset": 1, "step": 3, "fork": 1}


def test_step_that_breaks_the_program_ends_the_episode(env: Any) -> None:
    text = b"define i32 @f() {\n  ret i32 1\n}\n"
    env.reset(Benchmark.from_file_contents("benchmark://user-v0/f", text), reward_space="IrInstructionCount")
    broken: list[ValidationError] = []
    env.benchmark.add_validation_callback(lambda env: list(broken))
    wrapped = wrappers.ValidateBenchmarkAfterEveryStep(env, reward_penalty=-7)
    _, reward, done, info = wrapped.step(0)
    assert (reward, done, "error_details" in info) == (0, False, False)
    broken.append(ValidationError(type="Oh no"))
    with wrapped.fork() as fork:
        _, reward, done, info = fork.step(0)
        assert (reward, done, info["error_details"].type) == (-7, True, "Oh no")
    _, rewards, done, _ = wrapped.step(0, reward_spaces=["IrInstructionCount", "IrInstructionCountOz"])
    assert (rewards, done) == ([-7, -7], True)


@pytest.mark.slow
def test_own_programs_are_validated_by_running_them(env: Any) -> None:
    env.reset(benchmark=GCD)
    env.step(env.action_space["-mem2reg"])
    assert env.benchmark.is_validatable()
    assert env.benchmark.validate(env) == []


@pytest.mark.filterwarnings("ignore:Replacing existing reward space")
def test_reward_is_the_time_that_is_saved(env: Any) -> None:
    wrapped = wrappers.RuntimePointEstimateReward(env, runtime_count=2, warmup_count=1, estimator=min)
    assert (env.runtime_observation_count, env.runtime_warmup_runs_count) == (2, 1)
    assert wrapped.reward_range == (-float("inf"), float("inf"))
    wrapped.reset()
    _, reward, done, info = wrapped.step(env.action_space["-mem2reg"])
    assert (done, isinstance(reward, float)) == (False, True), info
    with wrapped.fork() as fork:
        assert (fork.reward_space.name, fork.reward_space.estimator) == ("runtime", min)
        assert fork.episode_reward == wrapped.episode_reward
        assert fork.reward_space is not wrapped.reward_space
        fork.step(0)
    refused = wrappers.RuntimePointEstimateReward(env.fork(), runtime_count=-10)
    with refused, pytest.raises(ValueError, match="Received: -10"):
        refused.reset()
    with pytest.raises(BenchmarkInitError, match="Benchmark is not runnable: benchmark://user-v0/f"):
        text = b"define i32 @f() {\n  ret i32 1\n}\n"
        wrapped.reset(benchmark=Benchmark.from_file_contents("benchmark://user-v0/f", text))


def test_states_are_logged_in_a_database(env: Any, tmp_path: Path) -> None:
    env.observation_space, env.reward_space = "Autophase", "IrInstructionCountOz"
    path = tmp_path / "new/log.db"
    wrapped = wrappers.SynchronousSqliteLogger(wrappers.CompilerEnvWrapper(env), path)
    first = wrapped.reset()
    mem2reg = env.action_space["-mem2reg"]
    second, reward, done, _ = wrapped.step(mem2reg)
    assert (first.shape, second.shape, done) == ((56,), (56,), False)
    with wrapped.fork() as fork:
        fork.step(0)
    wrapped.flush()
    with sqlite3.connect(path) as database:
        rows = database.execute("SELECT benchmark_uri, done, actions FROM States ORDER BY actions").fetchall()
        assert rows == [(GCD, 0, ""), (GCD, 0, f"{mem2reg}"), (GCD, 0, f"{mem2reg} 0")]
        total, state = database.execute(
            "SELECT ir_instruction_count_oz_reward, state_id FROM States WHERE actions = ?", (str(mem2reg),)
        ).fetchone()
        assert total == pytest.approx(reward) == pytest.approx(wrapped.episode_reward)
        assert total > 0
        ir, graph, autophase = database.execute(
            "SELECT compressed_llvm_ir, pickled_compressed_programl, autophase FROM Observations WHERE state_id = ?",
            (state,),
        ).fetchone()
    assert zlib.decompress(ir).decode() == env.ir
    assert [int(x) for x in autophase.split()] == list(second)
    assert pickle.loads(zlib.decompress(graph)).number_of_nodes() > 0
    with pytest.raises(AssertionError, match="observation_spaces"):
        wrapped.step(0, observation_spaces=["Ir"])
    with pytest.raises(TypeError, match="Requires LlvmEnv"):
        wrappers.SynchronousSqliteLogger(1, path)
