"""What is particular to LLVM's environment: observations, rewards, making benchmarks, running times."""

import multiprocessing
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networkx
import numpy as np
import pytest

from aiocg.compat import compiler_gym
from aiocg.compat.compiler_gym.datasets import Benchmark
from aiocg.compat.compiler_gym.envs import llvm
from aiocg.compat.compiler_gym.envs.llvm import llvm_benchmark
from aiocg.compat.compiler_gym.errors import BenchmarkInitError
from aiocg.compat.compiler_gym.spaces import Box, Dict, Scalar, Sequence

GCD = "benchmark://programs-v0/gcd"
ANY = (0, np.iinfo(np.int64).max)

# Name, type of the space, type of the values, deterministic, platform-dependent.
OBSERVATIONS: list[tuple[str, Any, Any, bool, bool]] = [
    ("Ir", Sequence, str, True, False),
    ("IrSha1", Sequence, str, True, False),
    ("Bitcode", Sequence, np.ndarray, True, False),
    ("BitcodeFile", Sequence, str, False, False),
    ("InstCount", Box, np.ndarray, True, False),
    ("Autophase", Box, np.ndarray, True, False),
    ("Programl", Sequence, networkx.MultiDiGraph, True, False),
    ("ProgramlJson", Sequence, dict, True, False),
    ("CpuInfo", Dict, dict, True, True),
    *((f"IrInstructionCount{suffix}", Scalar, int, True, False) for suffix in ("", "O0", "O3", "Oz")),
    *((f"ObjectTextSize{suffix}", Scalar, int, True, True) for suffix in ("Bytes", "O0", "O3", "Oz")),
    *((f"TextSize{suffix}", Scalar, int, True, True) for suffix in ("Bytes", "O0", "O3", "Oz")),
    ("IsBuildable", Scalar, int, True, True),
    ("IsRunnable", Scalar, int, True, True),
    ("Runtime", Sequence, np.ndarray, False, True),
    ("Buildtime", Sequence, np.ndarray, False, True),
    ("LexedIr", Sequence, dict, True, False),
    ("Inst2vecPreprocessedText", Sequence, list, True, False),
    ("InstCountDict", Dict, dict, True, False),
    ("InstCountNorm", Box, np.ndarray, True, False),
    ("InstCountNormDict", Dict, dict, True, False),
    ("AutophaseDict", Dict, dict, True, False),
    ("LexedIrTuple", Sequence, list, True, False),
]
FETCHED = {f"Inst2vec{suffix}" for suffix in ("", "EmbeddingIndices")} | {
    f"Ir2vec{level}{kind}" for level in ("", "FunctionLevel") for kind in ("FlowAware", "Symbolic")
}


@pytest.fixture(scope="module")
def shared() -> Iterator[Any]:
    with compiler_gym.make("llvm-v0", benchmark=GCD) as made:
        yield made


@pytest.fixture
def env(shared: Any) -> Any:
    shared.observation_space = shared.reward_space = None
    shared.reset(benchmark=GCD)
    return shared


def test_there_are_the_observations_of_the_original(env: Any) -> None:
    assert set(env.observation.spaces) == {name for name, *_ in OBSERVATIONS} | FETCHED


@pytest.mark.parametrize(("name", "kind", "value_type", "deterministic", "platform_dependent"), OBSERVATIONS)
def test_an_observation_is_what_it_was(
    env: Any, name: str, kind: Any, value_type: Any, deterministic: bool, platform_dependent: bool
) -> None:
    spec = env.observation.spaces[name]
    assert isinstance(spec.space, kind)
    assert spec.space.name == name
    assert (spec.deterministic, spec.platform_dependent) == (deterministic, platform_dependent)
    value = env.observation[name]
    assert isinstance(value, value_type)
    if kind is not Sequence or (spec.space.opaque_data_format is None and value_type is not list):
        assert value in spec.space
    if name not in ("Runtime", "Buildtime"):
        assert type(spec.default_value) is type(value)
    if deterministic:
        np.testing.assert_equal(env.observation[name], value) if name != "Programl" else None


