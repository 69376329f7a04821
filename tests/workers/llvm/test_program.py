"""Programs that are built and run by a worker: all of it real."""

import contextlib
import hashlib
import math
import os
import resource
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiocg.datasets import default_datasets
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.linking import freestanding_flags
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun, encode_program
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._object_code import text_size
from aiocg.workers.llvm._program import KEPT
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.programs import execution, linking
from aiocg.workers.programs.execution import measuring_core
from aiocg.workers.programs.linking import MARGIN, Executable, Tools
from aiocg.workers.programs.parameters import Parameters, exchange
from aiocg.workers.programs.recipe import decode_program

from .subject import Subject

HEADERS = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
HELLO = HEADERS + 'int main(void) { printf("hello\\n"); return 3; }'
ENDLESS = 'int main(void) { for (;;) __asm__ volatile(""); }'

Make = Callable[..., Benchmark]


@pytest.fixture
def make(engine: Engine) -> Iterator[Make]:
    """Make a benchmark of a C program with one run."""

    def new(text: str, *, name: str = "it", program: BenchmarkProgram | None = None, **run: Any) -> Benchmark:
        content = compile_source(text, f"{name}.c", freestanding_flags("c"))
        program = program or BenchmarkProgram("c", freestanding=True, runs={"only": ProgramRun(**run)})
        return Benchmark(engine, engine.load(content), decode_program(encode_program(program)))

    yield new
    engine.builder.release()
    engine.runner.close()


def observe(benchmark: Benchmark, name: str, timeout: float = 60.0, **parameters: Any) -> Any:
    """Compute an observation of a benchmark at its start."""
    subject = Subject(benchmark, benchmark.initial, Parameters(**parameters), time.monotonic() + timeout)
    return OBSERVATIONS[name].compute(subject)


def seconds(array: Any) -> list[float]:
    """Unpack what is observed as seconds."""
    assert array.dtype == "float64"
    return list(struct.unpack(f"<{array.shape[0]}d", bytes(array.data)))


def only(benchmark: Benchmark) -> Mapping[str, Any]:
    """Execute the only run of a program."""
    (result,) = observe(benchmark, "Execution")
    assert isinstance(result, dict)
    return result


def failing(benchmark: Benchmark, name: str, **options: Any) -> str:
    """Return the message with which an observation fails."""
    with pytest.raises(CompilationError) as caught:
        observe(benchmark, name, **options)
    assert caught.value.code == FailureCode.OBSERVATION
    return caught.value.message


# --------------------------------------------------------------------------------------------------- execution


def test_what_a_program_does_is_observed(make: Make) -> None:
    result = only(make(HELLO, exit_status=3))
    assert result == {
        "name": "only",
        "exit_code": 3,
        "signal": None,
        "timed_out": False,
        "boxed": result["boxed"],
        "problem": "",
        "stdout": {"size": 6, "sha256": hashlib.sha256(b"hello\n").hexdigest(), "head": "hello\n"},
        "stderr": "",
        "files": {},
    }


def test_arguments_and_errors_arrive(make: Make) -> None:
    text = HEADERS + 'int main(int n, char **a) { fprintf(stderr, "%d %s %s", n, a[1], a[2]); return 0; }'
    assert only(make(text, arguments=("x y", ""))).get("stderr") == "3 x y "


def test_a_program_that_dies_is_told_by_its_signal(make: Make) -> None:
    result = only(make("int main(void) { __builtin_trap(); }"))
    assert (result["exit_code"], result["signal"], result["problem"]) == (None, "SIGILL", "was ended by SIGILL")


@pytest.mark.parametrize(
    ("expected", "problem"),
    [
        ({"exit_status": 0}, "ended with exit status 3, not 0"),
        ({"exit_status": 3, "output_files": {"made": None}}, "did not write the file made"),
    ],
)
def test_what_is_not_as_expected_is_said(make: Make, expected: dict[str, Any], problem: str) -> None:
    assert only(make(HELLO, **expected))["problem"] == problem


def test_unexpected_output_is_said(make: Make, tmp_path: Path) -> None:
    (tmp_path / "expected").write_text("hallo\n")
    benchmark = make(HELLO, exit_status=3, expected_output_path=tmp_path / "expected")
    assert "expected on standard output" in only(benchmark)["problem"]
    assert "expected on standard output" in failing(benchmark, "Runtime")


