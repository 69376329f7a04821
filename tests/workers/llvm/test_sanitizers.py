"""Each sanitizer finds a planted defect, says nothing of clean programs, and tells why where it cannot be used."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiocg.datasets.programs import ProgramsDataset
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibraries
from aiocg.workers.llvm.observations import _sanitizers as sanitizers
from aiocg.workers.llvm.observations._sanitizers import ADDRESS, MEMORY_USE, THREAD, UNDEFINED, Sanitizer
from aiocg.workers.programs.linking import EXECUTABLE, OBJECT
from aiocg.workers.programs.recipe import Program, Run, decode_program

ALL = {"address": ADDRESS, "thread": THREAD, "memory": MEMORY_USE, "undefined": UNDEFINED}
RUN = Run("only", (), b"", {}, {}, 0, None, {}, 20.0)

DEFECTS = {
    "heap overflow": (
        ADDRESS,
        "AddressSanitizer: heap-buffer-overflow",
        "void *malloc(unsigned long); int main(int c, char **v) { int *p = malloc(40); p[c + 9] = 1; return 0; }",
    ),
    "overflow of a global": (
        ADDRESS,
        "AddressSanitizer: global-buffer-overflow",
        "int table[10]; int main(int c, char **v) { return table[c + 9]; }",
    ),
    "use after free": (
        ADDRESS,
        "AddressSanitizer: heap-use-after-free",
        "void *malloc(unsigned long); void free(void *); int main() { int *p = malloc(4); free(p); return *p; }",
    ),
    "leak": (
        ADDRESS,
        "AddressSanitizer: 40 byte(s) leaked in 1 allocation(s).",
        "void *malloc(unsigned long); void *volatile p; int main() { p = malloc(40); p = 0; return 0; }",
    ),
    "null pointer": (ADDRESS, "AddressSanitizer: SEGV", "int main(int c, char **v) { return *(int *)(long)(c - 1); }"),
    "uninitialised read": (
        MEMORY_USE,
        "MemorySanitizer: use-of-uninitialized-value",
        "void *malloc(unsigned long); int main(int c, char **v) { int *p = malloc(40); return p[c] ? 3 : 0; }",
    ),
    "data race": (
        THREAD,
        "ThreadSanitizer: data race",
        """
        int pthread_create(unsigned long *, void *, void *(*)(void *), void *);
        int pthread_join(unsigned long, void **);
        int shared;
        void *add(void *unused) { shared++; return 0; }
        int main() {
          unsigned long one, two;
          pthread_create(&one, 0, add, 0);
          pthread_create(&two, 0, add, 0);
          pthread_join(one, 0);
          pthread_join(two, 0);
          return 0;
        }
        """,
    ),
    "signed overflow": (
        UNDEFINED,
        "UndefinedBehaviorSanitizer: undefined-behavior",
        "int main(int c, char **v) { int x = 2147483646 + c; return (x += c) == 0; }",
    ),
}
CLEAN = """
int pthread_create(unsigned long *, void *, void *(*)(void *), void *);
int pthread_join(unsigned long, void **);
void *calloc(unsigned long, unsigned long);
void free(void *);
int printf(const char *, ...);
int shared;
void *add(void *unused) { __atomic_fetch_add(&shared, 1, 5); return 0; }
int main(int c, char **v) {
  unsigned long thread;
  int *p = calloc(10, 4);
  pthread_create(&thread, 0, add, 0);
  add(0);
  pthread_join(thread, 0);
  p[9] = shared + c;
  printf("%d\\n", p[9]);
  free(p);
  return 0;
}
"""


def usable(engine: Engine, sanitizer: Sanitizer) -> None:
    """Skip the test, with the reason, where a sanitizer does not work."""
    try:
        sanitizers.usable(engine, sanitizer)
    except sanitizers.Unavailable as reason:
        pytest.skip(str(reason))


def test_want_of_disk_is_no_verdict_on_a_sanitizer(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    usable(engine, ADDRESS)
    sanitizers._verdicts.pop(engine)
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/no/such/folder")
        with pytest.raises(CompilationError, match="Set TMPDIR"):
            sanitizers.usable(engine, ADDRESS)
    assert sanitizers.usable(engine, ADDRESS)


def hosted(*runs: Run) -> Program:
    """The recipe of a program that stands on the machine's C library."""
    return Program(1, ("{clang}", "-o", EXECUTABLE, OBJECT), {}, {}, runs or (RUN,), "")


