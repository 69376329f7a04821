"""LLVM's environment with CompilerGym's interface: what old scripts do with it, and what they expect."""

import copy
import gc
import warnings
from collections.abc import Iterator
from threading import Thread
from typing import Any

import numpy as np
import pytest

from aiocg.compat import compiler_gym, gym
from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.envs import CompilerEnv, LlvmEnv, llvm
from aiocg.compat.compiler_gym.errors import BenchmarkInitError, ServiceError, SessionNotFound
from aiocg.compat.compiler_gym.service.connection import CompilerGymServiceConnection, ConnectionOpts
from aiocg.compat.compiler_gym.spaces import Commandline, Reward

GCD, CRC32, QSORT = (f"benchmark://programs-v0/{name}" for name in ("gcd", "crc32", "qsort"))


@pytest.fixture
def env() -> Iterator[Any]:
    with compiler_gym.make("llvm-v0", benchmark=GCD) as made:
        yield made


# ---------------------------------------------------------------------------------------------- making one


def test_all_of_the_originals_ids_are_known() -> None:
    assert compiler_gym.COMPILER_GYM_ENVS[:9] == [
        "llvm-v0",
        "llvm-ic-v0",
        "llvm-codesize-v0",
        "llvm-autophase-ic-v0",
        "llvm-autophase-codesize-v0",
        "llvm-ir-ic-v0",
        "llvm-ir-codesize-v0",
        "gcc-v0",
        "loop_tool-v0",
    ]
    with gym.make("llvm-ir-codesize-v0", benchmark=GCD) as env:
        assert env.observation_space_spec.id == "Ir"
        assert env.reward_space == "ObjectTextSizeOz"


def test_an_environment_has_the_interface_of_gym() -> None:
    with gym.make("llvm-autophase-ic-v0", benchmark=GCD) as env:
        assert isinstance(env, gym.Env)
        assert isinstance(env, CompilerEnv)
        assert isinstance(env, LlvmEnv)
        assert env.unwrapped is env
        assert isinstance(env.action_space, gym.Space)
        assert isinstance(env.observation_space, gym.spaces.Box)
        assert env.reward_range == (-np.inf, np.inf)
        assert env.metadata["render.modes"] == ["human", "ansi"]
        assert env.spec.id == "llvm-autophase-ic-v0"
        assert env.spec.kwargs["reward_space"] == "IrInstructionCountOz"


def test_settings_of_the_constructor_are_taken() -> None:
    names = {"observation_space": "Autophase", "reward_space": "IrInstructionCountNorm"}
    with compiler_gym.make("llvm-v0", benchmark=QSORT, action_space="PassesAll", **names) as env:
        assert env.benchmark == QSORT
        assert env.observation_space_spec.id == "Autophase"
        assert env.reward_space.name == "IrInstructionCountNorm"
        assert env.reward_range == (-np.inf, 1)
        assert env.reset().shape == (56,)
    with pytest.raises(LookupError, match="Observation space not found: Nonsense"):
        compiler_gym.make("llvm-v0", benchmark=GCD, observation_space="Nonsense")
    with pytest.raises(LookupError, match="Action space not found: Nonsense"):
        compiler_gym.make("llvm-v0", benchmark=GCD, action_space="Nonsense")
    with pytest.raises(LookupError, match="nonsense"):
        compiler_gym.make("llvm-v0", benchmark="programs-v0/nonsense")


def test_actions_are_the_124_flags(env: Any) -> None:
    space = env.action_space
    assert isinstance(space, Commandline)
    assert (space.name, space.n) == ("PassesAll", 124)
    assert [one.name for one in env.action_spaces] == ["PassesAll"]
    assert space.flags[:3] == ["-add-discriminators", "-adce", "-aggressive-instcombine"]
    assert space.names == space.flags
    assert space.flags[space["-mem2reg"]] == "-mem2reg"
    assert len(set(space.flags)) == 124
    assert all(space.descriptions)
    assert type(space.sample()) is int


def test_versions_are_told(env: Any) -> None:
    assert env.version == env.versions.service_version == compiler_gym.__version__ == "0.2.5"
    assert env.compiler_version.startswith("LLVM ") or env.compiler_version[0].isdigit()


def test_an_environment_that_another_thread_drops_is_closed_when_the_next_is_made() -> None:
    """Closing waits for the event loop, which may wait for that thread to start."""
    held = [compiler_gym.make("llvm-v0", benchmark=GCD)]
    held[0].reset()
    service = held[0].service
    held.clear()
    thread = Thread(target=gc.collect)  # the environment is part of a reference cycle
    thread.start()
    thread.join()
    assert not service.closed
    with compiler_gym.make("llvm-v0", benchmark=GCD):
        assert service.closed