def test_execution_of_a_program_is_the_same_every_time(make: Make) -> None:
    benchmark = make(HELLO, exit_status=3)
    assert observe(benchmark, "Execution") == observe(benchmark, "Execution")


def test_only_the_beginning_of_a_long_output_is_shown(make: Make) -> None:
    text = HEADERS + "int main(void) { for (int i = 0; i < 100000; i++) putchar('x'); return 0; }"
    shown = only(make(text))["stdout"]
    assert (shown["size"], shown["head"]) == (100_000, "x" * execution.HEAD)
    assert shown["sha256"] == hashlib.sha256(b"x" * 100_000).hexdigest()


def test_output_beyond_the_limit_ends_the_program(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "FILE_LIMIT", 1 << 16)
    text = HEADERS + "int main(void) { for (;;) putchar('x'); }"
    result = only(make(text))
    assert (result["signal"], result["stdout"]["size"]) == ("SIGXFSZ", 1 << 16)


def test_memory_is_limited(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    text = HEADERS + "int main(int n, char **a) { return malloc(strtoul(a[1], 0, 10)) == 0; }"
    for size, exit_code in ((1 << 20, 0), (execution.MEMORY_LIMIT, 1)):
        assert only(make(text, arguments=(str(size),)))["exit_code"] == exit_code


def test_a_program_that_does_not_end_is_stopped(make: Make) -> None:
    benchmark = make(ENDLESS, timeout=0.1)
    result = only(benchmark)
    assert (result["timed_out"], result["signal"], result["problem"]) == (True, None, "ran out of time and was stopped")
    assert "ran out of time" in failing(benchmark, "Runtime")


@pytest.mark.parametrize("name", ["Execution", "Runtime"])
def test_a_deadline_makes_an_error_and_not_a_dead_worker(make: Make, name: str) -> None:
    benchmark = make(ENDLESS)
    observe(benchmark, "TextSizeBytes")  # that it is built already
    started = time.monotonic()
    assert "give the step a longer timeout" in failing(benchmark, name, timeout=MARGIN + 0.2)
    assert time.monotonic() < started + 60  # and not for ever, however busy the machine is


# ------------------------------------------------------------------------------------ programs of the machine's


def hosted(make: Make, text: str, **run: Any) -> Benchmark:
    """Make a benchmark that stands on the machine's C library, or skip the test."""
    if not Path("/usr/include/stdio.h").exists():
        pytest.skip("this machine has no C library to compile and link with")
    program = BenchmarkProgram("c", runs={"only": ProgramRun(**run)})
    benchmark = make("int main(void) { return 0; }", program=program)
    content = compile_source(text, "hosted.c")
    return Benchmark(benchmark.engine, benchmark.engine.load(content), benchmark.program)


COPY = (
    HEADERS
    + """
int main(int count, char **arguments, char **environment) {
  char buffer[100];
  FILE *in = fopen("in/words.txt", "r"), *out = fopen("out.txt", "w");
  fprintf(out, "%s", fgets(buffer, sizeof buffer, in));
  printf("%s", fgets(buffer, sizeof buffer, stdin));
  while (*environment) printf(" %s", *environment++);
  return fclose(out);
}
"""
)


def test_files_standard_input_and_environment_are_what_the_recipe_says(make: Make) -> None:
    benchmark = hosted(
        make,
        COPY,
        stdin=b"typed",
        files={"in/words.txt": b"read"},
        environment={"A": "1"},
        output_files={"out.txt": b"read", "none.txt": None},
    )
    result = only(benchmark)
    assert result["stdout"]["head"] == "typed A=1"
    assert result["files"]["out.txt"]["head"] == "read" and result["files"]["none.txt"] is None
    assert result["problem"] == "did not write the file none.txt"


def test_each_run_has_an_empty_folder(make: Make) -> None:
    text = HEADERS + 'int main(void) { FILE *f = fopen("left", "r"); fopen("left", "w"); return f != 0; }'
    benchmark = hosted(make, text)
    assert len(seconds(observe(benchmark, "Runtime", warmups=1))) == 3  # with the file there, the second would fail


def test_killing_the_group_harms_only_the_program(make: Make) -> None:
    text = "#include <signal.h>\n" + HEADERS + "int main(void) { kill(0, SIGKILL); return 0; }"
    benchmark = hosted(make, text)
    assert only(benchmark)["signal"] == "SIGKILL"
    assert only(benchmark)["signal"] == "SIGKILL"


def test_a_link_that_fails_says_why(make: Make) -> None:
    benchmark = make("int missing(void); int main(void) { return missing(); }")
    for name in ("TextSizeBytes", "Runtime", "Execution", "Buildtime"):
        assert "undefined symbol: missing" in failing(benchmark, name)
    assert observe(benchmark, "IsBuildable") == 0
    assert observe(benchmark, "IsRunnable") == 0


@pytest.mark.parametrize("align", [1 << 12, 1 << 22])
def test_a_program_may_not_be_as_large_as_it_likes(
    make: Make, engine: Engine, monkeypatch: pytest.MonkeyPatch, align: int
) -> None:
    """Neither its object file nor, as with the runtime it is linked with, the executable."""
    benchmark = make(f"volatile char x __attribute__((aligned({align}))) = 1; int main(void) {{ return x; }}")
    size = observe(benchmark, "ObjectTextSizeBytes") + align
    assert observe(benchmark, "IsBuildable") == 1
    benchmark.engine.builder.release()
    monkeypatch.setattr(linking, "LARGEST", size)
    assert f"more than {size}" in failing(benchmark, "Execution")
    assert observe(benchmark, "IsBuildable") == 0


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("/no/such/linker",), "No such file"),
        (("true",), "wrote no file named program"),
        (("sh", "-c", "echo too bad >&2; exit 7"), "ended with 7\ntoo bad"),
        (("sh", "-c", "kill -9 $$"), "killed by signal 9"),
    ],
)
def test_a_command_of_ones_own_that_fails_says_why(make: Make, command: tuple[str, ...], message: str) -> None:
    program = BenchmarkProgram("c", runs={"only": ProgramRun()}, command=command)
    assert message in failing(make(HELLO, program=program), "TextSizeBytes")


