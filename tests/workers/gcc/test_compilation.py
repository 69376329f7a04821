"""What a command line makes of sources: once, the same everywhere, and remembered."""

import contextlib
import math
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from aiocg.transport.elf import text_size
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc._compilation import Benchmark, Compilation, Compiler, Limits, read_sources
from aiocg.workers.gcc._local import LocalRunner
from aiocg.workers.gcc._store import Results, Store

MAIN = b"""#include "part.h"
#include <stdint.h>
const char *where = __FILE__ " " __DATE__ " " __TIME__ " " __TIMESTAMP__;
int main(void) { uint32_t sum = 0; for (int i = 0; i < 10; i++) sum += part(i); return sum; }
"""
PART = b'#include "part.h"\nint part(int n) { return n % 7 ? n * n : -n; }\n'
FILES = {"src/main.c": MAIN, "src/part.c": PART, "include/part.h": b"int part(int n);\n"}
LIMITS = Limits(60.0, 4 << 30, math.inf)


def benchmark(units: tuple[str, ...] = ("src/main.c",), files: dict[str, bytes] = FILES, **others: object) -> Benchmark:
    fields = {"version": 1, "include": ("include",), "flags": (), "language": "c", "freestanding": False, **others}
    return Benchmark(read_sources(msgspec.msgpack.encode({**fields, "units": units, "files": files})))