# --------------------------------------------------------------------------------------- resets and steps


def test_steps_return_four_values(env: Any) -> None:
    assert env.reset() is None
    assert env.in_episode
    observation, reward, done, info = env.step(env.action_space["-mem2reg"])
    assert (observation, reward, done) == (None, None, False)
    assert info == {"action_had_no_effect": False, "new_action_space": False}
    assert env.step(np.int64(env.action_space["-mem2reg"]))[3]["action_had_no_effect"]
    assert env.step(np.array(0))[2] is False
    assert env.episode_reward is None


def test_settings_of_a_reset_stay_and_none_switches_off(env: Any) -> None:
    first = env.reset(benchmark=CRC32, observation_space="IrInstructionCount", reward_space="IrInstructionCount")
    assert isinstance(first, int)
    observation, reward, _, _ = env.step(env.action_space["-mem2reg"])
    assert reward == first - observation > 0
    assert env.episode_reward == reward
    assert env.reset() == first
    assert env.benchmark == CRC32
    assert env.episode_reward == 0
    assert env.reset(observation_space=None, reward_space=None) is None
    assert env.observation_space is None
    assert env.reward_space is None
    assert env.step(0)[:2] == (None, None)


def test_lists_of_spaces_give_lists(env: Any) -> None:
    env.reset(observation_space="Autophase", reward_space="IrInstructionCount")
    spaces = ["IrInstructionCount", env.observation.spaces["Ir"]]
    rewards = ["IrInstructionCount", env.reward.spaces["IrInstructionCountOz"]]
    (count, text), (plain, scaled), _, _ = env.step(0, observation_spaces=spaces, reward_spaces=rewards)
    assert count == env.observation["IrInstructionCount"]
    assert text.startswith("; ModuleID = '-'\nsource_filename = \"-\"\ntarget")
    assert plain == scaled == 0
    assert env.episode_reward == 0.0
    with pytest.warns(DeprecationWarning, match="`observations`.*renamed `observation_spaces`"):
        assert env.step(0, observations=["IrInstructionCount"])[0] == [count]
    with pytest.warns(DeprecationWarning, match="`rewards`.*renamed `reward_spaces`"):
        assert env.multistep([0], rewards=["IrInstructionCount"])[1] == [0.0]


def test_several_actions_are_one_step(env: Any) -> None:
    env.reset(reward_space="IrInstructionCount")
    actions = [env.action_space[flag] for flag in ("-mem2reg", "-simplifycfg", "-gvn")]
    separate = [env.step(action)[1] for action in actions]
    env.reset()
    _, together, _, _ = env.multistep(iter(actions))
    assert together == sum(separate) == env.episode_reward
    assert env.actions == actions
    with pytest.warns(DeprecationWarning, match="multistep"):
        env.step(actions)
    assert env.actions == actions * 2
    assert env.multistep([])[2:] == (False, {"action_had_no_effect": True, "new_action_space": False})


def test_what_is_no_action_is_refused_and_nothing_is_done(env: Any) -> None:
    env.reset()
    for action in (124, -1, "-mem2reg", 1.5, None):
        with pytest.raises(ValueError, match="action"):
            env.step(action)
    with pytest.raises(ValueError, match="'-mem2reg'"):
        env.multistep([0, "-mem2reg"])
    assert env.actions == []
    assert not env.step(0)[2]


def test_without_an_episode_there_are_no_steps(env: Any) -> None:
    for ask in (
        lambda: env.step(0),
        lambda: env.observation["Ir"],
        lambda: env.reward["IrInstructionCount"],
        lambda: env.ir,
    ):
        with pytest.raises(SessionNotFound, match=r"Must call reset\(\) before step\(\)"):
            ask()
    with pytest.raises(SessionNotFound, match=r"Must call reset\(\) before send_params\(\)"):
        env.send_param("llvm.get_runtimes_per_observation_count", "")
    assert not env.in_episode


def test_closed_environments_come_back_with_a_reset(env: Any) -> None:
    env.reset()
    env.close()
    assert env.service is None
    assert not env.in_episode
    env.close()
    with pytest.raises(SessionNotFound):
        env.step(0)
    env.reset()
    assert not env.step(0)[2]


# -------------------------------------------------------------------------------------------- benchmarks


