"""A search gives back the program that went in: what it finds is run and compared, and what is undefined is named."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import aiocg
import aiocg.search.reference as reference_module
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun
from aiocg.datasets.toolchain import find_toolchain
from aiocg.search import Budget, functionwise
from aiocg.search._checking import Checker
from aiocg.search.baselines import baselines
from aiocg.search.reference import Reference, first_run, reference_of, run_again, runnable, undefined
from aiocg.states.behaviour import Behaviour

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.needs("libc")]

READS_PAST_ITS_END = r"""
#include <stdio.h>
int table[4] = {1, 2, 3, 4};
int after = 9;
__attribute__((noinline)) int find(int v) {
  for (int i = 0; i <= 4; i++)
    if (table[i] == v) return 1;
  return 0;
}
int main(void) { printf("%d\n", find(7)); return 0; }
"""
THROUGH_A_POINTER = READS_PAST_ITS_END.replace("  for", "  int *t = table;\n  for").replace("table[i]", "t[i]")
UNDEFINED = {  # programs that do the same at all levels, and the place that a sanitizer finds
    READS_PAST_ITS_END: "undefined behaviour at program.c:7:9: index 4 out of bounds for type 'int[4]'",
    THROUGH_A_POINTER: "undefined behaviour at program.c:8:9: AddressSanitizer: global-buffer-overflow, "
    "0 bytes after global variable 'table'",
}
BREAKS_IT = ("default<O2>", "constraint-elimination")  # it takes what cannot be past the end for the end of the loop
CASES = {  # the behaviour, and a part of the reason
    "past the end of a table": (READS_PAST_ITS_END, Behaviour.SAME, "does what it does as it came"),
    "a sum that overflows": (
        '#include <stdio.h>\nint main(void) { int n = 0; for (int i = 2147483640; i > 0; i++) n++; printf("%d", n); }',
        Behaviour.VARIES,
        "undefined behaviour at program.c:2:62: signed integer overflow",
    ),
    "a null pointer": (
        "int *p; int main(void) { return *p; }",
        Behaviour.FAILS,
        "undefined behaviour at program.c:1:33: load of null pointer",
    ),
    "a shift too far": (
        "#include <stdio.h>\n__attribute__((noinline)) static int up(int x, int n) { return x << n; }\n"
        'int main(int argc, char **argv) { printf("%d", up(argc, 40) == 256); }',
        Behaviour.VARIES,
        "undefined behaviour at program.c:2:66: shift exponent 40 is too large",
    ),
    "a number read as another type": (
        "#include <stdio.h>\n__attribute__((noinline)) int pun(int *i, float *f) { *i = 1; *f = 0; return *i; }\n"
        'int main(void) { int x; printf("%d", pun(&x, (float *)&x)); }',
        Behaviour.VARIES,
        "with clang -Oz (wrong output) and with -O3 (wrong output) it does something else",
    ),
    "an exit status": ("int main(void) { return 3; }", Behaviour.SAME, "(exit status 3)"),
    "an abort": ("void abort(void); int main(void) { abort(); }", Behaviour.SAME, "(SIGABRT)"),
    "its own number": (
        "#include <stdio.h>\n#include <time.h>\n"
        "int main(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); "
        'printf("%ld", t.tv_nsec + t.tv_sec); }',
        Behaviour.VARIES,
        "what it writes varies from run to run",
    ),
    "no main": ("int twice(int x) { return x + x; }", Behaviour.NOT_RUN, "it has no main"),
    "another unit": (
        "int other(int); int main(void) { return other(3); }",
        Behaviour.NOT_RUN,
        "it cannot be linked: other is not defined",
    ),
    "a start of its own": (
        "int main(void) { return 0; } void _start(void) { for (;;); }",
        Behaviour.NOT_RUN,
        "it cannot be linked: duplicate symbol: _start",
    ),
    "a stack that the levels spare": (
        "__attribute__((noinline)) long down(long n, long *sum) { *sum += n; return n ? down(n - 1, sum) : *sum; }\n"
        "int main(void) { long sum = 0; return down(1000000, &sum) != 500000500000; }",
        Behaviour.VARIES,
        "it does something else than as it came (SIGSEGV)",
    ),
    "no end": (
        "int main(void) { for (volatile int n = 0;;) n++; }",
        Behaviour.NOT_RUN,
        "it does not end within 2 s",
    ),
    "its input": ("int getchar(void); int main(void) { return getchar() == -1; }", Behaviour.SAME, "(exit status 1)"),
    "files and processes": (
        '#include <stdio.h>\n#include <unistd.h>\nint main(void) { FILE *f = fopen("made", "w"); fputs("x", f); '
        "if (!fork()) { setsid(); sleep(600); } return 0; }",
        Behaviour.SAME,
        "it was run without arguments or input",
    ),
}


def program(tmp_path: Path, source: str, suffix: str = "c") -> Benchmark:
    path = tmp_path / f"program.{suffix}"
    path.write_text(source)
    return Benchmark.from_file(path)


async def reference(runtime: aiocg.Runtime, benchmark: Benchmark) -> Reference:
    async with await runtime.make("llvm-v0", benchmark=benchmark) as env:
        return await reference_of(env, first_run(runnable(benchmark)), baselines(env))


@pytest.mark.few(1)
@pytest.mark.parametrize("name", CASES)
async def test_reference_of_a_program_is_what_it_does_at_all_levels(
    runtime: aiocg.Runtime, tmp_path: Path, name: str
) -> None:
    source, behaviour, reason = CASES[name]
    found = await reference(runtime, program(tmp_path, source))
    assert (found.behaviour, reason in found.reason) == (behaviour, True), found.reason


@pytest.mark.slow
async def test_a_program_that_writes_the_time_varies_once_that_is_seen(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    source = '#include <stdio.h>\n#include <time.h>\nint main(void) { printf("%ld", (long)time(0)); }'
    benchmark = program(tmp_path, source)
    async with await runtime.make("llvm-v0", benchmark=benchmark) as env:
        found = await reference_of(env, first_run(runnable(benchmark)), baselines(env))
        await asyncio.sleep(1.1)
        assert (await run_again(env, found)).behaviour is Behaviour.VARIES


@pytest.mark.slow
async def test_a_program_that_writes_too_much_for_a_run_is_not_at_fault(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    source = (
        "#include <stdio.h>\nchar block[1 << 22]; "
        "int main(void) { for (int i = 0; i < 99; i++) fwrite(block, 1, sizeof block, stdout); }"
    )
    found = await reference(runtime, program(tmp_path, source))
    assert found.behaviour is Behaviour.NOT_RUN and "writes more" in found.reason


@pytest.mark.slow
async def test_a_program_whose_variables_do_not_fit_a_run_is_not_at_fault(
    runtime: aiocg.Runtime, tmp_path: Path
) -> None:
    source = "char much[20UL << 30]; int main(int n, char **v) { return much[(unsigned long)n << 31] = 3; }"
    found = await reference(runtime, program(tmp_path, source))
    assert found.behaviour is Behaviour.NOT_RUN and "exceed the memory of a run" in found.reason, found.reason


@pytest.mark.slow
async def test_a_slow_program_that_a_level_makes_fast_is_not_undefined(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    source = (
        "int main(void) { unsigned long s = 0; for (unsigned long i = 0; i < 1UL << 36; i++) s += i; return s & 3; }"
    )
    found = await reference(runtime, program(tmp_path, source))
    assert found.behaviour is Behaviour.NOT_RUN, found.reason
    assert "does not end within 2 s, with clang -Oz and with -O3 it does: say with --run" in found.reason


async def test_a_quick_program_is_run_often_enough_to_see_that_it_varies_now_and_then(
    runtime: aiocg.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observe, seen = aiocg.Env.observe, list[str]()

    async def varying(env: aiocg.Env, *names: str, **options: Any) -> Any:
        found = await observe(env, *names, **options)
        seen.extend(name for name in names if name == "Execution")
        return [{**run, "stdout": {"sha256": "", "head": ""}} for run in found] if len(seen) == 6 else found

    monkeypatch.setattr(aiocg.Env, "observe", varying)
    monkeypatch.setattr(reference_module, "REPEATING", 600.0)
    found = await reference(runtime, program(tmp_path, "int main(void) { return 0; }"))
    assert (found.behaviour, len(seen)) == (Behaviour.VARIES, 1 + reference_module.AGAIN), found.reason


HEAP = """#include <stdlib.h>
#include <string.h>
int main(void) { char *all = malloc(SIZE); if (!all) return 7;
  for (unsigned long i = 0; i < TOUCHED; i += 4096) all[i] = 1;
  return all[4096] - 1; }