def test_a_command_of_ones_own_has_files_environment_and_the_bitcode(make: Make, tmp_path: Path) -> None:
    script = (
        'cp program.bc "$KEPT"; cp program.o program.bc more "$KEPT"; {clang} -v; cp more program; chmod +x program'
    )
    program = BenchmarkProgram(
        "c",
        runs={"only": ProgramRun()},
        command=("sh", "-c", script.replace("{clang} -v; ", "")),
        files={"more": b"#!/bin/sh\necho made\n"},
        environment={"KEPT": str(tmp_path)},
    )
    benchmark = make(HELLO, program=program)
    assert only(benchmark)["stdout"]["head"] == "made\n"
    assert (tmp_path / "program.bc").read_bytes() == benchmark.engine.bitcode(benchmark.initial)
    assert (tmp_path / "program.o").read_bytes() == benchmark.engine.code.object_file(benchmark.initial)


# --------------------------------------------------------------------------------------------------- measuring


@pytest.mark.slow
def test_runtime_is_that_of_the_program(make: Make) -> None:
    """A program that does sixteen times as much takes longer, and starting it takes next to nothing."""
    text = HEADERS + (
        'int main(int n, char **a) { for (unsigned long i = strtoul(a[1], 0, 10); i; i--) __asm__ volatile(""); }'
    )
    runs = {name: ProgramRun((str(count),)) for name, count in (("none", 1), ("some", 10**7), ("much", 16 * 10**7))}
    program = BenchmarkProgram("c", freestanding=True, runs=runs, measured="some")
    benchmark = make(text, program=program)
    times = {run: min(seconds(observe(benchmark, "Runtime", measured_run=run, runtimes=5))) for run in ("", *runs)}
    assert 0 < times["none"] < times["some"] < times["much"] / 2
    assert times["none"] < times[""] < times["much"] / 2
    cycles = 16 * 10**7 / times["much"]
    assert 10**7 < cycles < 10**11  # for what it is worth: no processor does less, or more, in a second


def test_counts_are_parameters(make: Make) -> None:
    benchmark = make("int main(void) { return 0; }")
    assert len(seconds(observe(benchmark, "Runtime"))) == 3
    assert len(seconds(observe(benchmark, "Runtime", runtimes=5, warmups=2))) == 5
    times = seconds(observe(benchmark, "Buildtime", buildtimes=2))
    assert len(times) == 2 and min(times) > 0


