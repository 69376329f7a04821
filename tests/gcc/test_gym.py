"""GCC's environments for blocking code: settings that go along, attributes, and spaces under Gymnasium's tools."""

import asyncio
import copy
import math
import multiprocessing
import os
import pickle
import shutil
import warnings
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import aiocg
import aiocg.gym
import aiocg.testing
from aiocg import gcc
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import EnvironmentNotSupported, InvalidAction, ObservationFailed, UnknownName
from aiocg.gcc import GccSpec, InvalidSpec
from aiocg.gym import GccEnv, SyncRuntime

GCC = shutil.which("gcc")
pytestmark = pytest.mark.skipif(GCC is None, reason="needs gcc (apt install gcc)")

QSORT = "programs-v0/qsort"
BY_PATH = os.path.realpath(GCC or "gcc")  # another name of the same compiler, so that the setting can be seen
ID = f"gcc-v0?gcc_bin={BY_PATH}"


@pytest.fixture(scope="module")
def runtime() -> Iterator[SyncRuntime]:
    with SyncRuntime(workers=1) as runtime:
        yield runtime


@pytest.fixture
def env(runtime: SyncRuntime) -> Iterator[GccEnv]:
    with runtime.make("gcc-v0", benchmark=QSORT) as env:
        assert isinstance(env, GccEnv)
        env.reset()
        yield env


def written(name: str, text: bytes = b"int f(int x) { return x + 1; }\n") -> Benchmark:
    """Return a program that is not compiled by anything but GCC."""

    def refuse() -> bytes:
        raise AssertionError(f"something wants {name} as LLVM's code")

    tree = SourceTree(("f.c",), {"f.c": text})
    return Benchmark(f"benchmark://written-v0/{name}", refuse, source_tree=lambda: tree)


# --------------------------------------------------------------------------------------- which compiler it is


@pytest.mark.slow
def test_the_setting_goes_along_with_everything_that_is_made_of_an_environment(runtime: SyncRuntime) -> None:
    with gymnasium.make("gcc-v0", gcc_bin=BY_PATH, benchmark=QSORT, runtime=runtime) as made:
        env: Any = made
        env.reset()
        env.step("-O2")
        others = [copy.deepcopy(env), env.fork(), runtime.replay(env.state)]
        assert env.environment == ID == env.state.environment
        line = env.commandline()
        assert line.startswith(f"{BY_PATH} ") and " -O2 -c /" in line and line.endswith("/qsort.c -o qsort.o")
        for other in (env, *others):
            assert other.gcc_spec.gcc == BY_PATH and other.environment == ID
            assert other.state_hash == env.state_hash and other.asm_hash == env.asm_hash
        for other in others:
            other.close()
    with runtime.make(ID) as other:
        assert other.environment == ID


def test_a_pickle_has_the_setting_and_the_state(runtime: SyncRuntime) -> None:
    with runtime.make("gcc-v0", gcc_bin=BY_PATH, benchmark=QSORT) as made:
        env: Any = made
        env.reset()
        env.choices = [2, *[-1] * (len(env.gcc_spec.options) - 1)]
        data = pickle.dumps(env)
        assert len(data) < 100_000
    try:
        again: Any = pickle.loads(data)
        assert again.environment == ID and again.gcc_spec.gcc == BY_PATH
        assert again.action_texts == env.action_texts and again.state_hash == env.state_hash
    finally:
        aiocg.gym.shutdown()