"""


@pytest.mark.slow
@pytest.mark.parametrize(("touched", "behaviour"), [("1UL << 28", Behaviour.SAME), ("SIZE", Behaviour.NOT_RUN)])
async def test_a_program_with_a_large_heap_is_not_at_fault(
    runtime: aiocg.Runtime, tmp_path: Path, touched: str, behaviour: Behaviour
) -> None:
    source = HEAP.replace("TOUCHED", touched).replace("SIZE", "(6UL << 30)")
    run = BenchmarkProgram("c", runs={"all": ProgramRun(exit_status=None, timeout=60.0)})
    found = await reference(runtime, program(tmp_path, source).replace(program=run))
    assert found.behaviour is behaviour, found.reason
    assert behaviour is Behaviour.SAME or "takes more memory than a run may" in found.reason, found.reason


@pytest.mark.slow
@pytest.mark.needs("g++")
async def test_a_function_that_is_always_inlined_needs_no_code_elsewhere(
    runtime: aiocg.Runtime, tmp_path: Path
) -> None:
    source = "#include <string>\nint main(int n, char **v) { std::string s(v[0]); s += v[0]; return s.empty(); }"
    found = await reference(runtime, program(tmp_path, source, "cc"))
    assert found.behaviour is Behaviour.SAME, found.reason


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
async def test_validation_agrees_with_a_search(runtime: aiocg.Runtime, tmp_path: Path, name: str) -> None:
    source, behaviour, _ = CASES[name]
    target = program(tmp_path, source)
    async with await runtime.make("llvm-v0", benchmark=target, reward_space="ObjectImageSizeOzMinsize") as env:
        found = (await functionwise(env, budget=Budget(evaluations=20))).checks
        result = await env.validate(sanitizers=())
    assert found.behaviour is result.behaviour is behaviour, (found.reason, result.reason)
    assert (result.okay(), result.wrong) == (behaviour is Behaviour.SAME, False)


@pytest.mark.few(1)
@pytest.mark.parametrize("source", UNDEFINED, ids=["in an array", "through a pointer"])
async def test_a_program_that_no_longer_ends_is_dropped_and_the_place_to_blame_is_named(
    runtime: aiocg.Runtime, tmp_path: Path, source: str
) -> None:
    target = program(tmp_path, source)
    async with await runtime.make("llvm-v0", benchmark=target) as env:
        if not env.compiler_version.startswith(("LLVM 22.", "LLVM 23.")):
            pytest.skip("what LLVM makes of undefined behaviour is another thing in each version")
        await env.reset()
        checker = Checker(env)
        try:
            await checker.begin(baselines(env))
            (found,) = await env.expand_texts([BREAKS_IT], observation_spaces=[])
            assert not await checker.is_right(BREAKS_IT, found.state)
            await checker.explain()
        finally:
            await checker.close()
        checks = checker.checks()
        await env.step_texts(BREAKS_IT)
        result = await env.validate(sanitizers=())
    assert (checks.behaviour, checks.wrong, checks.broken) == (Behaviour.SAME, 1, BREAKS_IT)
    assert checks.undefined == (UNDEFINED[source],)
    assert (result.behaviour, result.wrong, result.reproducer) == (Behaviour.VARIES, False, ())
    assert result.reason.endswith(f"; {UNDEFINED[source]}")


@pytest.mark.slow
async def test_leak_is_no_undefined_behaviour(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    source = "#include <stdlib.h>\nvoid *volatile kept; int main(void) { kept = malloc(40); kept = 0; return 0; }"
    target = first_run(runnable(program(tmp_path, source)))
    async with await runtime.make("llvm-v0", benchmark=target) as env:
        assert (await undefined(env, target)).found == ()


@pytest.mark.slow
async def test_reason_that_no_sanitizer_could_look_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    toolchain = find_toolchain()
    wrapper = tmp_path / "clang"  # as a clang whose packages of runtime libraries are not installed
    wrapper.write_text(
        "#!/bin/sh\n"
        'case "$*" in *-fsanitize=*program.o*) echo no libclang_rt >&2; exit 1;; esac\n'
        f'exec {toolchain.clang} "$@"\n'
    )
    wrapper.chmod(0o755)
    monkeypatch.setenv("AIOCG_CLANG", str(wrapper))
    target = first_run(runnable(program(tmp_path, THROUGH_A_POINTER)))
    async with aiocg.Runtime(workers=1) as own, await own.make("llvm-v0", benchmark=target) as env:
        signs = await undefined(env, target)
    assert signs.found == () and "does not work on this machine" in signs.unwatched
    assert str(signs).startswith("; no sanitizer could look for undefined behaviour: ")
