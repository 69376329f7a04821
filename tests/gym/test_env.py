"""The synchronous environment: Gymnasium's interface, CompilerGym's names, and what one may do with both."""

import asyncio
import copy
import os
import pickle
import signal
import threading
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import aiocg.gym
from aiocg.errors import DeadlineExceeded, EnvClosed, InvalidAction, ParameterFailed, ResetNeeded, UnknownName
from aiocg.spaces import NoObservation, Scalar
from aiocg.spaces.rewards import CostReward


def test_step_returns_five_values_of_gymnasiums_types(llvm: aiocg.gym.LlvmEnv) -> None:
    observation, info = llvm.reset(seed=3)
    assert observation in llvm.observation_space
    assert info["benchmark"] == "benchmark://programs-v0/gcd"
    observation, reward, terminated, truncated, info = llvm.step("mem2reg")
    assert observation in llvm.observation_space and observation.shape == (56,)
    assert isinstance(reward, float) and reward > 0
    assert terminated is False and truncated is False
    assert info["action_had_no_effect"] is False
    assert isinstance(info["state"], np.uint64) and int(info["state"]) == llvm.state_hash


def test_actions_are_indices_names_or_lists_of_either(scripted: aiocg.gym.CompilerEnv) -> None:
    assert scripted.step("increment")[0] == 6
    assert scripted.step(2)[0] == 12
    assert scripted.step(["inc", 2])[0] == 26
    assert scripted.multistep(iter(["double", "double"]))[:2] == (104, -78.0)
    assert scripted.actions == [1, 2, 1, 2, 2, 2]
    assert scripted.step([])[4]["action_had_no_effect"]


def test_spaces_asked_for_in_a_list_come_as_a_list(scripted: aiocg.gym.CompilerEnv) -> None:
    observation, reward, *_ = scripted.step("inc", observation_spaces=["digits", "value"], reward_spaces=["value"])
    assert observation == ["6", 6] and reward == [-1.0]
    observation, reward, *_ = scripted.step("inc", observation_spaces="digits", reward_spaces="value")
    assert (observation, reward) == ("7", -1.0)


def test_without_spaces_the_observation_is_none_and_the_reward_zero(runtime: aiocg.gym.SyncRuntime) -> None:
    with runtime.make("llvm-v0", benchmark="programs-v0/gcd") as env:
        assert env.observation_space == NoObservation()
        assert env.reset()[0] is None
        assert env.step("mem2reg")[:2] == (None, 0.0)
        assert None in env.observation_space and 0 not in env.observation_space
        assert env.episode_reward is None and env.observation_space_spec is None and env.reward_space_spec is None


def test_bad_action_raises_and_changes_nothing(scripted: aiocg.gym.CompilerEnv) -> None:
    for action in (99, 1.5, None, b"inc"):
        with pytest.raises(InvalidAction):
            scripted.step(action)
    with pytest.raises(UnknownName, match="did you mean increment"):
        scripted.step("incremnt")
    with pytest.raises(UnknownName):
        scripted.step("inc", observation_spaces=["valu"])
    assert scripted.actions == [] and scripted.observe("value") == 5


def test_step_before_a_reset_and_after_the_end_ask_for_a_reset(runtime: aiocg.gym.SyncRuntime) -> None:
    with runtime.make("scripted-v0") as env:
        with pytest.raises(ResetNeeded):
            env.step("inc")
        env.reset()
        assert env.step("refuse")[2]
        with pytest.raises(ResetNeeded):
            env.step("inc")


@pytest.mark.parametrize(("action", "error"), [("crash", "WorkerCrashed"), ("refuse", "ActionFailed")])
def test_failure_ends_the_episode_and_no_other(runtime: aiocg.gym.SyncRuntime, action: str, error: str) -> None:
    with runtime.make("scripted-v0", benchmark="scripted-v0/5") as env:
        env.reset()
        other = env.fork()
        other.step("inc")
        observation, _, terminated, truncated, info = env.step(action)
        assert terminated and not truncated
        assert info["error_type"] == error and info["error_details"]
        assert observation == env.observation_space_spec.default  # type: ignore[union-attr]
        assert other.step("inc")[0] == 7
        assert env.reset()[0] == 5