@pytest.mark.filterwarnings("ignore:Changing the benchmark")
def test_a_benchmark_that_is_set_is_that_of_the_next_episode(env: Any) -> None:
    assert env.benchmark == GCD
    env.benchmark = CRC32
    assert env.benchmark == GCD
    env.reset()
    assert env.benchmark == CRC32
    with pytest.warns(UserWarning, match=r"Changing the benchmark has no effect until reset\(\) is called"):
        env.benchmark = env.datasets.benchmark(QSORT)
    assert env.benchmark == CRC32
    env.reset()
    assert env.benchmark == QSORT
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # for a reset there is nothing to warn of
        env.reset(benchmark=env.datasets.benchmark(GCD).uri)
    assert env.benchmark == GCD
    with pytest.raises(TypeError, match="Expected a Benchmark or str, received: 'int'"):
        env.benchmark = 10
    with pytest.raises(LookupError):
        env.reset(benchmark="programs-v0/gc")
    env.reset()
    assert env.benchmark == GCD


def test_what_is_no_program_is_refused_and_another_can_follow(env: Any) -> None:
    env.reset()
    bad = Benchmark.from_file_contents("benchmark://new/one", b"Invalid bitcode")
    with pytest.raises(BenchmarkInitError, match='Failed to parse LLVM bitcode: "benchmark://new/one"') as caught:
        env.reset(benchmark=bad)
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value, ValueError)
    env.reset(benchmark=GCD)
    assert not env.step(0)[2]


def test_a_compiler_without_benchmarks_asks_for_one() -> None:
    from aiocg.compat.compiler_gym.service.client_service_compiler_env import ClientServiceCompilerEnv

    with ClientServiceCompilerEnv(service=llvm.LLVM_SERVICE_BINARY) as env:
        assert env.benchmark is None
        with pytest.raises(TypeError, match="No benchmark set"):
            env.reset()
        assert "IrInstructionCount" in env.reward.spaces, "each observation that is a number is a reward"
        for method in (env.commandline, lambda: env.commandline_to_actions("")):
            with pytest.raises(NotImplementedError):
                method()


# ---------------------------------------------------------------------------------------- spaces as settings


def test_spaces_are_set_by_name_by_spec_or_to_none(env: Any) -> None:
    env.observation_space = "Autophase"
    assert env.observation_space.shape == (56,)
    space = env.observation_space
    env.observation_space = env.observation.spaces["Autophase"]
    assert env.observation_space == space
    assert env.observation_space_spec == "Autophase"
    env.reward_space = env.reward.spaces["IrInstructionCount"]
    assert env.reward_space == "IrInstructionCount"
    assert env.reward_space_spec is env.reward_space
    env.observation_space = env.reward_space = None
    assert env.observation_space is env.observation_space_spec is env.reward_space is None
    with pytest.raises(LookupError, match="Observation space not found: invalid value"):
        env.observation_space = "invalid value"
    with pytest.raises(LookupError, match="Reward space not found: invalid value"):
        env.reward_space = "invalid value"


def test_another_reward_begins_to_count_anew(env: Any) -> None:
    env.reset(reward_space=None)
    env.step(0)
    assert env.episode_reward is None
    env.reward_space = "IrInstructionCount"
    assert env.episode_reward == 0
    env.episode_reward = 10
    env.reward_space = "IrInstructionCount"
    assert env.episode_reward == 10
    env.reward_space = "IrInstructionCountOz"
    assert env.episode_reward == 0


def test_a_reward_of_ones_own_is_asked_with_every_step(env: Any) -> None:
    class Blocks(Reward):
        def __init__(self) -> None:
            super().__init__(name="Blocks", observation_spaces=["InstCount", "IrInstructionCount"], default_value=-1)

        def reset(self, benchmark: Any, observation_view: Any) -> None:
            self.seen = [str(benchmark), observation_view["IrInstructionCount"]]

        def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
            counts, total = observations
            assert counts[0] == total == observation_view["IrInstructionCount"]
            self.seen.append(tuple(actions))
            return float(counts[1])

    env.reward.add_space(Blocks())
    env.reset(reward_space="Blocks")
    assert env.multistep([0, 1])[1] == env.observation["InstCount"][1]
    assert env.reward_space.seen[0] == GCD
    assert env.reward_space.seen[2] == (0, 1)


def test_observations_can_be_derived(env: Any) -> None:
    env.observation.add_derived_space(id="Lines", base_id="Ir", translate=lambda text: text.count("\n"))
    env.reset(observation_space="Lines")
    lines = env.ir.count("\n")
    assert env.observation.Lines() == lines
    assert env.step(0)[0] == env.ir.count("\n")
    derived = {"id": "Twice", "base_id": "IrInstructionCount", "translate": lambda count: 2 * count}
    with compiler_gym.make("llvm-v0", benchmark=GCD, derived_observation_spaces=[derived]) as other:
        assert other.reset(observation_space="Twice") == 2 * other.observation.IrInstructionCount()
        assert other.observation.spaces["Twice"].default_value == 0


