"""What CompilerGym's own tests ask for."""

import importlib
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aiocg.llvm
from aiocg.compat._errors import BenchmarkInitError
from aiocg.compat.datasets._stand_ins import SWITCH, CBenchDataset, StandInWarning
from aiocg.compat.envs import _llvm as llvm
from aiocg.compat.envs._base import make
from aiocg.compat.programs.random_eval import eval_logs
from aiocg.datasets.frontend import compile_source

IMPLICIT = "int f(int n) { return undeclared(n); }\nmain() { int *p = f(3); return p == 0; }\n"


@pytest.fixture(scope="module")
def env() -> Any:
    with make("llvm-v0", benchmark="programs-v0/gcd") as env:
        env.reset()
        yield env


@pytest.mark.needs("c++")
def test_c_of_an_older_standard_is_only_warned_of(env: Any, tmp_path: Path) -> None:
    (tmp_path / "old.c").write_text(IMPLICIT)
    for made in (
        env.make_benchmark(tmp_path / "old.c"),
        llvm.make_benchmark_from_source(IMPLICIT, lang="c"),
        env.make_benchmark_from_command_line(f"gcc -c {tmp_path}/old.c -o {tmp_path}/old.o"),
    ):
        env.reset(benchmark=made)
        assert re.search(r"declare .*@undeclared\(", env.ir)
    assert compile_source(IMPLICIT) and aiocg.llvm.benchmark_from_source(IMPLICIT).content


@pytest.mark.needs("c++")
def test_reset_runs_the_command_that_builds_a_benchmark(env: Any, tmp_path: Path) -> None:
    (tmp_path / "in.c").write_text("int main(int n, char **w) { return n + 2; }")
    (built := tmp_path / "built").touch()
    made = env.make_benchmark_from_command_line(["gcc", "-DN=1", str(tmp_path / "in.c"), "-lm", "-o", str(built)])
    words = list(made.proto.dynamic_config.build_cmd.argument)
    assert words == [str(aiocg.llvm.clang_path()), "-DN=1", "-lm", "-xir", "$IN", "-o", str(built)]
    env.reset(benchmark=made)
    assert built.read_bytes()[:4] == b"\x7fELF"
    plain = env.make_benchmark(tmp_path / "in.c")
    other = tmp_path / "other"
    plain.proto.dynamic_config.build_cmd.argument.extend(["gcc", "-xir", "$IN", "-o", str(other)])
    env.reset(benchmark=plain)
    assert other.is_file()


@pytest.mark.needs("c++")
def test_a_command_that_does_not_build_is_an_error_of_reset(env: Any, tmp_path: Path) -> None:
    (tmp_path / "program.c").touch()
    for words, message in (
        (["$CC", "$IN", "-invalid-cc-argument"], r"clang: error: unknown argument: '-invalid-cc-argument'"),
        (["not-a-program", "$IN"], "not-a-program"),
    ):
        benchmark = env.make_benchmark(tmp_path / "program.c")
        benchmark.proto.dynamic_config.build_cmd.argument.extend(words)
        with pytest.raises(BenchmarkInitError, match=message):
            env.reset(benchmark=benchmark)
    env.reset(benchmark="programs-v0/gcd")


def test_a_stand_in_is_found_by_the_name_that_was_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "1")
    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    asked_for = "benchmark://cbench-v1/sha"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", StandInWarning)
        found = CBenchDataset().benchmark(asked_for)
    assert found == asked_for and found in {asked_for} and asked_for in {found}
    for wrong in ("99", "-1", "first"):
        with pytest.raises(ValueError, match=f"Invalid dataset: {wrong}"):
            CBenchDataset().benchmark(f"{asked_for}?dataset={wrong}")


@pytest.mark.needs("c++")
def test_a_benchmark_is_taken_apart_into_variables_and_functions(env: Any) -> None:
    text = "int v = 3; int A() {return v;} int B() {return A();}"
    variables, *functions = llvm.split_benchmark_by_function(llvm.make_benchmark_from_source(text, lang="c"))
    for benchmark, own in ((variables, ("", "@v")), (functions[0], ("@A", "")), (functions[1], ("@B", ""))):
        env.reset(benchmark=benchmark)
        assert re.findall(r"^define .*(@\w+)\(|^(@v) = (?!external)", env.ir, re.M) == [own]


def test_indices_of_inst2vec_are_a_list_of_int(env: Any) -> None:
    env.reset(benchmark="programs-v0/gcd")
    indices = env.observation["Inst2vecEmbeddingIndices"]
    assert isinstance(indices, list) and indices and all(type(index) is int for index in indices)
    assert env.observation.spaces["Inst2vecEmbeddingIndices"].space.contains(indices)
    assert not env.observation.spaces["Inst2vecEmbeddingIndices"].space.contains([2**40])
    assert len(indices) == len(np.asarray(env.observation["Inst2vec"]))


@pytest.mark.parametrize(
    "name",
    [
        *("envs.llvm.datasets.cbench.BenchmarkExecutionResult", "envs.llvm.datasets.cbench.validate_sha_output"),
        *("envs.gcc.datasets.chstone.URIS", "envs.llvm.datasets.chstone.URIS", "bin.random_eval.eval_logs"),
        *("envs.gcc.datasets.csmith.CsmithBenchmark", "envs.gcc.datasets.anghabench.AnghaBenchDataset"),
        *("envs.gcc.datasets.CHStoneDataset", "envs.gcc.datasets.get_gcc_datasets"),
    ],
)
def test_names_are_where_they_were(name: str) -> None:
    module, _, member = name.rpartition(".")
    assert getattr(importlib.import_module(f"aiocg.compat.compiler_gym.{module}"), member)


def test_the_output_of_sha_is_five_numbers() -> None:
    cbench = importlib.import_module("aiocg.compat.compiler_gym.envs.llvm.datasets.cbench")
    right = "1234567890abcdef 1234567890abcd 1234567890abc 1234567890 12345"
    result = cbench.BenchmarkExecutionResult
    assert cbench.validate_sha_output(result(walltime_seconds=0, output=right)) is None
    assert cbench.validate_sha_output(result(walltime_seconds=0, output="abcd"))


def test_logs_of_random_searches_are_summarised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, reward in (("a", 1.0), ("b", 4.0)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "random_search.json").write_text(json.dumps({"benchmark": f"benchmark://x-v0/{name}"}))
        log = f"header\n1.5,10,100,3,0.5\n2.5,20,200,7,{reward}\n"
        (tmp_path / name / "random_search_progress.csv").write_text(log)
    eval_logs(tmp_path)
    said = capsys.readouterr().out
    assert re.search(r"benchmark://x-v0/b\W+4\W+20 attempts in 2\.5 s\W+7", said)
    assert re.search(r"Geomean\W+2\W", said) and re.search(r"Average\W+2\.5\W", said)
