"""Programs that GCC has compiled are linked, run, timed and checked."""

import dataclasses
import math
import time
from collections.abc import Callable, Iterator, Sequence

import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.source_tree import SourceTree
from aiocg.datasets.toolchain import find_toolchain
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc import _compilation as compilation
from aiocg.workers.gcc._compilation import read_sources
from aiocg.workers.gcc._execution import PARAMETERS, Execution
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._store import Results
from aiocg.workers.programs.parameters import Parameters, exchange
from aiocg.workers.programs.recipe import LinkError, Program, decode_program

TIMEOUT = 100.0

Compile = Callable[[Benchmark, Sequence[str]], tuple[Program, bytes]]


class Elsewhere:
    """This machine's compiler as if it were not on this machine: it has to run programs itself."""

    def __init__(self, runner: LocalRunner) -> None:
        self.name, self.compiler, self.identity, self.root = runner.name, runner.compiler, runner.identity, runner.root
        self.run, self.close, self.memory, self.is_apart = runner.run, runner.close, runner.memory, True


@pytest.fixture(scope="module")
def execution(runner: LocalRunner) -> Iterator[Execution]:
    made = Execution(runner, clang=str(find_toolchain().clang))
    yield made
    made.close()


@pytest.fixture(scope="module")
def compiled(runner: LocalRunner) -> Compile:
    """Compile a benchmark with some words, and return its recipe and the object file."""
    compiler = compilation.Compiler(runner, Results())

    def make(benchmark: Benchmark, line: Sequence[str]) -> tuple[Program, bytes]:
        form = benchmark.source_form
        recipe = decode_program(form.recipe)
        assert recipe is not None
        loaded = compilation.Benchmark(read_sources(form.content), recipe)
        limits = compilation.Limits(TIMEOUT, 4 << 30, math.inf)
        digest = f"{loaded.sources.digest} {line}"
        return recipe, compilation.Compilation(compiler, loaded, line, digest, limits).object_file()

    return make


def program(text: str, *, language: str = "c", command: tuple[str, ...] = (), **run: object) -> Benchmark:
    """Return a program of one unit that stands on the machine's libraries, with one run."""
    unit = "a.cc" if language == "c++" else "a.c"
    return Benchmark(
        "benchmark://test-v0/a",
        lambda: b"",
        program=BenchmarkProgram(language, runs={"only": ProgramRun(**run)}, command=command),  # type: ignore[arg-type]
        source_tree=lambda: SourceTree((unit,), {unit: text.encode()}, language=language),
    )


def soon() -> float:
    return time.monotonic() + TIMEOUT


@pytest.mark.few(2)
@pytest.mark.parametrize(
    "line", [["-O0"], ["-O2", "-fstack-protector-all"], ["-Os", "-ftrapv", "-fnon-call-exceptions"]]
)
@pytest.mark.parametrize("name", ["qsort", "matrix"])
def test_a_program_of_ours_does_what_is_expected_whatever_the_options(
    execution: Execution, compiled: Compile, name: str, line: list[str]
) -> None:
    recipe, code = compiled(ProgramsDataset()[name], line)
    small = Parameters(runtimes=2, warmups=1, measured_run="small")
    times = execution.run_times(recipe, code, small, soon())
    assert len(times) == 2 and all(0 < seconds < TIMEOUT for seconds in times)
    assert execution.is_runnable(recipe, code, soon())


def test_a_program_with_libraries_is_linked_by_the_compiler(execution: Execution, compiled: Compile) -> None:
    text = """
    #include <cmath>
    #include <cstdio>
    #include <vector>
    int main(int n, char **) { std::vector<int> v(n, 7); std::printf("%d %.1f\\n", v[0], std::sqrt(n * 2.)); }"""
    recipe, code = compiled(program(text, language="c++", arguments=("x",)), ["-O1"])
    (run,) = execution.run_all(recipe, code, soon())
    assert (run["stdout"]["head"], run["exit_code"], run["problem"]) == ("7 2.0\n", 0, "")