# ------------------------------------------------------------------------------------------- forks, copies


def test_a_fork_is_at_the_same_state_and_independent(env: Any) -> None:
    env.reset(observation_space="Autophase", reward_space="IrInstructionCount")
    env.step(env.action_space["-mem2reg"])
    with env.fork() as other:
        assert other.service is env.service
        assert other.actions == env.actions
        assert other.episode_reward == env.episode_reward
        assert (other.state, other.ir) == (env.state, env.ir)
        assert (other.observation_space, other.reward_space) == (env.observation_space, env.reward_space)
        action = env.action_space["-simplifycfg"]
        assert other.step(action)[1] == env.step(action)[1]
        other.step(0)
        assert len(env.actions) == 2
        other.reset()
        assert (other.benchmark, other.actions, len(env.actions)) == (GCD, [], 2)
    assert not other.in_episode
    assert not env.step(0)[2]
    with copy.deepcopy(env) as other:
        assert other.actions == env.actions
    with pytest.raises(TypeError, match="deepcopy"):
        copy.copy(env)


def test_what_a_wrapper_changes_of_a_space_is_of_its_environment(env: Any) -> None:
    env.observation_space = "Autophase"
    env.observation_space_spec.space = gym.spaces.Box(0, 1, shape=(56,))
    with compiler_gym.make("llvm-v0", benchmark=GCD, observation_space="Autophase") as other:
        assert other.observation_space.dtype == np.int64
    with env.fork() as fork:
        assert fork.observation_space == env.observation_space
        fork.observation_space.low[:] = -1
        fork.observation_space_spec.space = None
        assert (env.observation_space.low == 0).all()


def test_forking_starts_an_episode_or_brings_it_back(env: Any) -> None:
    with env.fork() as other:
        assert env.in_episode
        assert other.in_episode
    env.step(3)
    env.close()
    with env.fork() as other:
        assert other.actions == env.actions == [3]


def test_forks_of_an_environment_that_was_closed_go_on(env: Any) -> None:
    env.reset()
    chain = [env.fork()]
    chain.append(chain[0].fork())
    env.close()
    chain[0].close()
    assert not chain[1].step(0)[2]
    chain[1].close()


# ------------------------------------------------------------------------------------------------- failures


def test_a_service_that_is_gone_ends_the_episode_with_defaults(env: Any) -> None:
    env.reset(observation_space="Autophase", reward_space="IrInstructionCount")
    env.reward_space.default_value = 2.5
    env.episode_reward = 10
    env.service.close()
    observation, reward, done, info = env.step(0)
    assert done
    assert info["error_type"] == "SessionNotFound"
    assert info["error_details"].startswith("Session not found: ")
    assert not observation.any()
    assert reward == -7.5
    assert not env.in_episode
    env.reset()
    assert not env.step(0)[2]


def test_environments_that_shared_a_service_that_is_gone_get_one_each(env: Any) -> None:
    env.reset()
    with env.fork() as other:
        other.service.shutdown()
        env.reset()
        other.reset()
        assert env.service is not other.service
        assert not env.step(0)[2]
        assert not other.step(0)[2]


def test_a_reset_that_fails_leaves_the_forks_alone(env: Any, monkeypatch: Any) -> None:
    env.reset()
    with env.fork() as other:
        other.step(0)
        monkeypatch.setattr(env.service.backend, "start", _fail)
        with pytest.raises(OSError, match=r"(?s)Failed to reset environment using benchmark .*no luck"):
            env.reset()
        monkeypatch.undo()
        assert not env.in_episode
        assert other.in_episode
        assert not other.step(1)[2]
        env.reset()