def test_shapes_and_elements_are_what_they_were(env: Any) -> None:
    spaces, view = env.observation.spaces, env.observation
    assert (spaces["Ir"].space.dtype, spaces["Ir"].space.size_range) == (str, ANY)
    assert spaces["IrSha1"].space.size_range == (40, 40)
    assert spaces["BitcodeFile"].space.size_range == (0, 4096)
    assert view["Bitcode"].dtype == np.int8
    assert view["Bitcode"].tobytes()[:2] == b"BC"
    assert (view["InstCount"].shape, view["InstCount"].dtype) == ((70,), np.int64)
    assert view["InstCount"][3:].sum() == view["InstCount"][0] == view["IrInstructionCount"]
    assert (view["InstCountNorm"].shape, view["InstCountNorm"].dtype) == ((69,), np.float32)
    assert view["InstCountNorm"][2:].sum() == pytest.approx(1)
    assert (len(view["InstCountDict"]), len(view["InstCountNormDict"]), len(view["AutophaseDict"])) == (70, 69, 56)
    assert (view["Autophase"].shape, view["Autophase"].dtype) == ((56,), np.int64)
    assert list(view["AutophaseDict"].values()) == view["Autophase"].tolist()
    assert set(view["CpuInfo"]) == {"name", "cores_count"} | {
        f"{level}_cache_{what}" for level in ("l1i", "l1d", "l2", "l3", "l4") for what in ("size", "count")
    }
    graph = view["Programl"]
    assert graph.nodes[0] == {"block": 0, "function": 0, "text": "[external]", "type": 0}
    assert list(graph.nodes) == list(range(len(graph)))
    assert {data["type"] for _, data in graph.nodes(data=True)} == {0, 1, 2}
    assert {data["flow"] for _, _, data in graph.edges(data=True)} == {0, 1, 2}
    whole = view["ProgramlJson"]
    assert [node["text"] for node in whole["nodes"]] == [data["text"] for _, data in graph.nodes(data=True)]
    assert len(whole["links"]) == graph.number_of_edges()
    assert {link["source"] for link in whole["links"]} <= set(graph.nodes)
    assert set(view["LexedIr"]) == {"token_id", "token_kind", "token_category", "token_value"}
    token = view["LexedIrTuple"][0]
    assert token._fields == ("ID", "kind", "category", "value")
    assert token.value == view["LexedIr"]["token_value"][0]
    assert (view["IsBuildable"], view["IsRunnable"]) == (1, 1)


def test_a_file_of_bitcode_is_the_callers(env: Any) -> None:
    first, second = env.observation["BitcodeFile"], env.observation["BitcodeFile"]
    assert first != second
    os.unlink(first)
    assert Path(second).read_bytes() == env.observation["Bitcode"].tobytes()
    os.unlink(second)


