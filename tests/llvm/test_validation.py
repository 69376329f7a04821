"""Validation of real programs: clean states pass, miscompiled ones are caught and traced to the pass to blame."""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import aiocg
from aiocg.cli._search_report import Finding
from aiocg.datasets import default_datasets
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.errors import DatasetError
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.errors import UnknownName
from aiocg.search.result import Checks, SearchResult, begin_state
from aiocg.states.behaviour import Behaviour
from aiocg.states.state import CompilerEnvState
from aiocg.validation import ErrorKind, Sanitizer, ValidationResult, validate
from aiocg.validation._differential import Failed, Subject
from aiocg.validation.minimize import minimize, validation_fails

pytestmark = pytest.mark.asyncio(loop_scope="session")

# `attributor-cgscc` of LLVM 22 and 23 is no action because it miscompiles; this is one of the programs.
MISCOMPILED, BY = "json", "attributor-cgscc"
CLEAN = ("sroa", "gvn", "simplifycfg", "instcombine")

DEFECTIVE = """
void *malloc(unsigned long);
int printf(const char *, ...);
int main(int count, char **words) {
  int *p = malloc(40), x = 2147483646 + count;
  if (words[1][0] == 'o') p[count + 8] = 1;         // overflow on the heap
  if (words[1][0] == 'u') x = x + count;            // overflow of a signed number
  if (words[1][0] == 'r' && p[count]) count = 0;    // use of what is not initialised
  printf("%d %d\\n", count, x == 0);
  __builtin_free(p);
  return 0;
}
"""
WRITES_FILES = """
struct file;
struct file *fopen(const char *, const char *);
int fprintf(struct file *, const char *, ...);
int fclose(struct file *);
int main(int count, char **words) {
  struct file *file = fopen("result.txt", "w");
  fprintf(file, "%d\\n", count * 6);
  return fclose(file);
}
"""


def program(source: str, *runs: ProgramRun, **options: Any) -> Benchmark:
    """A benchmark that stands on the machine's C library; skips the test where that cannot be linked."""
    try:
        content = compile_source(source)
    except DatasetError as error:
        pytest.skip(str(error))
    named = {f"run{number}": run for number, run in enumerate(runs)}
    return Benchmark(
        "benchmark://mine-v0/program",
        lambda: content,
        program=BenchmarkProgram("c", runs=named, **options),
        recompile=lambda flags: compile_source(source, flags=tuple(flags)),
    )


def check_clean(result: ValidationResult) -> None:
    assert result.okay(), result.errors
    assert result.errors == ()
    assert result.benchmark_semantics_validated
    for reason in result.skipped:  # where sanitizers cannot be used
        assert "does not work on this machine" in reason


async def test_a_clean_state_passes_all_tests(at: Callable[..., Any]) -> None:
    env = await at("programs-v0/nqueens", *CLEAN, reward_space="IrInstructionCountOz")
    before = env.state_hash
    result = await env.validate(runs=("small",))
    check_clean(result)
    assert result.reward_validated
    assert (env.state_hash, result.state.actions) == (before, CLEAN)


@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", [uri.path for uri in default_datasets()["programs-v0"].benchmark_uris()])
async def test_a_default_pipeline_passes_all_tests(at: Callable[..., Any], name: str) -> None:
    env = await at(f"programs-v0/{name}", "default<O3>")
    check_clean(await env.validate(runs=("small",)))
    await env.close()


def only_where_it_does(env: aiocg.Env) -> None:
    if not env.compiler_version.startswith(("LLVM 22.", "LLVM 23.")):
        pytest.skip(f"{BY} miscompiles {MISCOMPILED} with LLVM 22 and 23; this is {env.compiler_version}")


@pytest.mark.slow
async def test_a_miscompile_is_caught_and_traced_to_its_pass(at: Callable[..., Any]) -> None:
    actions = ("lower-expect", "sroa", BY, "dse", "licm")
    env = await at(f"programs-v0/{MISCOMPILED}")
    only_where_it_does(env)
    await env.step_texts(actions)
    result = await env.validate(runs=("small",), sanitizers=(), flakiness=2)
    assert (result.okay(), result.benchmark_semantics_validation_failed) == (False, True)
    assert all(error.data["run"] == "small" for error in result.errors)

    async def misbehaves(env: aiocg.Env) -> bool:
        return await validation_fails(env, runs=("small",))

    smallest = await minimize(env, misbehaves)
    assert BY in smallest.actions
    assert len(smallest.actions) <= 3


@pytest.mark.needs("libc")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "sanitizer", "kind"),
    [
        ("over", Sanitizer.ADDRESS, ErrorKind.MEMORY_ERROR),
        ("under", Sanitizer.UNDEFINED, ErrorKind.UNDEFINED_BEHAVIOUR),
        ("read", Sanitizer.MEMORY, ErrorKind.MEMORY_ERROR),
    ],
)
async def test_sanitizers_find_what_a_benchmark_does_wrong_by_itself(
    at: Callable[..., Any], word: str, sanitizer: Sanitizer, kind: ErrorKind
) -> None:
    benchmark = program(DEFECTIVE, ProgramRun((word,)))
    env = await at(benchmark)
    result = await env.validate(flakiness=1)
    if any(sanitizer.value in reason or "does not work" in reason for reason in result.skipped):
        pytest.skip(str(result.skipped))
    (error,) = [error for error in result.errors if error.data.get("sanitizer") == sanitizer]
    assert (error.kind, error.by_itself) == (kind, True), "the unoptimised program has it too"
    assert error.data["report"]