def test_the_default_run_is_the_one_the_benchmark_names() -> None:
    program = decode_program(default_datasets()["programs-v0"]["gcd"].recipe)
    assert program is not None and program.run("").name == "medium" and program.run("large").arguments == ("large",)


def test_a_run_that_there_is_not_is_an_error(make: Make) -> None:
    assert "no run named 'big': there are only" in failing(make(HELLO), "Runtime", measured_run="big")


def test_parameters_are_set_and_read_by_name() -> None:
    parameters, answer = exchange(Parameters(), "llvm.set_measured_run", "large")
    assert (parameters.measured_run, answer) == ("large", "large")
    assert exchange(parameters, "llvm.get_measured_run", "")[1] == "large"
    parameters, answer = exchange(parameters, "llvm.set_runtimes_per_observation_count", "30")
    assert (parameters.runtimes, answer, parameters.measured_run) == (30, "30", "large")


def test_measurements_do_not_share_a_core() -> None:
    cores = os.sched_getaffinity(0)
    script = (
        "import sys, time; from aiocg.workers.programs.execution import measuring_core\n"
        "with measuring_core(time.monotonic() + 60) as core: print(core, flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-P", "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        taken = int(other.stdout.readline())
        assert taken in cores
        os.sched_setaffinity(0, {taken})
        try:
            with pytest.raises(CompilationError, match="not enough time"), measuring_core(time.monotonic() + 0.6):
                pass
            other.kill()  # however it ends, the core is free then
            with measuring_core(time.monotonic() + 60) as core:
                assert core == taken
        finally:
            os.sched_setaffinity(0, cores)


def test_who_measures_alone_waits_for_all_others_and_they_wait_for_it() -> None:
    with measuring_core(time.monotonic() + 60) as core:
        assert core in os.sched_getaffinity(0)
        with pytest.raises(CompilationError, match="not enough time"), measuring_core(time.monotonic(), alone=True):
            pass
    with measuring_core(time.monotonic() + 60, alone=True):
        for alone in (False, True):
            with pytest.raises(CompilationError, match="not enough time"), measuring_core(0.0, alone=alone):
                pass
    with measuring_core(time.monotonic() + 60):
        pass


def test_a_measured_program_runs_on_the_core_that_was_taken(make: Make) -> None:
    text = (
        "#define _GNU_SOURCE\n#include <sched.h>\n"
        + HEADERS
        + ('int main(void) { cpu_set_t s; sched_getaffinity(0, sizeof s, &s); printf("%d", CPU_COUNT(&s)); return 0; }')
    )
    benchmark = hosted(make, text)
    engine, program = benchmark.engine, benchmark.program
    assert program is not None
    executable = engine.builder.build(benchmark.initial, program, time.monotonic() + 60)
    for cpu, count in ((min(os.sched_getaffinity(0)), 1), (None, len(os.sched_getaffinity(0)))):
        with engine.runner.run(executable.path, program.runs[0], time.monotonic() + 60, cpu) as ended:
            assert ended.stdout == str(count).encode()


# ----------------------------------------------------------------------------------------------------- the rest


def test_a_benchmark_without_a_recipe_is_neither_buildable_nor_runnable(engine: Engine, simple: bytes) -> None:
    benchmark = Benchmark(engine, engine.load(simple))
    assert [observe(benchmark, name) for name in ("IsBuildable", "IsRunnable", "Execution")] == [0, 0, []]
    assert seconds(observe(benchmark, "Runtime")) == seconds(observe(benchmark, "Buildtime")) == []
    assert "does not say how it is linked" in failing(benchmark, "TextSizeBytes")


def test_a_program_without_runs_is_buildable_only(make: Make) -> None:
    benchmark = make(HELLO, program=BenchmarkProgram("c", freestanding=True))
    assert [observe(benchmark, name) for name in ("IsBuildable", "IsRunnable", "Execution")] == [1, 0, []]


def test_a_linked_program_has_the_size_that_its_file_has(make: Make) -> None:
    benchmark = make(HELLO)
    executable = benchmark.engine.builder.build(benchmark.initial, benchmark.program, time.monotonic() + 60)
    assert observe(benchmark, "TextSizeBytes") == text_size(executable.path.read_bytes())
    assert observe(benchmark, "TextSizeBytes") == observe(benchmark, "TextSizeO0") > observe(benchmark, "TextSizeOz")


def test_the_last_few_that_were_built_are_kept(make: Make) -> None:
    programs = [make(HELLO.replace("hello", f"hello {number}")) for number in range(KEPT + 1)]
    builder = programs[0].engine.builder

    def build(number: int) -> Executable:
        return builder.build(programs[number].initial, programs[number].program, time.monotonic() + 60)

    builder.release()
    built = [build(number) for number in range(KEPT)]
    assert build(0) is built[0]
    built.append(build(KEPT))
    assert [one.path.exists() for one in built] == [number != 1 for number in range(KEPT + 1)]
    builder.release()
    assert not any(one.path.exists() for one in built)


def test_without_a_linker_nothing_can_be_built(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = make(HELLO)
    tools = Tools("/no/clang")
    tools.linker = []
    monkeypatch.setattr(benchmark.engine.builder, "tools", tools)
    assert [observe(benchmark, name) for name in ("IsBuildable", "IsRunnable")] == [0, 0]
    assert "there is no lld beside /no/clang" in failing(benchmark, "TextSizeBytes")


def test_without_a_place_for_temporary_files_the_error_says_so(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = make(HELLO)
    monkeypatch.setattr("tempfile.tempdir", "/no/such/folder")
    assert "Set TMPDIR" in failing(benchmark, "TextSizeBytes")


@contextlib.contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Let larger files fail to be written, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", ["TextSizeBytes", "Execution", "IsBuildable", "IsRunnable"])
def test_a_disk_that_is_full_says_nothing_of_the_program(make: Make, name: str) -> None:
    benchmark = make(HELLO)
    with files_of_at_most(1000):
        assert "runtime.a cannot be written: File too large" in failing(benchmark, name)
    assert observe(benchmark, name)


def test_a_run_may_have_any_time(make: Make) -> None:
    benchmark = make(HELLO, exit_status=3, timeout=math.inf)
    subject = Subject(benchmark, benchmark.initial, Parameters(), math.inf)
    (result,) = OBSERVATIONS["Execution"].compute(subject)
    assert result["problem"] == ""


def test_the_runner_is_replaced_when_it_was_killed(make: Make) -> None:
    benchmark = make(HELLO, exit_status=3)
    assert only(benchmark)["problem"] == ""
    started = benchmark.engine.runner._started
    assert started is not None
    os.kill(started._process.pid, signal.SIGKILL)
    started._process.wait()
    assert only(benchmark)["problem"] == ""


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"version": 9}, "its version is 9"),
        ({"files": {"../out": b""}}, "'../out' is not the name of a file"),
        ({"files": {"/etc/passwd": b""}}, "'/etc/passwd' is not the name of a file"),
        ({"command": "sh -c"}, r"\$.command"),
        ({"command": ["sh\0"]}, r"NUL in 'sh.x00'"),
        ({"runs": {"arguments": ["\0"]}}, "NUL in"),
        ({"runs": {"environment": {"A": "\0"}}}, "NUL in"),
        ({"runs": {"timeout": 0.0}}, "the run 'only' has no time"),
        ({"runs": {"timeout": -1.0}}, "the run 'only' has no time"),
        ({"runs": {"timeout": math.nan}}, "the run 'only' has no time"),
    ],
)
def test_what_is_no_recipe_is_refused(change: dict[str, Any], message: str) -> None:
    recipe = msgspec.msgpack.decode(encode_program(BenchmarkProgram("c", runs={"only": ProgramRun()})))
    assert decode_program(msgspec.msgpack.encode(recipe)) is not None
    if "runs" in change:
        change = {"runs": [recipe["runs"][0] | change["runs"]]}
    with pytest.raises(CompilationError, match=message) as caught:
        decode_program(msgspec.msgpack.encode(recipe | change))
    assert caught.value.code == FailureCode.BENCHMARK


@pytest.mark.parametrize("content", [b"\xc1", b"garbage", b"\x81\xa1"])
def test_garbage_is_no_recipe(content: bytes) -> None:
    with pytest.raises(CompilationError, match="does not say how to build"):
        decode_program(content)