def test_what_a_program_is_given_and_writes_is_the_same_at_any_place(
    runner: LocalRunner, execution: Execution, compiled: Compile
) -> None:
    text = """
    #include <stdio.h>
    #include <stdlib.h>
    int main(int n, char **words) {
      char line[99];
      FILE *in = fopen("in/put", "r"), *out = fopen("output", "w");
      fputs(fgets(line, 99, in), out);
      puts(fgets(line, 99, stdin));
      fprintf(stderr, "%s %s", words[1], getenv("NAME"));
      return 3;
    }"""
    benchmark = program(
        text,
        arguments=("a b",),
        stdin=b"stdin",
        files={"in/put": b"file"},
        environment={"NAME": "value"},
        exit_status=3,
        output_files={"output": b"file", "more": None},
    )
    recipe, code = compiled(benchmark, [])
    elsewhere = Execution(Elsewhere(runner))
    here, there = (one.run_all(recipe, code, soon()) for one in (execution, elsewhere))
    assert here == there
    (run,) = there
    assert (run["stdout"]["head"], run["stderr"], run["exit_code"]) == ("stdin\n", "a b value", 3)
    assert run["files"]["output"]["head"] == "file" and run["problem"] == "did not write the file more"
    elsewhere.close()


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_program_that_cannot_be_linked_is_not_runnable_and_says_why(
    runner: LocalRunner, compiled: Compile, elsewhere: bool
) -> None:
    recipe, code = compiled(program("int missing(void); int main(void) { return missing(); }"), [])
    execution = Execution(Elsewhere(runner) if elsewhere else runner)
    assert not execution.is_runnable(recipe, code, soon())
    with pytest.raises(LinkError, match="missing") as caught:
        execution.run_times(recipe, code, Parameters(), soon())
    assert caught.value.code == FailureCode.OBSERVATION
    execution.close()


def test_a_wrong_output_is_an_error_of_the_time(execution: Execution, compiled: Compile) -> None:
    benchmark = ProgramsDataset()["gcd"]
    assert benchmark.program is not None
    wrong = dataclasses.replace(
        benchmark.program,
        runs={"small": dataclasses.replace(benchmark.program.runs["medium"], arguments=("small",))},
        measured="small",
    )
    recipe, code = compiled(benchmark.replace(program=wrong), ["-O1"])
    with pytest.raises(CompilationError, match="wrote something else than expected"):
        execution.run_times(recipe, code, Parameters(), soon())


def test_options_that_change_what_a_program_does_are_found_out(execution: Execution, compiled: Compile) -> None:
    text = '#include <stdio.h>\nint main(void) { volatile double z = 0; printf("%d", __builtin_isnan(z / z)); }\n'
    outputs = [
        execution.run_all(*compiled(program(text), line), soon())[0]["stdout"]["head"]
        for line in (["-O2"], ["-O2", "-ffinite-math-only"])
    ]
    assert outputs == ["1", "0"]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_program_that_takes_too_long_is_stopped(runner: LocalRunner, compiled: Compile, elsewhere: bool) -> None:
    recipe, code = compiled(program("int main(void) { for (volatile int n = 0;; n++); }", timeout=0.2), [])
    execution = Execution(Elsewhere(runner) if elsewhere else runner)
    (run,) = execution.run_all(recipe, code, soon())
    assert run["timed_out"] and run["problem"] == "ran out of time and was stopped"
    execution.close()


def test_observing_twice_links_once(runner: LocalRunner, compiled: Compile) -> None:
    recipe, code = compiled(ProgramsDataset()["gcd"], ["-O1"])
    execution = Execution(runner, clang=str(find_toolchain().clang))
    one = execution.executable(recipe, code, soon())
    assert execution.executable(recipe, code, soon()) is one and one.path.is_file()
    recipe, other = compiled(ProgramsDataset()["gcd"], ["-O0"])
    assert execution.executable(recipe, other, soon()) is not one and not one.path.exists()
    execution.close()


def test_parameters_have_the_compilers_name() -> None:
    parameters, answer = exchange(
        Parameters(), "gcc.set_runtimes_per_observation_count", "7", compiler="gcc", names=PARAMETERS
    )
    assert (parameters.runtimes, answer) == (7, "7")
    for key in ("llvm.set_measured_run", "gcc.set_buildtimes_per_observation_count"):
        with pytest.raises(CompilationError, match=r"there are gcc\.get_"):
            exchange(parameters, key, "1", compiler="gcc", names=PARAMETERS)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("line", [[], ["-Os"], ["-O2"], ["-O3", "-fstack-protector-all", "-fnon-call-exceptions"]])
@pytest.mark.parametrize("benchmark", list(ProgramsDataset().benchmarks()), ids=str)
def test_all_programs_do_what_is_expected_at_all_levels(
    execution: Execution, compiled: Compile, benchmark: Benchmark, line: list[str]
) -> None:
    recipe, code = compiled(benchmark, line)
    for size in ("small", "medium"):
        assert len(execution.run_times(recipe, code, Parameters(runtimes=1, measured_run=size), soon())) == 1