@pytest.mark.slow
@pytest.mark.needs("libc")
async def test_output_files_are_compared(at: Callable[..., Any]) -> None:
    known = ProgramRun(output_files={"result.txt": b"6\n"})
    benchmark = program(WRITES_FILES, known)
    env = await at(benchmark, "mem2reg")
    check_clean(await env.validate(sanitizers=()))
    for promised, kind in (
        ({"result.txt": b"7\n"}, ErrorKind.WRONG_FILE),
        ({"other.txt": None}, ErrorKind.OUTPUT_NOT_GENERATED),
    ):
        env = await at(program(WRITES_FILES, ProgramRun(output_files=promised)))
        (error,) = (await env.validate(sanitizers=(), flakiness=1)).errors
        assert (error.kind, error.by_itself) == (kind, True)


@pytest.mark.slow
@pytest.mark.needs("libc")
async def test_a_program_that_hangs_or_fails_is_told_from_one_that_is_broken(at: Callable[..., Any]) -> None:
    for source, run, kind in (
        ("int main() { for (volatile int x = 0;;) x++; }", ProgramRun(timeout=0.2), ErrorKind.EXECUTION_TIMEOUT),
        ("int main() { return 7; }", ProgramRun(), ErrorKind.RUNTIME_ERROR),
        ("int main() { __builtin_trap(); }", ProgramRun(), ErrorKind.ILLEGAL_INSTRUCTION),
        ("int raise(int); int main() { return raise(11); }", ProgramRun(), ErrorKind.SEGMENTATION_FAULT),
    ):
        env = await at(program(source, run))
        result = await env.validate(sanitizers=(), flakiness=1)
        (error,) = result.errors
        assert (result.behaviour, result.wrong, error.kind, error.by_itself) == (Behaviour.FAILS, False, kind, True)
    env = await at(program("int nobody(void); int main() { return nobody(); }", ProgramRun()))
    assert (await env.validate()).verdict == "not run, because it cannot be linked: nobody is not defined"
    env = await at(program("int main() { return 7; }", ProgramRun(exit_status=7)))
    check_clean(await env.validate(sanitizers=()))


async def test_a_pass_that_breaks_linking_is_a_compilation_failure_and_not_retried(at: Callable[..., Any]) -> None:
    env = await at("programs-v0/gcd", "tsan-module")  # calls a function that is not there
    (error,) = (await env.validate(runs=("small",), sanitizers=())).errors
    assert (error.kind, error.by_itself, error.data["attempts"]) == (ErrorKind.COMPILATION_FAILED, False, 1)


async def test_what_cannot_be_checked_is_said(at: Callable[..., Any], tmp_path: Path) -> None:
    env = await at("programs-v0/gcd", "sroa")
    assert env.benchmark.program is not None
    bare = Benchmark("benchmark://mine-v0/bare", lambda: env.benchmark.content, program=env.benchmark.program)
    env = await at(bare, "sroa")
    result = await env.validate(runs=("small",), sanitizers=(Sanitizer.UNDEFINED,))
    assert result.okay()
    assert "sources are not at hand" in result.skipped[0]
    without = bare.replace(program=dataclasses.replace(bare.program, runs={}))  # type: ignore[type-var]
    assert not without.is_validatable()
    with pytest.raises(UnknownName, match="small, medium, large"):
        await env.validate(runs=("tiny",))


async def test_a_state_from_elsewhere_is_validated_on_its_own_benchmark(
    runtime: aiocg.Runtime, at: Callable[..., Any]
) -> None:
    foreign = CompilerEnvState(
        environment="llvm-ic-v0",
        benchmark="benchmark://programs-v0/gcd",
        actions=("sroa",),
        reward_space="IrInstructionCountOz",
        reward=123.0,
    )
    result = await validate(runtime, foreign, runs=("small",), sanitizers=())
    assert (result.error_details, result.benchmark_semantics_validated) == ("Wrong reward", True)
    env = await at("programs-v0/nqueens")
    assert (await env.validate(foreign, runs=("small",), sanitizers=())).error_details == "Wrong reward"


async def test_actions_that_another_form_of_the_program_lacks_the_function_for_fail_that_test_alone(
    runtime: aiocg.Runtime,
) -> None:
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd")
    await env.reset()
    subject = Subject(runtime, env, env.benchmark, ("@nobody(gvn)",), 60.0)
    with pytest.raises(Failed) as raised:
        async with subject.reached(env.benchmark, subject.actions):
            pytest.fail("it was reached")
    assert raised.value.error.kind == ErrorKind.REPLAY_FAILED


@pytest.mark.every_case
@pytest.mark.slow
async def test_report_of_a_miscompiled_program_has_a_reproducer_without_needless_actions(
    at: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    env = await at(f"programs-v0/{MISCOMPILED}", "sroa", BY, "dse", reward_space="IrInstructionCountOz")
    only_where_it_does(env)
    checks = Checks(Behaviour.SAME, "it was run")
    result = SearchResult(env.action_texts, 1.0, 1, 1.0, complete=True, state=begin_state("random", env), checks=checks)
    finding = await Finding.observe("random", env, result, run=True)
    assert finding.behaviour is Behaviour.DIFFERS and BY in finding.reproducer
    assert set(finding.reproducer) < set(env.action_texts) and finding.as_json(None)["validated"] == "differs"
    finding.print()
    assert f"{BY} on benchmark://programs-v0/{MISCOMPILED}" in capsys.readouterr().out
