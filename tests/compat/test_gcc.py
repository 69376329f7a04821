"""GCC's environment with CompilerGym's interface: what old scripts do with it, and what they expect."""

import pickle
import random
from collections.abc import Iterator
from typing import Any

import pytest

from aiocg.compat import compiler_gym, gym
from aiocg.compat.compiler_gym.envs import GccEnv, gcc
from aiocg.compat.compiler_gym.envs.gcc.datasets import get_gcc_datasets
from aiocg.compat.compiler_gym.errors import EnvironmentNotSupported, ServiceError, SessionNotFound
from aiocg.compat.compiler_gym.service.connection import CompilerGymServiceConnection, ConnectionOpts

pytestmark = pytest.mark.needs("gcc")

GCD, QSORT = "benchmark://programs-v0/gcd", "benchmark://programs-v0/qsort"


@pytest.fixture
def env() -> Iterator[Any]:
    with compiler_gym.make("gcc-v0", gcc_bin="gcc", benchmark=QSORT) as made:
        yield made


def names_of(env: Any) -> list[str]:
    names: list[str] = env.action_space.names
    return names


# ---------------------------------------------------------------------------------------------- making one


@pytest.mark.slow
def test_an_environment_is_made_by_gym_too_and_has_a_class_of_its_own() -> None:
    with gym.make("gcc-v0", gcc_bin="gcc", benchmark=GCD) as env:
        assert isinstance(env, GccEnv) and env.spec.id == "gcc-v0"
        assert "gcc" in env.compiler_version
        assert env.benchmark == GCD
        assert env.reward.spaces.keys() == {"asm_size", "obj_size"}


def test_the_default_compiler_is_the_machines_and_the_default_program_is_there() -> None:
    assert gcc.DEFAULT_GCC == "gcc"
    with compiler_gym.make("gcc-v0") as env:
        assert env.gcc_spec.gcc.bin == "gcc"
        assert str(env.benchmark.uri) in ("benchmark://programs-v0/adpcm", "benchmark://chstone-v0/adpcm")
        assert {dataset.name for dataset in env.datasets} == {
            "benchmark://anghabench-v1",
            "benchmark://chstone-v0",
            "generator://csmith-v0",
        }
    assert len([dataset for dataset in get_gcc_datasets() if not dataset.hidden]) == 3


@pytest.mark.parametrize("gcc_bin", ["not-a-real-file", "false"])
def test_what_is_no_gcc_is_refused(gcc_bin: str) -> None:
    with pytest.raises(ServiceError):
        compiler_gym.make("gcc-v0", gcc_bin=gcc_bin)
    with pytest.raises(EnvironmentNotSupported):
        gcc.Gcc(gcc_bin)


def test_settings_of_a_connection_are_not_changed_and_can_name_the_compiler() -> None:
    settings = ConnectionOpts(script_env={"A": "1"})
    with compiler_gym.make("gcc-v0", gcc_bin="gcc", benchmark=GCD, connection_settings=settings):
        assert settings.script_env == {"A": "1"}
    connection = CompilerGymServiceConnection(gcc.GCC_SERVICE_BINARY, ConnectionOpts(script_env={"CC": "gcc"}))
    assert connection.action_spaces[0].name == "default"
    connection.close()


# ------------------------------------------------------------------------------------------------ its spaces


def test_actions_and_observations_have_the_originals_names(env: Any) -> None:
    env.reset()
    assert env.action_spaces[0].name == "default"
    assert names_of(env)[:4] == ["-O0", "-O1", "-O2", "-O3"] and len(names_of(env)) > 1000
    assert any(name.endswith("[-1000]") for name in names_of(env))
    assert list(env.observation.spaces) == [
        "source",
        "rtl",
        "asm",
        "asm_size",
        "asm_hash",
        "instruction_counts",
        "obj",
        "obj_size",
        "obj_hash",
        "choices",
        "command_line",
    ]


def test_observations_are_of_the_originals_kind_and_attributes_too(env: Any) -> None:
    env.reset()
    for name, spec in env.observation.spaces.items():
        value = env.observation[name]
        assert spec.space.contains(value), name
    assert "int " in env.source
    assert "Function" in env.rtl and "insn" in env.rtl
    assert env.asm_size == len(env.asm.encode()) and ".text" in env.asm
    assert env.obj[:5].tobytes() == b"\x7fELF\x02" and env.obj_size == len(env.obj)
    assert env.instruction_counts["ret"] > 0 and not any(name.startswith(".") for name in env.instruction_counts)
    assert env.asm_hash != env.obj_hash
    assert env.choices == [-1] * len(env.gcc_spec.options)
    assert env.commandline() == "gcc -w -c src.c -o obj.o"


def test_before_a_reset_there_is_nothing_to_step_or_to_observe(env: Any) -> None:
    for use in (lambda: env.step(0), lambda: env.observation["asm"], lambda: env.reward["obj_size"]):
        with pytest.raises(SessionNotFound, match=r"Must call reset\(\) before step\(\)"):
            use()


def test_what_there_is_not_is_refused(env: Any) -> None:
    env.reset()
    with pytest.raises(LookupError):
        env.observation_space = 100
    with pytest.raises(LookupError):
        env.reward_space = 100
    with pytest.raises(ValueError, match="Out-of-range"):
        env.step(100000)
    with pytest.raises(ValueError, match="Unknown parameter"):
        env.send_param("nothing", "")
    with pytest.raises(LookupError):
        env.reset(benchmark="chstone-v1/flubbedydubfishface")