def test_timeout_of_a_step_is_its_own_or_the_environments(scripted: aiocg.gym.CompilerEnv) -> None:
    *_, terminated, _, info = scripted.step("hang", timeout=0.1)
    assert terminated and info["error_type"] == DeadlineExceeded.__name__
    scripted.reset()
    scripted.timeout = 0.1
    assert scripted.fork().step("hang")[4]["error_type"] == DeadlineExceeded.__name__
    with pytest.raises(ValueError, match="positive number of seconds"):
        scripted.timeout = -1


class _Raising(CostReward):
    def __init__(self, error: BaseException) -> None:
        super().__init__("raising", "value")
        self.error = error

    def reward(self, *args: object) -> float:
        raise self.error


@pytest.mark.parametrize("error", [KeyError("mine"), SystemExit(3), KeyboardInterrupt(), GeneratorExit()], ids=repr)
def test_whatever_a_reward_raises_is_raised_by_the_step(
    runtime: aiocg.gym.SyncRuntime, scripted: aiocg.gym.CompilerEnv, error: BaseException
) -> None:
    with runtime.make("scripted-v0", benchmark="scripted-v0/5") as other:
        other.reset()
        scripted.reward_space = _Raising(error)
        with pytest.raises(type(error)):
            scripted.step("inc")
        with pytest.raises(type(error)):
            scripted.expand(["inc"])
        scripted.reward_space = "value"
        assert scripted.step("inc")[:2] == (7, -1.0)  # what was done is done, only not rewarded
        assert other.step("inc")[0] == 6


def test_what_means_something_to_a_future_is_raised_in_other_words(scripted: aiocg.gym.CompilerEnv) -> None:
    for error in (StopIteration("mine"), asyncio.CancelledError("mine")):
        scripted.reward_space = _Raising(error)
        with pytest.raises(RuntimeError, match="mine"):
            scripted.step("inc")


def test_names_and_indices_may_be_of_numpys_types(llvm: aiocg.gym.LlvmEnv) -> None:
    actions = np.array(["mem2reg", "gvn"])
    llvm.reset(action_space=actions, observation_space=np.str_("Ir"), reward_space=np.str_("IrInstructionCount"))
    for action in (actions[0], actions, np.int8(1), np.array(1), np.array([0, 1]), np.array("gvn")):
        llvm.step(action)
    assert llvm.actions == [0, 0, 1, 1, 1, 0, 1, 1]
    assert llvm.step([], observation_spaces=[np.str_("IrInstructionCount")])[0] == [llvm.observe("IrInstructionCount")]
    assert isinstance(llvm.observe(np.str_("IrSha1")), str)
    assert '"reward_space":"IrInstructionCount"' in llvm.state.to_json()
    llvm.reset(action_space="PipelineText")
    llvm.step(np.str_("function(sroa)"))
    assert llvm.action_texts == ("function(sroa)",)


# ------------------------------------------------------------------------------------------------------ reset


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"options": ["benchmark"]}, "options of a reset are a dictionary"),
        ({"benchmark": 5}, "a benchmark is given by its name"),
        ({"benchmark": ["scripted-v0/5"]}, "a benchmark is given by its name"),
        ({"observation_space": ["value"]}, "observation space is one name"),
        ({"reward_space": 1}, "reward space is one name"),
        ({"action_space": 1}, "given as a list, not as int"),
        ({"timeout": "long"}, "positive number of seconds"),
    ],
)
def test_setting_of_the_wrong_type_is_said(
    scripted: aiocg.gym.CompilerEnv, settings: dict[str, object], said: str
) -> None:
    scripted.step("inc")
    with pytest.raises((TypeError, ValueError, InvalidAction), match=said):
        scripted.reset(**settings)  # type: ignore[arg-type]
    assert scripted.step("inc")[0] == 7