@pytest.mark.parametrize("done", [False, True])
def test_a_step_that_is_interrupted_counts_if_it_was_done(env: Any, monkeypatch: Any, done: bool) -> None:
    env.reset()
    env.step(3)
    step = env._session.step

    def interrupted(*args: Any) -> None:
        if done:
            step(*args)
        raise KeyboardInterrupt

    monkeypatch.setattr(env._session, "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        env.multistep([4, 5])
    monkeypatch.undo()
    expected = [3, 4, 5] if done else [3]
    assert env.actions == expected
    assert not env.step(6)[2]
    assert env.actions == [*expected, 6]


def test_a_worker_that_dies_of_a_step_ends_the_episode(env: Any, monkeypatch: Any) -> None:
    from aiocg.errors import WorkerCrashed

    env.reset(observation_space="IrInstructionCount")
    result = (None, 0.0, True, False, {"error": WorkerCrashed("signal SIGSEGV", "a step")})
    monkeypatch.setattr(env.native, "step", lambda *args, **kwargs: result)
    observation, reward, done, info = env.step(0)
    assert (observation, reward, done) == (0, None, True)
    assert info["error_type"] == "ServiceError"
    assert "SIGSEGV" in info["error_details"]
    monkeypatch.undo()
    with pytest.raises(SessionNotFound):
        env.step(0)
    env.reset()


def test_a_session_that_has_ended_ends_the_episode(env: Any) -> None:
    env.reset()
    env.service.restart()
    observation, reward, done, info = env.step(0)
    assert (observation, reward, done) == (None, None, True)
    assert info["error_details"] == "Session not found: the service was closed"
    assert not env.in_episode


def test_an_observation_that_fails_says_why(env: Any, monkeypatch: Any) -> None:
    env.reset()
    monkeypatch.setattr(env._session, "step", _fail)
    with pytest.raises(ServiceError, match="Failed to compute observation 'Ir': no luck"):
        _ = env.observation["Ir"]


def _fail(*args: object) -> None:
    raise ServiceError("no luck")


# ------------------------------------------------------------------------------------------ states, services


def test_states_are_command_lines_that_can_be_applied(env: Any) -> None:
    env.reset(reward_space="IrInstructionCount")
    assert env.commandline() == "opt  input.bc -o output.bc"
    assert env.commandline_to_actions(env.commandline()) == []
    actions = [env.action_space["-mem2reg"], env.action_space["-reg2mem"]]
    env.multistep(actions)
    assert env.commandline() == "opt -mem2reg -reg2mem input.bc -o output.bc"
    assert env.commandline(textformat=True) == "opt -mem2reg -reg2mem input.ll -S -o output.ll"
    assert env.commandline_to_actions(env.commandline()) == actions
    with pytest.raises(ValueError, match="Invalid commandline: `clang x`"):
        env.commandline_to_actions("clang x")
    with pytest.raises(LookupError, match="Unknown flag: `-nonsense`"):
        env.commandline_to_actions("opt -nonsense input.bc -o output.bc")
    with compiler_gym.make("llvm-v0", benchmark=CRC32, reward_space="IrInstructionCount") as other:
        other.apply(env.state)
        assert other.state == env.state
        assert other.benchmark == GCD
        other.reset(benchmark=CRC32)
        with pytest.warns(UserWarning, match="Applying state from environment for benchmark"):
            other.apply(env.state)


@pytest.mark.slow
def test_states_are_validated(env: Any, monkeypatch: Any) -> None:
    env.reset(reward_space="IrInstructionCount")
    env.step(env.action_space["-mem2reg"])
    result = env.validate()
    assert result.okay(), result.error_details
    assert result.reward_validated
    assert result.benchmark_semantics_validated
    assert env.in_episode
    monkeypatch.setattr(Benchmark, "is_validatable", lambda benchmark: False)  # it takes seconds, and was seen to work
    wrong = compiler_gym.CompilerEnvState(benchmark=GCD, walltime=1, reward=5, commandline=env.commandline())
    result = env.validate(wrong)
    assert result.reward_validation_failed
    assert result.errors[0].type.startswith("Expected reward 5")
    gone = compiler_gym.CompilerEnvState(benchmark=GCD, walltime=1, commandline="opt -nonsense input.bc -o output.bc")
    assert env.validate(gone).actions_replay_failed


def test_environments_share_a_service_by_its_url() -> None:
    service = CompilerGymServiceConnection(llvm.LLVM_SERVICE_BINARY, ConnectionOpts())
    try:
        folder = service.connection.working_dir
        assert folder.is_dir() and folder == service.connection.working_dir
        with LlvmEnv(service=service.connection.url, benchmark=GCD) as one, LlvmEnv(benchmark=GCD) as other:
            one.reset()
            other.reset()
            assert not one.step(0)[2]
        with LlvmEnv(service_connection=service, benchmark=GCD) as env:
            env.reset()
            assert env.service is service
    finally:
        service.close()
    assert service.closed and not folder.exists()
    with pytest.raises(TypeError, match="No endpoint provided for service connection"):
        CompilerGymServiceConnection("")


def test_an_environment_can_be_used_in_another_thread(env: Any) -> None:
    env.reset()
    results: list[Any] = []
    thread = Thread(target=lambda: results.append(env.step(0)))
    thread.start()
    thread.join(timeout=30)
    assert results[0][2] is False
    assert env.actions == [0]