@pytest.fixture
def watch(engine: Engine, tmp_path: Path, clang: str) -> Callable[..., dict[str, Any]]:
    """Compile a source and run it under a sanitizer."""

    def compile_and_run(source: str, sanitizer: Sanitizer, *passes: str) -> dict[str, Any]:
        usable(engine, sanitizer)
        flags = ["-O1", "-gline-tables-only", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-w"]
        flags += ["-xc", "-c", "-", "-o", "-"]
        if sanitizer is UNDEFINED:
            flags += ["-fsanitize=undefined", "-fno-sanitize-recover=undefined"]
        done = subprocess.run([clang, *flags], input=source.encode(), capture_output=True, check=True)
        state = engine.load(done.stdout)
        for one in passes:
            state = engine.apply(state, one)
        return sanitizers.watch(engine, state, hosted(), sanitizer, time.monotonic() + 60)

    return compile_and_run


@pytest.mark.few(1)
@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_defect_is_found(watch: Callable[..., dict[str, Any]], engine: Engine, name: str) -> None:
    sanitizer, expected, source = DEFECTS[name]
    if name == "leak" and "detect_leaks=0" in str(_settings(engine, ADDRESS)):
        pytest.skip("processes may not be traced here, so leaks are not looked for")
    result = watch(source, sanitizer)
    assert result["skipped"] == ""
    (run,) = result["runs"]
    assert run["finding"].startswith(expected)
    assert run["exit_code"] == sanitizers.FOUND
    assert run["report"]
    if name in ("heap overflow", "overflow of a global", "use after free", "signed overflow"):
        assert run["place"].startswith("<stdin>:1:")


@pytest.mark.few(1)
@pytest.mark.parametrize("tool", ["llvm-symbolizer", "addr2line", ""])
def test_place_of_a_finding_is_read_by_whatever_tool_there_is(
    watch: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tool: str
) -> None:
    if tool and not shutil.which(tool):
        pytest.skip(f"needs {tool}")
    usual = shutil.which

    def which(name: str, *rest: Any) -> str | None:
        return None if name in ("llvm-symbolizer", "addr2line") and name != tool else usual(name, *rest)

    monkeypatch.setattr(shutil, "which", which)
    source = (
        "#include <string.h>\nchar a[8], b[8];\nint main(int c, char **v) {\n  memcpy(b, a, 8 + c);\n  return 0;\n}\n"
    )
    (run,) = watch(source, ADDRESS)["runs"]
    assert run["finding"].startswith("AddressSanitizer: global-buffer-overflow")
    assert run["place"].partition(":")[2].partition(":")[0] == ("4" if tool else "")


def _settings(engine: Engine, sanitizer: Sanitizer) -> dict[str, str]:
    usable(engine, sanitizer)
    return sanitizers.usable(engine, sanitizer)


@pytest.mark.few(1)
@pytest.mark.parametrize("flag", ALL)
def test_a_clean_program_passes_unoptimised_and_optimised(watch: Callable[..., dict[str, Any]], flag: str) -> None:
    for passes in ((), ("default<O3>",)):
        (run,) = watch(CLEAN, ALL[flag], *passes)["runs"]
        assert (run["finding"], run["exit_code"], run["stdout"]["head"]) == ("", 0, "3\n")


def test_the_state_stays_what_it_was(engine: Engine, simple: bytes) -> None:
    state = engine.load(simple)
    before, text = engine.bitcode(state), engine.text(state)
    sanitizers.instrument(engine, engine.bitcode(state), ADDRESS)
    assert (engine.bitcode(state), engine.text(state)) == (before, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["qsort", "eventsim"]
)  # one in C, one in C++ with static objects and virtual functions
def test_our_own_programs_run_on_the_machines_c_library(engine: Engine, name: str) -> None:
    benchmark = ProgramsDataset()[name]
    for sanitizer in (ADDRESS, THREAD, MEMORY_USE):
        usable(engine, sanitizer)
        check_silent(engine, benchmark, sanitizer)


@pytest.mark.slow
@pytest.mark.parametrize("flag", ["address", "thread", "memory"])
def test_no_sanitizer_finds_anything_in_our_programs(engine: Engine, flag: str) -> None:
    usable(engine, ALL[flag])
    for uri in [*ProgramsDataset().benchmark_uris()][:: 3 if os.environ.get("EVERY_CASE") else 6]:
        check_silent(engine, ProgramsDataset()[uri.path], ALL[flag])


def check_silent(engine: Engine, benchmark: Any, sanitizer: Sanitizer) -> None:
    program = decode_program(benchmark.recipe)
    assert program is not None
    program = msgspec.structs.replace(program, runs=program.runs[:1])
    (run,) = sanitizers.watch(engine, engine.load(benchmark.content), program, sanitizer, time.monotonic() + 60)["runs"]
    assert (run["finding"], run["problem"]) == ("", ""), benchmark


def test_a_program_that_cannot_be_watched_says_why(engine: Engine, simple: bytes) -> None:
    state, deadline = engine.load(simple), time.monotonic() + 60
    assert "does not say how it is run" in sanitizers.watch(engine, state, None, ADDRESS, deadline)["skipped"]
    usable(engine, ADDRESS)
    program = Program(1, ("cc", "-o", EXECUTABLE, OBJECT), {}, {}, (RUN,), "")
    assert "not linked by clang" in sanitizers.watch(engine, state, program, ADDRESS, deadline)["skipped"]


def test_where_no_sanitizer_works_the_reason_is_told_once(
    library: Library, cache_dir: Path, tmp_path: Path, simple: bytes
) -> None:
    wrapper = tmp_path / "clang"
    calls = tmp_path / "calls"
    wrapper.write_text(f"#!/bin/sh\necho >> {calls}\necho 'cannot find crt1.o' >&2\nexit 1\n")
    wrapper.chmod(0o755)
    NativeLibraries(library, find_clang(library), cache_dir).load("walker")
    engine = Engine(library, NativeLibraries(library, find_clang(library), cache_dir))
    engine.builder.tools.clang = str(wrapper)
    state = engine.load(simple)
    for _ in range(2):
        result = sanitizers.watch(engine, state, hosted(), THREAD, time.monotonic() + 60)
        assert result["runs"] == []
        assert "-fsanitize=thread does not work on this machine" in result["skipped"]
        assert "cannot find crt1.o" in result["skipped"]
    assert calls.read_text().count("\n") == 1


def test_a_program_that_does_not_link_is_an_error(engine: Engine) -> None:
    usable(engine, ADDRESS)
    triple = engine.library.take_string(engine.library.c.LLVMGetDefaultTargetTriple())
    body = "declare i32 @nobody()\ndefine i32 @main() {\n  %r = call i32 @nobody()\n  ret i32 %r\n}\n"
    text = f'target triple = "{triple}"\n{body}'
    with pytest.raises(CompilationError, match="nobody") as caught:
        sanitizers.watch(engine, engine.load(text.encode()), hosted(), ADDRESS, time.monotonic() + 60)
    assert caught.value.code == FailureCode.OBSERVATION