def test_reset_takes_settings_as_options_and_as_keywords(runtime: aiocg.gym.SyncRuntime) -> None:
    with runtime.make("scripted-v0", benchmark="scripted-v0/5") as env:
        assert env.reset(options={"benchmark": "scripted-v0/7"})[0] == 7
        assert env.reset()[0] == 7
        options = {"benchmark": "scripted-v0/8", "observation_space": "digits"}
        assert env.reset(options=options, benchmark="scripted-v0/9")[0] == "9"
        assert env.reset(observation_space=None, reward_space=None)[0] is None
        assert env.step("inc")[:2] == (None, 0.0)
        env.reset(action_space="Recipes", reward_space=CostReward("double value", "value"))
        assert env.step("odd")[1] == -10.0 and env.reward_space == "double value"
        with pytest.raises(UnknownName, match="setting of a reset"):
            env.reset(options={"benchmrk": "scripted-v0/7"})
        assert env.actions == [1]


def test_failed_reset_loses_nothing(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step("inc")
    with pytest.raises(aiocg.errors.UnknownName):
        scripted.reset(observation_space="nothing like it")
    with pytest.raises(Exception, match="nowhere-v0"):
        scripted.reset(benchmark="nowhere-v0/1", observation_space="digits")
    assert scripted.step("inc")[0] == 7


def test_benchmark_set_takes_effect_at_the_next_reset(scripted: aiocg.gym.CompilerEnv) -> None:
    with pytest.warns(UserWarning, match="before the next reset"):
        scripted.benchmark = "scripted-v0/20"
    assert str(scripted.benchmark.uri) == "benchmark://scripted-v0/5"
    assert scripted.step("inc")[0] == 6
    assert scripted.reset()[0] == 20
    assert str(scripted.benchmark.uri) == "benchmark://scripted-v0/20"


def test_seed_makes_samples_repeat(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.reset(seed=7)
    first = [scripted.action_space.sample() for _ in range(8)]
    number = scripted.np_random.integers(1 << 30)
    scripted.reset(seed=7)
    assert [scripted.action_space.sample() for _ in range(8)] == first
    assert scripted.np_random.integers(1 << 30) == number


# ------------------------------------------------------------------------------------------- views, settings


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("rewards", ["value"]),
        ("rewards", CostReward("own", "value")),
        ("datasets", "scripted-v0"),
        ("datasets", ["scripted-v0"]),
        ("derived_observation_spaces", [{"id": "tenth", "base_id": "value"}]),
        ("extra_actions", "inc"),
        ("runtime", aiocg.Runtime),
    ],
)
def test_argument_of_the_wrong_type_is_said(argument: str, value: object) -> None:
    said = "texts of actions" if argument == "extra_actions" else argument
    with pytest.raises((TypeError, InvalidAction), match=said):
        aiocg.gym.CompilerEnv("scripted-v0", **{argument: value})  # type: ignore[arg-type]


def test_derived_space_may_say_what_it_is_after_an_error(scripted: aiocg.gym.CompilerEnv) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        scripted.add_derived_space("inverse", "value", lambda value: 1 / value, Scalar(0, 1, "float64"))
    assert "give default=" in caught.value.__notes__[0]
    scripted.add_derived_space("inverse", "value", lambda value: 1 / value, Scalar(0, 1, "float64"), default=1.0)
    assert scripted.observe("inverse") == 0.2
    assert scripted.observation_spaces["inverse"].default == 1.0
    scripted.observation.add_derived_space("next", "value", lambda value: value + 1)
    assert scripted.observation.next() == 6