def test_a_fork_of_the_process_goes_on_with_the_same_compiler(runtime: SyncRuntime) -> None:
    def look(env: Any, results: Any) -> None:
        results.put((env.gcc_spec.gcc, env.asm_hash, env.environment))
        aiocg.gym.shutdown()

    with warnings.catch_warnings(), runtime.make(ID, benchmark=QSORT) as made:
        warnings.simplefilter("ignore", DeprecationWarning)  # a fork with threads, which is the point
        env: Any = made
        env.reset()
        env.step("-Os")
        context = multiprocessing.get_context("fork")
        results = context.Queue()
        child = context.Process(target=look, args=(env, results))
        child.start()
        assert results.get(timeout=60) == (BY_PATH, env.asm_hash, ID)
        child.join()


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"gcc_bin": "gcc-of-nobody"}, EnvironmentNotSupported, "gcc-of-nobody"),
        ({"gcc_bin": 12}, TypeError, "gcc_bin"),
        ({"gcc_bni": "gcc"}, TypeError, "gcc_bni.*gcc_bin"),
    ],
)
def test_a_wrong_setting_is_refused(runtime: SyncRuntime, settings: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        runtime.make("gcc-v0", **settings)
    with pytest.raises(UnknownName, match="gcc_bni"):
        runtime.make("gcc-v0?gcc_bni=gcc")
    with pytest.raises(TypeError, match="gcc_bin"):
        runtime.make("llvm-v0", gcc_bin="gcc")


# ------------------------------------------------------------------------------------- the options, all at once


def test_a_spec_tells_of_the_compiler_before_there_is_an_episode(runtime: SyncRuntime) -> None:
    with runtime.make("gcc-v0", benchmark=QSORT, reward_space="obj_size_Os") as made:
        env: Any = made
        spec = env.gcc_spec
        assert not env.in_episode and env.gcc_spec is spec
    assert spec.gcc == "gcc" and spec.version == env.compiler_version
    assert {option.name for option in spec.options} > {"-O", "-fgcse", "--param=max-inline-insns-auto"}
    assert spec.size == math.prod(len(option) + 1 for option in spec.options) > 10**1000
    assert all(one.name and one.reason for one in spec.dropped)
    assert GccSpec.from_json(spec.to_json()) == spec and len(repr(spec)) < 200
    assert spec.choices(spec.command_line([2, *[-1] * (len(spec.options) - 1)]))[:2] == [2, -1]
    with pytest.raises(InvalidSpec):
        GccSpec.from_json('{"gcc": 5}')


async def test_an_environment_of_another_compiler_has_no_options() -> None:
    async with aiocg.Runtime(workers=1) as other:
        env = await other.make("scripted-v0", benchmark=aiocg.testing.ScriptedDataset().benchmark("scripted-v0/5"))
        await env.reset()
        for ask in (gcc.spec(env), gcc.choices(env), gcc.set_choices(env, [1])):
            with pytest.raises(TypeError, match="no environment of GCC"):
                await ask


async def test_choices_and_spec_are_there_without_blocking() -> None:
    async with aiocg.Runtime(workers=1) as other:
        env = await other.make("gcc-v0", gcc_bin=BY_PATH, benchmark=QSORT, observation_space="asm_size")
        spec = await gcc.spec(env)
        before, _ = await env.reset()
        chosen = spec.choices("-Os -fno-gcse")
        observation, _, terminated, _, _ = await gcc.set_choices(env, chosen)
        assert not terminated and observation < before
        assert await gcc.choices(env) == chosen and env.state.environment == ID


def test_choices_are_set_by_one_action_whatever_the_action_space(env: GccEnv) -> None:
    count = len(env.gcc_spec.options)
    assert env.choices == [-1] * count
    chosen = [2, *[-1] * (count - 3), 0, 1]
    env.choices = chosen
    assert env.choices == chosen and len(env.action_texts) == 1 and env.action_texts[0].startswith("gcc -O2 ")
    env.action_space = "choices"
    assert env.actions == [tuple(choice + 1 for choice in chosen)]
    env.choices = np.full(count, -1)
    assert env.commandline().startswith("gcc ") and env.observe("command_line") == "gcc"


@pytest.mark.parametrize("values", [[-1], "gcc", None, 5])
def test_wrong_choices_are_refused_and_nothing_is_done(env: GccEnv, values: Any) -> None:
    state = env.state_hash
    with pytest.raises(InvalidAction):
        env.choices = values
    for wrong in (-2, 10**12, 0.5):
        with pytest.raises(InvalidAction):
            env.choices = [wrong, *env.choices[1:]]
    assert env.state_hash == state and env.action_texts == ()


def test_setting_choices_earns_what_a_step_would(env: GccEnv) -> None:
    env.reset(reward_space="obj_size")
    before = env.obj_size
    env.choices = env.gcc_spec.choices("-Os")
    assert env.episode_reward == before - env.obj_size > 0


def test_choices_whose_observation_fails_raise_and_the_environment_goes_on(env: GccEnv) -> None:
    env.reset(benchmark=written("new", b"int f(void) { return 1; } /* %s */" % os.urandom(8).hex().encode()))
    env.observation_space = "obj_size"
    env.compile_timeout = 0.001
    with pytest.raises(ObservationFailed):  # nobody has compiled it before
        env.choices = env.gcc_spec.choices("-O2")
    env.compile_timeout = 60
    env.reset()
    env.choices = env.gcc_spec.choices("-O2")
    assert env.obj_size > 0


# ------------------------------------------------------------------------------------------------ attributes


def test_attributes_are_the_observations(env: GccEnv) -> None:
    assert "int" in env.source and "insn" in env.rtl
    assert env.asm_size == len(env.asm.encode()) and len(env.asm_hash) == len(env.obj_hash)
    assert env.obj[:4] == b"\x7fELF" and env.obj_size == len(env.obj) > env.obj_text_size > 0
    assert env.instruction_counts["ret"] > 0
    assert env.asm_hash != env.obj_hash


def test_limits_and_counts_are_kept_by_resets_and_forks(env: GccEnv) -> None:
    assert (env.compile_timeout, env.runtime_observation_count, env.runtime_warmup_runs_count) == (60.0, 3, 0)
    env.compile_timeout, env.runtime_observation_count, env.runtime_warmup_runs_count = 20, 5, 1
    env.reset()
    with env.fork() as fork:
        for one in (env, fork):
            assert (one.compile_timeout, one.runtime_observation_count, one.runtime_warmup_runs_count) == (20.0, 5, 1)


# ------------------------------------------------------------------------------------------ Gymnasium's tools


@pytest.mark.parametrize("space", ["edits", "choices", "options", "command_line"])
@pytest.mark.parametrize("observation", ["choices", "command_line"])
def test_the_environment_passes_gymnasiums_checker(runtime: SyncRuntime, space: str, observation: str) -> None:
    with (
        warnings.catch_warnings(),
        runtime.make("gcc-v0", benchmark=QSORT, action_space=space, observation_space=observation) as env,
    ):
        warnings.filterwarnings("ignore", ".*(flat|Box|spec|normalized|infinity|render).*")
        check_env(env, skip_render_check=True)
        assert env.reset()[0] in env.observation_space


@pytest.mark.parametrize("space", ["choices", "options"])
def test_the_checker_finds_that_what_fails_fails_the_same_each_time(runtime: SyncRuntime, space: str) -> None:
    text = b"#ifdef __OPTIMIZE__\n#error only as it is\n#endif\nint f(void) { return 1; }\n"
    settings = {"action_space": space, "observation_space": "obj_text_size", "reward_space": "obj_text_size"}
    with warnings.catch_warnings(), runtime.make("gcc-v0", benchmark=written("naked", text), **settings) as env:
        warnings.filterwarnings("ignore", ".*(flat|Box|spec|normalized|infinity|render).*")
        check_env(env, skip_render_check=True)
        infos = []
        for action in ("gcc -O1", "gcc -O1", "gcc -O2"):
            env.reset()
            _, _, terminated, _, info = env.step(env.action_space.from_string(action))
            assert terminated and "only as it is" in info["error_details"]
            infos.append(info)
        assert infos[0] == infos[1] != infos[2]  # which has failed elsewhere, in the same words
        assert infos[0]["error"] in {infos[1]["error"]}


def test_wrappers_of_gymnasium_see_a_vector(runtime: SyncRuntime) -> None:
    made = runtime.make("gcc-v0", benchmark=QSORT, action_space="choices", observation_space="choices")
    env = gymnasium.wrappers.TimeLimit(gymnasium.wrappers.FlattenObservation(made), 2)
    env = gymnasium.wrappers.TransformAction(env, lambda action: action * 0, env.action_space)
    observation, _ = env.reset(seed=1)
    assert observation in env.observation_space and env.action_space.dtype == np.int64
    for last in (False, True):
        observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
        assert observation.tolist() == [-1] * len(observation) and not terminated and truncated is last
    env.close()


@pytest.mark.parametrize("space", ["edits", "choices", "options", "command_line"])
def test_a_vector_steps_samples_of_every_space(runtime: SyncRuntime, space: str) -> None:
    with closing(runtime.make_vec("gcc-v0", 3, gcc_bin=BY_PATH, benchmark=QSORT, action_space=space)) as envs:
        assert envs.environment == ID
        _, before = envs.reset(seed=1)
        envs.action_space.seed(1)
        _, rewards, terminations, _, infos = envs.step(envs.action_space.sample())
        assert rewards.tolist() == [0, 0, 0] and not terminations.any()  # nothing was compiled
        changed = ~infos["action_had_no_effect"]  # as steps down from where an option is not given
        assert (changed == (infos["state"] != before["state"])).all()
        assert len(set(infos["state"][changed])) == changed.sum()
        assert all("gcc" in version for version in envs.get_attr("compiler_version"))


def test_every_environment_of_a_vector_has_its_own_command_line(runtime: SyncRuntime) -> None:
    settings = {"action_space": "choices", "observation_space": "choices", "reward_space": "obj_size"}
    with closing(runtime.make_vec("gcc-v0", 2, benchmark=QSORT, **settings)) as envs:
        envs.reset()
        actions = np.zeros((2, len(envs.single_action_space.options)), dtype=np.int64)
        actions[1, 0] = 3
        observations, rewards, _, _, _ = envs.step(actions)
        assert (observations + 1 == actions).all()
        assert rewards[0] == 0 < rewards[1]


def test_a_space_of_a_size_that_learners_can_take_goes_along(runtime: SyncRuntime) -> None:
    with runtime.make("gcc-v0", benchmark=QSORT, action_space="choices") as env:
        limited: Any = env.action_space
        limited = limited.limited(8)
        assert limited.nvec.sum() < 10_000 < env.action_space.nvec.sum()  # type: ignore[attr-defined]
    with closing(runtime.make_vec("gcc-v0", 2, benchmark=QSORT, action_space=limited)) as envs:
        envs.reset(seed=1)
        assert not envs.step(envs.action_space.sample())[2].any()
    with runtime.make("gcc-v0", benchmark=QSORT, action_space=limited) as made:
        env = copy.deepcopy(made)
        env.reset(seed=2)
        action = env.action_space.sample()
        env.step(action)
        assert env.actions == [tuple(action)] and env.action_space == limited


def test_mappings_of_a_vector_can_be_given_one_by_one(runtime: SyncRuntime) -> None:
    with closing(runtime.make_vec("gcc-v0", 2, benchmark=QSORT, action_space="options")) as envs:
        envs.reset()
        envs.step([{"-O": 2}, {"-fgcse": False}])
        lines = envs.asynchronous._pool.lanes
        assert [lane.env.action_texts for lane in lines] == [("gcc -O2",), ("gcc -fno-gcse",)]
        with pytest.raises(InvalidAction):
            envs.step({"-O": 2})


# --------------------------------------------------------------------------------- only GCC compiles its programs


def test_vectors_pickles_and_prefetching_take_a_program_as_it_is_written(runtime: SyncRuntime) -> None:
    programs = [written("one"), written("two", b"int g(void) { return 2; }\n")]
    settings: dict[str, Any] = {"observation_space": "asm_size"}
    with closing(runtime.make_vec("gcc-v0", 2, benchmarks=programs, **settings)) as envs:
        assert (envs.reset()[0] > 0).all()
    with closing(runtime.make_vec("gcc-v0", 2, benchmarks=iter(programs), **settings)) as envs:
        assert (envs.reset()[0] > 0).all()
    with runtime.make("gcc-v0", benchmark=programs[0], **settings) as env:
        env.reset()
        env.step("-O2")
        data = pickle.dumps(env)
        state, size = env.state_hash, env.observe("asm_size")
    try:
        again = pickle.loads(data)
        assert again.state_hash == state and again.observe("asm_size") == size
        assert again.benchmark == programs[0] and again.benchmark.source_tree.files == programs[0].source_tree.files
        again.reset()
    finally:
        aiocg.gym.shutdown()


def test_prefetching_for_gcc_reads_sources() -> None:
    one = written("one")

    async def run() -> None:
        async with aiocg.prefetch([one], environment="gcc-v0") as benchmarks:
            assert [benchmark async for benchmark in benchmarks] == [one]

    asyncio.run(run())
    assert one.source_form.is_loaded and not one.is_loaded


@pytest.mark.slow
def test_a_program_without_sources_is_refused_and_the_environment_goes_on(env: GccEnv) -> None:
    bitcode = Benchmark("benchmark://written-v0/bitcode", lambda: b"BC\xc0\xde")
    with pytest.raises(aiocg.datasets.errors.BenchmarkInitError, match="sources are not known"):
        env.reset(benchmark=bitcode)
    env.reset(benchmark=QSORT)
    assert env.asm_size > 0
