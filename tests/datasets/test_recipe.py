"""Recipes: how programs are linked and run, as a worker takes it."""

import hashlib
from pathlib import Path

import msgspec
import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.linking import runtime_archive
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun, encode_program
from aiocg.datasets.toolchain import find_toolchain


def test_programs_of_ours_are_linked_with_our_runtime_by_lld() -> None:
    program = default_datasets()["programs-v0"]["qsort"].program
    assert program is not None
    recipe = msgspec.msgpack.decode(encode_program(program))
    assert recipe["command"][0] == "{lld}" and recipe["command"][-3:] == ["program.o", "runtime.a", "{builtins}"]
    assert recipe["files"] == {"runtime.a": runtime_archive(find_toolchain())}
    assert recipe["measured"] == "medium"
    assert [(run["name"], run["arguments"]) for run in recipe["runs"]] == [
        (size, [size]) for size in ("small", "medium", "large")
    ]
    assert all(run["stdout"] == program.runs[run["name"]].expected_output() for run in recipe["runs"])
    assert all(run["stdout"] for run in recipe["runs"])


@pytest.mark.parametrize(("language", "driver"), [("c", "{clang}"), ("c++", "{clang++}")])
def test_other_programs_are_linked_by_clang_with_the_machines_libraries(language: str, driver: str) -> None:
    recipe = msgspec.msgpack.decode(encode_program(BenchmarkProgram(language)))
    assert recipe["command"][0] == driver and "-lm" in recipe["command"]
    assert (recipe["files"], recipe["runs"], recipe["measured"]) == ({}, [], "")


def test_everything_that_is_said_of_a_run_is_in_the_recipe(tmp_path: Path) -> None:
    (tmp_path / "expected").write_bytes(b"\xff\n")
    run = ProgramRun(
        ("-x", "\u00e9"),
        tmp_path / "expected",
        7,
        b"in\0put",
        {"a/b": b"\0"},
        {"HOME": "/"},
        {"out": None, "known": b"k"},
        2.5,
    )
    program = BenchmarkProgram(
        "c",
        runs={"first": run, "second": ProgramRun()},
        command=("{clang}", "-o"),
        files={"f": b"1"},
        environment={"A": "B"},
    )
    assert msgspec.msgpack.decode(encode_program(program)) == {
        "version": 1,
        "command": ["{clang}", "-o"],
        "files": {"f": b"1"},
        "environment": {"A": "B"},
        "runs": [
            {
                "name": "first",
                "arguments": ["-x", "\u00e9"],
                "stdin": b"in\0put",
                "files": {"a/b": b"\0"},
                "environment": {"HOME": "/"},
                "exit_status": 7,
                "stdout": b"\xff\n",
                "outputs": {"out": None, "known": b"k"},
                "timeout": 2.5,
            },
            {
                "name": "second",
                "arguments": [],
                "stdin": b"",
                "files": {},
                "environment": {},
                "exit_status": 0,
                "stdout": None,
                "outputs": {},
                "timeout": 60.0,
            },
        ],
        "measured": "first",
    }


def test_equal_programs_have_equal_recipes() -> None:
    one = BenchmarkProgram("c", runs={"a": ProgramRun(files={"x": b"1", "y": b"2"})})
    other = BenchmarkProgram("c", runs={"a": ProgramRun(files={"y": b"2", "x": b"1"})})
    assert encode_program(one) == encode_program(other)


def test_the_key_of_a_benchmark_is_of_content_and_recipe() -> None:
    plain = Benchmark.from_file_contents("set-v0/plain", b"same")
    keys = {plain.key: plain}
    for arguments in ((), ("x",)):
        program = BenchmarkProgram("c", runs={"a": ProgramRun(arguments)})
        benchmark = Benchmark("set-v0/other", lambda: b"same", program=program)
        digest = hashlib.sha256(hashlib.sha256(b"same").digest() + benchmark.recipe)
        assert benchmark.key == digest.hexdigest()
        keys[benchmark.key] = benchmark
    assert len(keys) == 3 and plain.recipe == b""


def test_a_benchmark_is_loaded_when_its_recipe_is_written_too() -> None:
    benchmark = Benchmark("set-v0/one", lambda: b"content", program=BenchmarkProgram("c"))
    assert benchmark.content and not benchmark.is_loaded
    assert benchmark.recipe and benchmark.is_loaded
    assert benchmark.recipe is benchmark.recipe


def test_without_a_runtime_a_program_can_still_be_optimised(monkeypatch: pytest.MonkeyPatch, own_cache: Path) -> None:
    benchmark = default_datasets()["programs-v0"]["gcd"]
    content = benchmark.content
    unfortunate = Benchmark(benchmark.uri, lambda: content, program=benchmark.program)
    monkeypatch.setattr("aiocg.datasets.linking._RUNTIME_FLAGS", ("--no-such-flag",))
    with pytest.warns(UserWarning, match=r"(?s)can be optimised, but not run: .*no-such-flag"):
        assert unfortunate.recipe == b""
    assert unfortunate.key == hashlib.sha256(content).hexdigest() and unfortunate.is_loaded