def test_views_give_any_observation_and_what_was_earned(llvm: aiocg.gym.LlvmEnv) -> None:
    before = llvm.observation["IrInstructionCount"]
    llvm.step("mem2reg")
    llvm.step(["instcombine", "simplifycfg"])
    assert llvm.observation.IrInstructionCount() < before
    assert "Ir" in llvm.observation and "Ir" in dir(llvm.observation)
    assert llvm.reward["IrInstructionCountOz"] == pytest.approx(llvm.episode_reward)
    assert llvm.reward.IrInstructionCount() == before - llvm.observation["IrInstructionCount"]
    with pytest.raises(UnknownName, match="did you mean"):
        _ = llvm.observation["Autophse"]
    with pytest.raises(AttributeError, match="did you mean"):
        llvm.observation.Autophse()
    assert set(llvm.observation.spaces) == set(llvm.observation_spaces)


def test_spaces_are_set_by_name_or_none(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.observation_space = "digits"  # type: ignore[assignment]
    assert scripted.step("inc")[0] == "6"
    scripted.observation_space = None  # type: ignore[assignment]
    assert scripted.step("inc")[0] is None
    with pytest.raises(UnknownName):
        scripted.observation_space = "digit"  # type: ignore[assignment]
    scripted.reward_space = None
    assert scripted.step("inc")[1] == 0.0
    scripted.action_space = "Arithmetic"  # type: ignore[assignment]
    assert scripted.action_space.name == "Arithmetic"


def test_spaces_of_ones_own_survive_copies_and_pickles(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.add_derived_space("tenth", "value", _tenth, Scalar(0, None, "float64"))
    scripted.add_reward_space(CostReward("own", "value"))
    scripted.observation_space = "tenth"  # type: ignore[assignment]
    scripted.reward_space = "own"
    for env in (scripted, scripted.fork(), pickle.loads(pickle.dumps(scripted))):
        assert env.step("inc")[:2] == (0.6, -1.0)
    aiocg.gym.shutdown()


def _tenth(value: int) -> float:
    return value / 10


def test_parameters_are_sent_and_kept(scripted: aiocg.gym.CompilerEnv) -> None:
    assert scripted.send_params(("echo", "hello"), ("echo", "there"))
    scripted.reset()
    assert scripted.observe("echo") == "there" == scripted.fork().observe("echo")
    assert scripted.parameters == {"echo": "there"}
    with pytest.raises(ParameterFailed):
        scripted.send_param("no such", "key")


def test_datasets_of_ones_own_belong_to_one_environment(runtime: aiocg.gym.SyncRuntime) -> None:
    dataset = aiocg.testing.ScriptedDataset()
    dataset.name = "mine-v0"
    with runtime.make("scripted-v0", benchmark="mine-v0/12", datasets=[dataset]) as env:
        assert env.reset()[0] == 12
        assert "mine-v0" in env.datasets and "mine-v0" not in runtime.datasets
        env.datasets = runtime.datasets
        assert "mine-v0" not in env.datasets


# --------------------------------------------------------------------------------------- states and copies


def test_fork_and_deepcopy_go_their_own_ways(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step("inc")
    first, second = scripted.fork(), copy.deepcopy(scripted)
    first.step("double")
    assert second.step("inc")[0] == 7
    assert (scripted.observe("value"), first.actions, second.actions) == (6, [1, 2], [1, 1])
    scripted.close()
    assert first.step("inc")[0] == 13
    with pytest.raises(TypeError, match="fork"):
        copy.copy(first)


def test_fork_has_its_own_copy_of_the_random_stream(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.reset(seed=5)
    child = scripted.fork()
    assert child.np_random.integers(1 << 30) == scripted.np_random.integers(1 << 30)


def test_copy_and_pickle_of_what_refers_to_itself(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step("inc")
    scripted.__dict__["neighbours"] = [scripted]
    try:
        for other in (scripted.fork(), pickle.loads(pickle.dumps(scripted))):
            assert other.neighbours[0] is other is not scripted
            assert other.action_texts == scripted.action_texts
    finally:
        aiocg.gym.shutdown()


def test_environment_says_what_it_is(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step("inc")
    assert repr(scripted) == "<CompilerEnv scripted-v0 benchmark://scripted-v0/5 1 actions>"
    assert "object at" in repr(aiocg.gym.CompilerEnv.__new__(aiocg.gym.CompilerEnv))


def test_snapshot_is_come_back_to(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step("inc")
    snapshot = scripted.snapshot()
    scripted.step("crash")
    scripted.restore(snapshot)
    assert scripted.step("inc")[0] == 7
    snapshot.close()
    with pytest.raises(EnvClosed):
        scripted.restore(snapshot)


def test_expand_leaves_the_state_as_it_is(scripted: aiocg.gym.CompilerEnv) -> None:
    candidates = scripted.expand([["inc"], ["double", "inc"], "refuse"])
    assert [candidate.observation for candidate in candidates[:2]] == [6, 11]
    assert candidates[2].error is not None
    assert scripted.actions == []


def test_state_is_applied_elsewhere(runtime: aiocg.gym.SyncRuntime, llvm: aiocg.gym.LlvmEnv) -> None:
    llvm.step(["mem2reg", "gvn"])
    with runtime.replay(llvm.state) as env:
        assert env.state_hash == llvm.state_hash
        assert env.state.reward == pytest.approx(llvm.episode_reward)
        env.step("dce")
        env.apply(llvm.state)
        assert env.state_hash == llvm.state_hash
        assert not env.validate(semantics=False).wrong
    assert "mem2reg" in llvm.commandline()


def test_pickle_comes_back_to_the_same_state(llvm: aiocg.gym.LlvmEnv) -> None:
    llvm.reset(seed=4)
    llvm.step(["mem2reg", "gvn"])
    llvm.timeout = 33.0
    try:
        with pickle.loads(pickle.dumps(llvm)) as env:
            assert type(env) is type(llvm)
            assert env.state_hash == llvm.state_hash
            assert env.episode_reward == llvm.episode_reward and env.actions == llvm.actions
            assert env.timeout == 33.0
            assert env.np_random.integers(1 << 30) == llvm.np_random.integers(1 << 30)
            assert env.step("dce")[1] == llvm.step("dce")[1]
    finally:
        aiocg.gym.shutdown()


def test_pickle_carries_a_benchmark_that_only_this_process_has(llvm: aiocg.gym.LlvmEnv) -> None:
    llvm.reset(benchmark=llvm.make_benchmark_from_source("int twice(int x) { return x + x; }"))
    try:
        with pickle.loads(pickle.dumps(llvm)) as env:
            assert env.ir_sha1 == llvm.ir_sha1
    finally:
        aiocg.gym.shutdown()


# ---------------------------------------------------------------------------------------------- the rest


def test_render_says_where_it_stands(runtime: aiocg.gym.SyncRuntime, capsys: pytest.CaptureFixture[str]) -> None:
    with runtime.make("scripted-v0", benchmark="scripted-v0/5", render_mode="ansi", reward_space="value") as env:
        assert "not reset yet" in (env.render() or "")
        env.reset()
        env.step("double")
        text = env.render() or ""
        assert "scripted-v0/5" in text and "double" in text and "10" in text and "-5.0000" in text
        env.step("refuse")
        assert "ended" in (env.render() or "")
    assert capsys.readouterr().out == ""
    with runtime.make("scripted-v0", benchmark="scripted-v0/5", render_mode="human") as env:
        env.reset()
        env.step("inc")
        assert env.render() is None
    assert capsys.readouterr().out.count("scripted-v0/5") == 3
    with runtime.make("scripted-v0") as env, pytest.raises(ValueError, match="render_mode"):
        env.render()
    with pytest.raises(UnknownName, match="render mode"):
        runtime.make("scripted-v0", render_mode="rgb_array")
    with pytest.raises(TypeError, match="human, ansi"), pytest.warns(UserWarning, match="rgb_array"):
        gymnasium.make("llvm-v0", render_mode="rgb_array")  # Stable-Baselines3 tries this, and then without
    with pytest.raises(TypeError) as caught, pytest.warns(UserWarning, match="rgb_array"):
        gymnasium.make("llvm-v0", render_mode="rgb_array")
    assert str(caught.value) == "unknown render mode 'rgb_array'; there are: human, ansi"


def test_closed_environment_says_so_and_closes_again(runtime: aiocg.gym.SyncRuntime) -> None:
    env = runtime.make("scripted-v0")
    env.reset()
    env.close()
    env.close()
    for call in (env.reset, lambda: env.step("inc"), lambda: env.observe("value"), env.fork):
        with pytest.raises(EnvClosed):
            call()


def test_threads_share_a_runtime_and_even_an_environment(runtime: aiocg.gym.SyncRuntime) -> None:
    shared = runtime.make("scripted-v0", benchmark="scripted-v0/0")
    shared.reset()
    values: list[int] = []

    def work() -> None:
        with runtime.make("scripted-v0", benchmark="scripted-v0/0") as own:
            own.reset()
            for _ in range(50):
                own.step("inc")
                shared.step("inc")
            values.append(own.observe("value"))

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert values == [50] * 6
    assert shared.observe("value") == 300
    shared.close()


def test_killed_worker_is_replaced_and_nobody_notices(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.step(["inc", "double"])
    for pid in scripted.runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    assert scripted.step("inc")[0] == 13


def test_interrupt_leaves_the_environment_usable(runtime: aiocg.gym.SyncRuntime) -> None:
    with runtime.make("scripted-v0", benchmark="scripted-v0/5") as env:
        env.reset()
        timer = threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGINT))
        with pytest.raises(KeyboardInterrupt):
            timer.start()
            env.step("hang")
        assert env.reset()[0] == 5
        assert env.step("inc")[0] == 6


def test_asynchronous_code_cannot_wait_for_itself(scripted: aiocg.gym.CompilerEnv) -> None:
    scripted.add_derived_space("circular", "value", lambda value: scripted.observe("value"))
    with pytest.raises(RuntimeError, match="wait for itself"):
        scripted.observe("circular")
    assert scripted.step("inc")[0] == 6


def test_files_of_the_users_are_benchmarks_and_results(llvm: aiocg.gym.LlvmEnv, tmp_path: Path) -> None:
    source = tmp_path / "square.c"
    source.write_text("int square(int x) { int y = x; return y * y; }")
    llvm.reset(benchmark=llvm.make_benchmark(source, copt=["-DUNUSED=1"], system_includes=False))
    llvm.step("mem2reg")
    assert "alloca" not in llvm.ir and len(llvm.ir_sha1) == 40
    assert llvm.write_ir(tmp_path / "square.ll").read_text() == llvm.ir
    llvm.write_bitcode(tmp_path / "square.bc")
    llvm.reset(benchmark=str(tmp_path / "square.bc"))
    assert "alloca" not in llvm.ir
    source.write_text('#include <string.h>\nint main(void) { return (int)strlen(""); }')
    line = f"gcc -DUNUSED {source} -o {tmp_path / 'square'}"
    with pytest.raises(aiocg.datasets.errors.BenchmarkInitError, match=r"string\.h"):
        llvm.reset(benchmark=llvm.make_benchmark_from_command_line(line, system_includes=False))
    llvm.runtime_observation_count = 7
    llvm.runtime_warmup_runs_count = 2
    llvm.buildtime_observation_count = 3
    child = llvm.fork()
    child.reset()
    counts = (child.runtime_observation_count, child.runtime_warmup_runs_count, child.buildtime_observation_count)
    assert counts == (7, 2, 3)


def test_environment_works_with_gymnasiums_wrappers(runtime: aiocg.gym.SyncRuntime) -> None:
    env: gymnasium.Env[object, object] = runtime.make("scripted-v0", benchmark="scripted-v0/5", reward_space="value")
    env = gymnasium.wrappers.TimeLimit(env, max_episode_steps=3)
    env = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TransformReward(env, lambda r: 10.0 * r))
    env.reset()
    env.step("inc")
    other = copy.deepcopy(env)
    for one in (env, other):
        one.step("inc")
        *_, terminated, truncated, info = one.step("inc")
        assert (terminated, truncated, info["episode"]["r"]) == (False, True, -30.0)
    env.close()