# ------------------------------------------------------------------------------------------------- stepping


def test_the_first_action_earns_its_due(env: Any) -> None:
    env.reward_space = "obj_size"
    observation = env.reset(observation_space="obj_size")
    assert env.step(env.action_space["-O0"])[1] == 0
    smaller, reward, done, info = env.step(env.action_space["-Os"])
    assert not done, info
    assert reward == observation - smaller > 0 and env.episode_reward == reward
    env.reset(reward_space=None)
    assert env.reward["obj_size"] == 0 == env.reward["asm_size"]
    env.step(env.action_space["-Os"])
    assert env.reward["obj_size"] == observation - smaller
    assert env.reward["asm_size"] > 0


def test_choices_are_set_at_once_and_forks_have_them(env: Any) -> None:
    env.reset()
    options = env.gcc_spec.options
    choices = [-1] * len(options)
    choices[0] = [option[0] for option in options].index("-O0") + 2
    env.choices = choices
    assert env.choices == choices and env.actions == []
    assert env.commandline() == "gcc -O2 -w -c src.c -o obj.o"
    env.step(names_of(env).index("-fno-gcse"))
    with env.fork() as fork:
        fork.step(0)
        assert fork.commandline() == "gcc -O0 -fno-gcse -w -c src.c -o obj.o"
        assert env.commandline() == "gcc -O2 -fno-gcse -w -c src.c -o obj.o"
        assert len(fork.actions) == 2 and fork.benchmark == env.benchmark
        fork.choices = env.choices
        assert fork.obj_hash == env.obj_hash
    with pytest.raises(ValueError):
        env.choices = [-1]
    with pytest.raises(ValueError):
        env.choices = [100_000] * len(options)


def test_a_command_line_gives_the_actions_that_lead_to_it(env: Any) -> None:
    env.reset()
    env.multistep([env.action_space["-O2"], env.action_space["-fno-gcse"]])
    state = env.state
    assert state.commandline == "gcc -O2 -fno-gcse -w -c src.c -o obj.o"
    env.reset()
    env.apply(state)
    assert env.state == state
    with pytest.raises(ValueError, match="Invalid commandline"):
        env.commandline_to_actions("gcc -fnot-an-option")


def test_the_timeout_outlasts_resets_and_a_compilation_that_takes_longer_fails(env: Any) -> None:
    env.timeout = 20
    env.reset()
    assert env.timeout == 20 and env.obj_size > 0
    env.reset()
    assert env.timeout == 20
    with env.fork() as fork:
        assert fork.timeout == 20
    env.choices = [random.randint(0, 1000) if len(option) > 1000 else -1 for option in env.gcc_spec.options]
    env.timeout = 1e-6
    with pytest.raises((ServiceError, TimeoutError)):  # nobody has compiled it like this before
        _ = env.asm_size
    env.timeout = None
    env.reset()
    assert env.asm_size > 0 and env.timeout is None


# ----------------------------------------------------------------------------------------------- its options


def test_a_spec_lists_options_as_words(env: Any) -> None:
    spec = env.gcc_spec
    assert spec.version == env.compiler_version and spec.size > 10**1000
    assert isinstance(spec, gcc.GccSpec) and all(isinstance(option, gcc.Option) for option in spec.options)
    assert min(map(len, spec.options)) > 0
    by_name = {str(option): option for option in spec.options}
    assert list(by_name["-fgcse"]) == ["-fgcse", "-fno-gcse"]
    assert by_name["-O"].values[:4] == ["0", "1", "2", "3"]
    inlining = by_name["--param=max-inline-insns-auto"]
    assert inlining[30 - inlining.min] == "--param=max-inline-insns-auto=30" and inlining.max == 2**31 - 1
    assert "max-inline-insns-auto" in repr(inlining) and "0,1,2,3" in repr(by_name["-O"])
    with pytest.raises(IndexError):
        by_name["-fgcse"][2]
    assert [str(option) for option in pickle.loads(pickle.dumps(spec)).options] == list(by_name)


def test_a_compiler_can_be_run_by_hand() -> None:
    compiler = gcc.Gcc("gcc")
    assert compiler("--version", timeout=60).splitlines()[0] == compiler.spec.version
    with pytest.raises(ServiceError, match="returncode"):
        compiler("no-such-file.c", timeout=60)


# ------------------------------------------------------------------------------- what their example does


def test_the_searches_of_the_originals_example_run(env: Any) -> None:
    generator = random.Random(1)

    def objective(env: Any) -> float:
        try:
            return float(env.observation["obj_size"])
        except ServiceError:  # these options do not go together
            env.reset()
            return float("inf")

    env.reset(benchmark=QSORT)
    env.step(env.action_space["-Os"])
    baseline, best = objective(env), float("inf")
    env.reset(benchmark=QSORT)
    for _ in range(4):
        with env.fork() as fork:
            fork.choices = [
                generator.randint(max(-1, choice - 1), min(len(option) - 1, choice + 1)) if index < 8 else choice
                for index, (choice, option) in enumerate(zip(env.choices, env.gcc_spec.options, strict=True))
            ]
            cost = objective(fork)
            if cost < best:
                best, env.choices = cost, fork.choices
    assert 0 < baseline < float("inf") and best < float("inf")