def test_programs_are_written_to_files_and_printed(
    env: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert env.write_ir(tmp_path / "a.ll").read_text() == env.ir
    assert env.write_bitcode(str(tmp_path / "a.bc")).read_bytes()[:2] == b"BC"
    before = env.ir_sha1
    env.step(env.action_space["-mem2reg"])
    assert len(env.ir_sha1) == 40
    assert env.ir_sha1 != before
    env.render()
    assert capsys.readouterr().out == f"{env.ir}\n"
    env.observation_space = "IrInstructionCount"
    assert env.render(mode="ansi") == str(env.observation["IrInstructionCount"])
    env.observation_space = None
    with pytest.raises(ValueError, match="no observation space"):
        env.render("ansi")


@pytest.mark.parametrize("cost", ["IrInstructionCount", "ObjectTextSize", "TextSize"])
def test_rewards_are_scaled_as_they_were(env: Any, cost: str) -> None:
    plain = cost if cost == "IrInstructionCount" else f"{cost}Bytes"
    names = [plain, *(f"{cost}{suffix}" for suffix in ("Norm", "O3", "Oz"))]
    assert [env.reward[name] for name in names] == [0, 0, 0, 0]
    before = env.observation[plain]
    actions = [env.action_space[flag] for flag in ("-mem2reg", "-simplifycfg", "-instcombine")]
    _, (saved, norm, o3, oz), _, _ = env.multistep(actions, reward_spaces=names)
    unoptimised = env.observation[f"{cost}O0"]
    assert saved == before - env.observation[plain]
    assert norm == pytest.approx(saved / unoptimised)
    assert o3 == pytest.approx(saved / max(unoptimised - env.observation[f"{cost}O3"], 1))
    assert oz == pytest.approx(saved / max(unoptimised - env.observation[f"{cost}Oz"], 1))
    for name in names:
        space = env.reward.spaces[name]
        assert space.range == (-np.inf, 1 if name.endswith("Norm") else np.inf)
        assert space.deterministic
        assert space.platform_dependent == (cost != "IrInstructionCount")
        assert space.success_threshold == (1 if name[-2:] in ("O3", "Oz") else None)
        assert space.reward_on_error(episode_reward=5) == -5
    assert set(names) <= set(env.reward.spaces)
    assert len(env.reward.spaces) == 12


def test_running_times_are_as_many_as_was_set(env: Any) -> None:
    assert env.runtime_observation_count == 1
    assert env.runtime_warmup_runs_count == 0
    assert env.observation["Runtime"].shape == (1,)
    assert env.observation["Buildtime"].shape == (1,)
    with compiler_gym.make("llvm-v0", benchmark=GCD) as other:
        other.runtime_observation_count = 2
        other.runtime_warmup_runs_count = 1
        other.reset(observation_space="Runtime")
        assert other.step(0)[0].shape == (2,)
        with other.fork() as fork:
            assert (fork.runtime_observation_count, fork.runtime_warmup_runs_count) == (2, 1)
            assert fork.observation["Runtime"].shape == (2,)
        other.reset()
        assert other.observation["Runtime"].shape == (2,)
        with pytest.raises(ValueError, match=r"runtimes_per_observation_count must be >= 1\. Received: -5"):
            other.runtime_observation_count = -5
        assert other.runtime_observation_count == 2


def test_parameters_are_answered_and_forgotten_with_a_reset(env: Any) -> None:
    assert env.send_param("llvm.set_runtimes_per_observation_count", "4") == "4"
    assert env.send_params(("llvm.get_runtimes_per_observation_count", "")) == ["4"]
    env.reset()
    assert env.send_param("llvm.get_runtimes_per_observation_count", "") == "1"
    assert env.send_param("llvm.apply_baseline_optimizations", "-Oz") == "1"
    assert env.observation["IrInstructionCount"] == env.observation["IrInstructionCountOz"]
    with pytest.raises(ValueError, match=r"Unknown parameter: unknown\.key"):
        env.send_param("unknown.key", "")
    with pytest.raises(ValueError, match="-O7"):
        env.send_param("llvm.apply_baseline_optimizations", "-O7")


# ------------------------------------------------------------------------------------- making benchmarks


@pytest.mark.needs("c++")
def test_benchmarks_are_made_of_files(env: Any, tmp_path: Path) -> None:
    (tmp_path / "a.c").write_text("int A() { return 0; }")
    (tmp_path / "b.cc").write_text('#include <cstdio>\nextern "C" int A();\nint B() { printf("b"); return A(); }')
    one = llvm.make_benchmark(str(tmp_path / "a.c"))
    env.reset(benchmark=one)
    assert env.benchmark == one.uri
    assert re.match("benchmark://user-v0/[0-9]{8}T[0-9]{6}-", str(one.uri))
    assert llvm.make_benchmark(tmp_path / "a.c").uri != one.uri
    assert re.search(r"define .*i32 @A\(\)", env.ir)
    assert not env.benchmark.is_validatable()
    both = env.make_benchmark([tmp_path / "a.c", llvm.ClangInvocation.from_c_file(tmp_path / "b.cc")])
    env.reset(benchmark=both)
    assert re.search(r"define .*i32 @A\(\)", env.ir)
    assert re.search(r"define .*i32 @_Z1Bv\(\)", env.ir)
    env.write_bitcode(tmp_path / "c.bc")
    env.write_ir(tmp_path / "c.ll")
    for name, dataset in (("c.bc", f"file-v0{tmp_path}/c.bc"), ("c.ll", "user-v0")):
        made = llvm.make_benchmark(tmp_path / name)
        assert str(made.uri).startswith(f"benchmark://{dataset}")
        env.reset(benchmark=made)
        assert re.search(r"define .*i32 @A\(\)", env.ir)


@pytest.mark.needs("c++")
def test_what_no_benchmark_can_be_made_of_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(FileNotFoundError, match=r"nothing\.c"):
        llvm.make_benchmark(tmp_path / "nothing.c")
    with pytest.raises(ValueError, match=r"Unrecognized file type: a\.txt"):
        llvm.make_benchmark(tmp_path / "a.txt")
    with pytest.raises(TypeError, match="Invalid input type: int"):
        llvm.make_benchmark([5])
    with pytest.raises(ValueError, match="No inputs"):
        llvm.make_benchmark([])
    with pytest.raises(BenchmarkInitError, match="-invalid-arg") as caught:
        llvm.make_benchmark(llvm.ClangInvocation(["-invalid-arg"]))
    assert isinstance(caught.value, OSError)


@pytest.mark.slow
@pytest.mark.needs("c++")
def test_benchmarks_are_made_of_text_joined_and_taken_apart(env: Any) -> None:
    both = llvm.make_benchmark_from_source("int A() {return 0;}\nint B() {return A();}", lang="c")
    variables, first, second = llvm.split_benchmark_by_function(both)
    env.reset(benchmark=second)
    assert re.search(r"define .*@B\(\)", env.ir)
    assert re.search(r"declare .*@A\(\)", env.ir)
    assert len(llvm.split_benchmark_by_function(both, maximum_function_count=1)) == 2
    assert len(llvm.split_benchmark_by_function(first)) == 2
    env.reset(benchmark=llvm.merge_benchmarks([variables, first, second]))
    assert len(re.findall(r"define .*@[AB]\(\)", env.ir)) == 2
    with pytest.raises(ValueError, match="symbol multiply defined"):
        llvm.merge_benchmarks([first, first])
    with pytest.raises(ValueError, match="No functions found"):
        llvm.split_benchmark_by_function(llvm.make_benchmark_from_source(""))
    for source in ("@syntax error!!!", '#include "missing.h"'):
        with pytest.raises(BenchmarkInitError, match="Failed to make benchmark with compiler error:"):
            llvm.make_benchmark_from_source(source)


@pytest.mark.needs("c++")
def test_headers_are_those_of_the_machine_unless_they_are_not_wanted() -> None:
    assert "-isystem" in llvm.get_system_library_flags()
    assert "-isystem" in llvm.ClangInvocation(["a.c"]).command("a.bc")
    assert "-isystem" not in llvm.ClangInvocation(["a.c"], system_includes=False).command("a.bc")
    assert llvm.make_benchmark_from_source("#include <vector>\nstd::vector<int> f() { return {1}; }")
    with pytest.raises(BenchmarkInitError, match="stdio"):
        llvm.make_benchmark_from_source("#include <stdio.h>", system_includes=False)


@pytest.mark.parametrize(
    ("compiler", "error", "message"),
    [
        ("not-a-real-binary", llvm_benchmark.HostCompilerFailure, "Failed to invoke 'not-a-real-binary'"),
        ("false", llvm_benchmark.HostCompilerFailure, "Failed to invoke 'false'"),
        ("echo", llvm_benchmark.UnableToParseHostCompilerOutput, "Failed to parse .* search paths from 'echo'"),
    ],
)
def test_a_compiler_that_does_not_work_is_told(
    compiler: str, error: type[OSError], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(error, match=message):
        llvm.get_system_library_flags(compiler)
    monkeypatch.setenv("CXX", compiler)
    with pytest.raises(error, match=message):
        llvm.get_system_library_flags()


@pytest.mark.needs("libc")
def test_a_command_line_is_a_benchmark_that_can_be_built(
    env: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.c").write_text("int B();\nint main() { return B(); }")
    Path("b.c").write_text("int B() { return 5; }")
    benchmark = env.make_benchmark_from_command_line("gcc -DNDEBUG a.c b.c -o foo -lm")
    assert isinstance(benchmark, llvm.BenchmarkFromCommandLine)
    assert str(benchmark.uri).startswith("benchmark://clang-v0/gcc+-DNDEBUG")
    assert not Path("foo").exists()
    env.reset(benchmark=benchmark)
    env.step(env.action_space["-mem2reg"])
    benchmark.compile(env)
    assert subprocess.run(["./foo"]).returncode == 5
    for line, message in (("", "empty"), ("gcc", "too short"), (["gcc", "-xc", "-"], "stdin")):
        with pytest.raises(ValueError, match=message):
            env.make_benchmark_from_command_line(line)
    with pytest.raises(FileNotFoundError, match=r"missing\.c"):
        env.make_benchmark_from_command_line("gcc missing.c")


@pytest.mark.slow
def test_an_observation_of_a_file_needs_no_environment(env: Any, tmp_path: Path) -> None:
    path = env.write_bitcode(tmp_path / "a.bc")
    for name in ("Ir", "IrInstructionCount", "Autophase", "IrSha1", "AutophaseDict"):
        space = env.observation.spaces[name]
        np.testing.assert_equal(llvm.compute_observation(space, path), env.observation[name])
    with pytest.raises(FileNotFoundError):
        llvm.compute_observation(env.observation.spaces["Ir"], tmp_path / "b.bc")
    space = env.observation.spaces["Ir"].copy()
    space.id = "NotARealName"
    with pytest.raises(ValueError, match="Invalid observation space name: NOT_A_REAL_NAME"):
        llvm.compute_observation(space, path)
    (tmp_path / "c.bc").write_text("nothing")
    with pytest.raises(ValueError, match="Failed to compute Ir observation"):
        llvm.compute_observation(env.observation.spaces["Ir"], tmp_path / "c.bc")


@pytest.mark.needs("c++")
def test_a_benchmark_runs_when_it_says_how(env: Any, tmp_path: Path) -> None:
    (tmp_path / "hello.c").write_text('#include <stdio.h>\nint main() { printf("Hello"); return 0; }')
    benchmark = llvm.make_benchmark(tmp_path / "hello.c")
    dynamic = benchmark.proto.dynamic_config
    dynamic.build_cmd.argument.extend(["$CC", "$IN", *llvm.get_system_library_flags()])
    dynamic.build_cmd.outfile.extend(["a.out"])
    dynamic.run_cmd.argument.extend(["./a.out"])
    dynamic.run_cmd.timeout_seconds = 10
    env.reset(benchmark=benchmark)
    assert env.observation["IsRunnable"] == 1
    assert (env.observation["Runtime"] > 0).all()


def test_a_benchmark_that_cannot_run_has_no_running_time(env: Any) -> None:
    content = env.observation["Bitcode"].tobytes()
    env.reset(benchmark=Benchmark.from_file_contents("benchmark://user-v0/copy", content))
    assert env.observation["IsRunnable"] == 0
    assert env.observation["Runtime"] is None
    assert env.observation["Buildtime"] is None


def test_datasets_have_their_names() -> None:
    from aiocg.compat.compiler_gym.envs.llvm.datasets import CsmithDataset, get_llvm_datasets
    from aiocg.compat.compiler_gym.envs.llvm.datasets.cbench import VALIDATORS

    names = {dataset.name for dataset in get_llvm_datasets()}
    assert {"benchmark://cbench-v1", "generator://csmith-v0", "benchmark://programs-v0"} <= names
    assert CsmithDataset(sort_order=7).sort_order == 7
    assert len(VALIDATORS) == 18
    assert "benchmark://cbench-v1/qsort" in VALIDATORS


# ------------------------------------------------------------------------------------------ other processes


def _episode(queue: Any) -> None:
    with compiler_gym.make("llvm-autophase-ic-v0", benchmark=GCD) as env:
        env.reset()
        queue.put(env.step(env.action_space["-mem2reg"]))


def test_environments_can_be_made_in_a_fork_of_the_process(env: Any) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_episode, args=(queue,))
    process.start()
    try:
        observation, reward, done, info = queue.get(timeout=60)
        process.join(60)
    finally:
        process.kill()
        process.join()
    assert observation.shape == (56,)
    assert reward > 0
    assert not done
    assert info["action_had_no_effect"] is False