Compile = Callable[..., Compilation]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Compiler]]:
    """Make compilers of commands, gcc if there is none."""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine")
    runners = []

    def compiler(command: str = "gcc", store: Store | None = None) -> Compiler:
        runners.append(LocalRunner(command))
        return Compiler(runners[-1], Results(store))

    yield compiler
    for runner in runners:
        runner.close()


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write a compiler that does something else for some units and hands the others on to gcc."""

    def write(case: str) -> str:
        path = tmp_path / "cc"
        path.write_text(f'#!/bin/sh\nfor word; do case "$word" in {case} esac; done\nexec gcc "$@"\n')
        path.chmod(0o755)
        return str(path)

    return write


def compilation(compiler: Compiler, program: Benchmark, *words: str, limits: Limits = LIMITS) -> Compilation:
    return Compilation(compiler, program, words, f"{program.sources.digest} {' '.join(words)}", limits)


def bare(folder: Path, *words: str) -> bytes:
    """Return what gcc alone makes of the program."""
    for name, content in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (0, 0))
    command = ["gcc", *words, "-Iinclude", "-w", "-frandom-seed=src/main.c", "-c", "src/main.c", "-o", "main.o"]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "0", "PWD": "/proc/self/cwd"}
    subprocess.run(command, cwd=folder, check=True, env=environment)
    return (folder / "main.o").read_bytes()


@pytest.mark.parametrize(
    "words", [(), ("-O2",), ("-Os", "-fno-inline", "--param=max-inline-insns-auto=3"), ("-O2", "-g")]
)
def test_the_object_file_is_what_gcc_alone_would_have_made(make, tmp_path: Path, words: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    assert compilation(make(), benchmark(), *words).object_file() == bare(tmp_path, *words)


@pytest.mark.parametrize("flags", [(), ("-g",)])
def test_it_is_the_same_from_two_places_at_two_times(make, flags: tuple[str, ...]) -> None:  # type: ignore[no-untyped-def]
    made = set()
    for _ in range(2):
        one = compilation(make(), benchmark(("src/main.c", "src/part.c"), flags=flags), "-O2")
        made.add((one.object_file(), b"".join(one.assembly()), one.rtl()))
    ((code, assembly, _),) = made
    for mark in (os.getcwd().encode(), b"/tmp/", b"2026"):
        assert mark not in code and mark not in assembly
    assert b"src/main.c Jan  1 1970 00:00:00 Thu Jan  1 00:00:00 1970" in code


def test_one_compile_serves_everything(make) -> None:  # type: ignore[no-untyped-def]
    compiler = make()
    one = compilation(compiler, benchmark(), "-O1")
    code, (assembly,) = one.object_file(), one.assembly()
    assert one.fact("asm_size") == len(assembly) and one.fact("obj_size") == len(code)
    assert one.fact("obj_text_size") == text_size(code)
    assert one.fact("instruction_counts")["ret"] == 1
    assert len(one.fact("asm_hash")) == len(one.fact("obj_hash")) == 32
    assert (compiler.compiles, compiler.assemblies) == (1, 1)
    again = compilation(compiler, benchmark(), "-O1")
    assert again.object_file() == code and (compiler.compiles, compiler.assemblies) == (1, 1)
    assert b"(insn" in one.rtl() and compiler.compiles == 2
    assert compilation(compiler, benchmark(), "-O2").fact("obj_size") and compiler.compiles == 3


def test_rtl_gives_the_assembly_as_well(make) -> None:  # type: ignore[no-untyped-def]
    compiler = make()
    one = compilation(compiler, benchmark(), "-O2")
    assert one.rtl() and one.fact("asm_size") and compiler.compiles == 1
    assert one.assembly() == compilation(make(), benchmark(), "-O2").assembly()


def test_results_outlive_the_worker(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = Store(tmp_path)
    first = compilation(make(store=store), benchmark(), "-O2")
    facts = [first.fact("obj_text_size"), first.fact("instruction_counts"), first.rtl(), first.object_file()]
    store.close()
    compiler = make(store=Store(tmp_path))
    second = compilation(compiler, benchmark(), "-O2")
    assert [
        second.fact("obj_text_size"),
        second.fact("instruction_counts"),
        second.rtl(),
        second.object_file(),
    ] == facts
    assert compiler.compiles == compiler.assemblies == 0


def test_another_compiler_has_other_results(make, script, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = Store(tmp_path)
    compilation(make(store=store), benchmark(), "-O2").object_file()
    compiler = make(script("nothing) ;;"), store=store)
    compilation(compiler, benchmark(), "-O2").object_file()
    assert compiler.compiles == 1


@pytest.mark.slow
def test_several_units_are_one_object_file(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    compiler = make()
    one = compilation(compiler, benchmark(("src/main.c", "src/part.c")), "-O2")
    (tmp_path / "program.o").write_bytes(one.object_file())
    symbols = subprocess.run(["nm", "program.o"], cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    assert " T main" in symbols and " T part" in symbols and " U " not in symbols
    assert len(one.assembly()) == 2 and one.fact("asm_size") == sum(map(len, one.assembly()))
    assert (compiler.compiles, compiler.assemblies) == (2, 2)
    subprocess.run(["gcc", "-o", "program", "program.o"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "program"]).returncode == (285 - 49 - 7 + 256) % 256  # squares, but for 0 and 7


def test_a_freestanding_program_sees_no_headers_of_the_machine(make) -> None:  # type: ignore[no-untyped-def]
    files = {"a.c": b"#include <stdarg.h>\n#include <stdio.h>\n"}
    compiler = make()
    assert compilation(compiler, benchmark(("a.c",), files)).fact("asm_size")
    with pytest.raises(CompilationError, match=r"stdio.h: No such file") as e:
        compilation(compiler, benchmark(("a.c",), files, freestanding=True)).fact("asm_size")
    assert e.value.fields == {"reason": "missing"}
    alone = benchmark(("a.c",), {"a.c": b"#include <stdarg.h>\n"}, freestanding=True)
    assert compilation(compiler, alone).fact("asm_size")


# -------------------------------------------------------------------------------------------------- failures


def test_a_refusal_is_told_in_the_compilers_words_and_remembered(make, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    store = Store(tmp_path)
    for compiler, compiles in ((make(store=store), 1), (make(store=store), 0)):
        broken = benchmark(files={**FILES, "src/main.c": b"int main(void) { return nothing; }"})
        for name in ("asm_size", "obj_size"):
            with pytest.raises(CompilationError, match=r"does not compile src/main.c(?s:.)*'nothing' undeclared") as e:
                compilation(compiler, broken).fact(name)
            assert e.value.code == FailureCode.OBSERVATION and e.value.fields == {"reason": "refused"}
        assert compiler.compiles == compiles


def test_options_that_do_not_go_together_are_refused(make) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(CompilationError, match="-fsanitize=address") as e:
        compilation(make(), benchmark(), "-fsanitize=address", "-fsanitize=thread").object_file()
    assert e.value.fields["reason"] == "refused"


def test_code_that_the_assembler_refuses(make) -> None:  # type: ignore[no-untyped-def]
    compiler = make()
    odd = benchmark(files={**FILES, "src/main.c": b'__asm__("no such instruction");'})
    assert compilation(compiler, odd).fact("asm_size")
    for _ in range(2):
        with pytest.raises(CompilationError, match="no such instruction") as e:
            compilation(compiler, odd).fact("obj_size")
        assert e.value.fields["reason"] == "refused"
    assert compiler.assemblies == 1


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("does", "reason", "permanent"),
    [
        ("echo 'cc1: internal compiler error: in f, at g.cc:3' >&2; exit 1", "internal compiler error", True),
        ("echo 'cc1: out of memory allocating 65536 bytes' >&2; exit 1", "memory", True),
        ("echo 'gcc: fatal error: Killed signal terminated program cc1' >&2; exit 1", "killed", False),
        ("echo 'gcc: internal compiler error: Killed (program cc1)' >&2; exit 4", "killed", False),
        ("echo 'cc1: fatal error: /tmp/x.s: No space left on device' >&2; exit 1", "disk", False),
        ("echo 'gcc: fatal error: cannot execute cc1plus: execvp' >&2; exit 1", "installation", False),
        ("kill -SEGV $$", "crashed", False),
        ("kill -KILL $$", "killed", False),
        ("exit 0", "nothing", False),
        ("echo 'gcc: fatal error: Interrupt signal terminated program cc1' >&2; exit 1", "killed", False),
        ("echo 'gcc: internal compiler error: CPU time limit exceeded (program cc1)' >&2; exit 4", "killed", False),
        ("echo 'gcc: fatal error: vfork: Resource temporarily unavailable' >&2; exit 1", "system", False),
        ("echo 'cc1: fatal error: opening ../out/0.s: Permission denied' >&2; exit 1", "system", False),
        ("echo \"{standard input}:3: Error: no such instruction: 'x'\" >&2; exit 1", "refused", True),
        ("echo 'main.c:1: sorry, unimplemented: that' >&2; exit 1", "refused", True),
        ("exit 126", "failed", False),
        ("exit 3", "failed", False),
    ],
)
def test_each_way_to_fail_has_a_reason(make, script, does: str, reason: str, permanent: bool) -> None:  # type: ignore[no-untyped-def]
    compiler = make(script(f"*main.c) {does} ;;"))
    for _ in range(2):
        with pytest.raises(CompilationError) as e:
            compilation(compiler, benchmark()).object_file()
        assert (e.value.code, e.value.fields) == (FailureCode.OBSERVATION, {"reason": reason})
    assert compiler.compiles == (1 if permanent else 2)
    assert compilation(compiler, benchmark(("src/part.c",))).object_file()


@pytest.fixture
def after(script, tmp_path: Path) -> Callable[..., str]:  # type: ignore[no-untyped-def]
    """Write a compiler that does something else as long as there is a file `wrong`, and counts its compiles."""

    def write(does: str) -> str:
        (tmp_path / "wrong").touch()
        command: str = script(f"src/main.c) echo >>{tmp_path}/compiles; [ -e {tmp_path}/wrong ] && {{ {does}; }} ;;")
        return command

    return write


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("does", "limits", "more"),
    [
        ("sleep 4714.5", {"timeout": 1.0}, {"timeout": 60.0}),
        ("echo cc1: out of memory allocating 9 bytes >&2; exit 1", {"memory": 1 << 30}, {"memory": 3 << 30}),
        ("echo cc1: internal compiler error: in f >&2; exit 1", {"memory": 1 << 30}, {"memory": 3 << 30}),
    ],
)
def test_a_failure_for_want_of_something_holds_for_as_much_and_for_less(  # type: ignore[no-untyped-def]
    make, after, tmp_path: Path, does: str, limits: dict[str, float], more: dict[str, float]
) -> None:
    command, store = after(does), Store(tmp_path / "store")
    less = {name: value / 2 if isinstance(value, float) else value // 2 for name, value in limits.items()}
    words = set()
    for given, compiles in ((limits, 1), (limits, 1), (less, 1)):
        for compiler in (make(command, store=store), make(command, store=store)):
            with pytest.raises(CompilationError) as e:
                compilation(compiler, benchmark(), limits=LIMITS._replace(**given)).object_file()
            words.add((e.value.message, str(e.value.fields)))
            assert len((tmp_path / "compiles").read_text()) == compiles
    assert len(words) == 1
    (tmp_path / "wrong").unlink()
    assert compilation(make(command, store=store), benchmark(), limits=LIMITS._replace(**more)).object_file()
    assert compilation(make(command, store=store), benchmark(), limits=LIMITS._replace(**limits)).object_file()
    assert len((tmp_path / "compiles").read_text()) == 2


def test_memory_that_no_process_can_have_is_not_taken_for_what_it_had(make, after, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    command, store = after("echo cc1: out of memory allocating 9 bytes >&2; exit 1"), Store(tmp_path / "store")
    for most in (1 << 30, 4 << 30):
        compiler = make(command, store=store)
        compiler.runner.memory = most
        with pytest.raises(CompilationError, match="more memory"):
            compilation(compiler, benchmark()).assembly()
    assert len((tmp_path / "compiles").read_text()) == 2


def test_a_question_that_is_not_answered_is_no_fault_of_the_program(  # type: ignore[no-untyped-def]
    make, script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wrong").touch()
    compiler = make(script(f"-print-file-name*) [ -e {tmp_path}/wrong ] && sleep 4714.5 ;;"))
    program = benchmark(("a.c",), {"a.c": b"int f(void) { return 1; }\n"}, freestanding=True)
    with monkeypatch.context() as impatient:
        impatient.setattr("aiocg.workers.gcc._compilation._QUESTION_TIMEOUT", 0.3)
        with pytest.raises(CompilationError, match="a question for its headers"):
            compilation(compiler, program).object_file()
    (tmp_path / "wrong").unlink()
    assert compilation(compiler, program).object_file()


def test_a_compile_that_hangs_is_stopped_and_for_longer_tried_again(make, script, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    hang = tmp_path / "hang"
    hang.touch()
    compiler = make(script(f"*main.c) [ -e {hang} ] && sleep 4714.5 ;;"))
    for limit, patience in ((0.3, math.inf), (600.0, 0.4), (600.0, 0.4)):
        limits = Limits(limit, 4 << 30, time.monotonic() + patience)
        with pytest.raises(CompilationError, match=r"had not compiled src/main.c after \d+\.\d s") as e:
            compilation(compiler, benchmark(), limits=limits).object_file()
        assert e.value.fields == {"reason": "timeout"}
    assert compiler.compiles == 3  # a caller's deadline says nothing of the next
    hang.unlink()
    assert compilation(compiler, benchmark()).object_file()


@pytest.mark.slow
def test_memory_is_limited(make) -> None:  # type: ignore[no-untyped-def]
    tenfold = "".join(f"#define A{n + 1} {', '.join([f'A{n}'] * 10)}\n" for n in range(8))
    greedy = benchmark(files={**FILES, "src/main.c": f"#define A0 1\n{tenfold}int a[] = {{A8}};".encode()})
    with pytest.raises(CompilationError, match="more memory") as e:
        compilation(make(), greedy, limits=LIMITS._replace(memory=256 << 20)).object_file()
    assert e.value.fields == {"reason": "memory"}


def test_output_is_limited(make, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("aiocg.workers.gcc._local.FILE_LIMIT", 1 << 20)
    large = benchmark(files={**FILES, "src/main.c": b'__asm__(".fill 9999999, 1, 1");'})
    with pytest.raises(CompilationError, match="wrote too much") as e:
        compilation(make(), large).object_file()
    assert e.value.fields == {"reason": "output"}


@pytest.fixture
def full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with room for 64 KB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_full_disk_is_an_error_until_there_is_room(full_disk: Path, make) -> None:  # type: ignore[no-untyped-def]
    compiler = make()
    (full_disk / "others").write_bytes(bytes(40 << 10))
    table = b"int table[] = {" + b"1, 2, 3, 4, 5, 6, 7, 8, " * 400 + b"};\n"
    large = benchmark(files={**FILES, "src/main.c": MAIN + table})
    for _ in range(2):
        with pytest.raises(CompilationError) as e:
            compilation(compiler, large, "-O2").object_file()
        assert e.value.code == FailureCode.OBSERVATION and "TMPDIR" in e.value.message
        assert e.value.fields["reason"] == "disk"
    (full_disk / "others").unlink()
    assert compilation(compiler, large, "-O0").object_file()
    too_large = benchmark(files={**FILES, "other.h": bytes(80 << 10)})
    with pytest.raises(CompilationError, match="cannot be written"):
        compilation(compiler, too_large).object_file()


def test_folders_go_with_the_program(make) -> None:  # type: ignore[no-untyped-def]
    compiler, program = make(), benchmark()
    compilation(compiler, program).rtl()
    (folder,) = [path for path in Path(compiler.runner.root).iterdir() if path.name.startswith("program-")]
    assert sorted(path.name for path in folder.iterdir()) == ["src"]
    del program
    assert not folder.exists()


@pytest.mark.parametrize("program", ["gcc", "cc1", "as"])
def test_what_one_compiler_made_is_not_taken_for_what_another_makes(tmp_path: Path, program: str) -> None:
    """Neither when it is a link or a wrapper, whose own file stays as it is, nor when only a part of it is replaced."""
    if (gcc := shutil.which("gcc")) is None:
        pytest.skip("there is no gcc on this machine")
    parts = {name: tmp_path / name for name in ("gcc", "cc1", "as")}
    for name in ("cc1", "as"):
        parts[name].write_text("#!/bin/sh\n")
        parts[name].chmod(0o755)
    behind = tmp_path / "version-1"
    behind.write_text(
        f'#!/bin/sh\ncase $1 in -print-prog-name=*) echo {tmp_path}/${{1#*=}} ;; *) exec {gcc} "$@" ;; esac\n'
    )
    behind.chmod(0o755)
    parts["gcc"].symlink_to(behind)
    with contextlib.closing(LocalRunner(str(parts["gcc"]))) as runner:
        before = runner.identity
    if program == "gcc":
        shutil.copy2(behind, tmp_path / "version-2")
        parts["gcc"].unlink()
        parts["gcc"].symlink_to(tmp_path / "version-2")
    else:
        os.utime(parts[program], (1, 1))
    with contextlib.closing(LocalRunner(str(parts["gcc"]))) as runner:
        assert runner.identity != before


def test_headers_of_libraries_that_changed_make_other_results(make, script, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """For programs that may include them; others have nothing to do with them."""
    system = tmp_path / "system"
    system.mkdir()
    (system / "sum.h").write_text("enum { SUM = 1 };\n")
    store = Store(tmp_path / "store")
    sources = {"a.c": b"#include <sum.h>\nint f(void) { return SUM; }\n"}
    alone = {"a.c": b"int f(void) { return 1; }\n"}
    command = tmp_path / "gcc-elsewhere"
    command.write_text(f'#!/bin/sh\nexec {shutil.which("gcc")} -isystem {system} "$@"\n')
    command.chmod(0o755)

    def made(files: dict[str, bytes], **fields: object) -> tuple[str, int]:
        compiler = make(str(command), store)
        program = benchmark(("a.c",), files, include=(), **fields)
        return compilation(compiler, program).fact("asm_hash"), compiler.compiles

    first, again = made(sources), made(sources)
    free = made(alone, freestanding=True)
    (system / "new").write_text("enum { SUM = 2 };\n")
    (system / "new").rename(system / "sum.h")
    changed = made(sources)
    assert (again, changed[1]) == ((first[0], 0), 1) and changed[0] != first[0]
    assert made(alone, freestanding=True) == (free[0], 0)
