"""What clients may not do that are not trusted: each is tried for real where it is possible to a trusted one."""

import dataclasses
import json
import os
import re
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from aiocg.datasets import default_datasets, toolchain
from aiocg.datasets.frontend import compile_source
from aiocg.datasets.linking import freestanding_flags, runtime_archive
from aiocg.datasets.recipe import BenchmarkProgram, ProgramRun, encode_program
from aiocg.datasets.toolchain import find_clang, find_toolchain
from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._action_text import LONGEST
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.module import LlvmError, Module
from aiocg.workers.llvm.observations import OBSERVATIONS
from aiocg.workers.llvm.session import LlvmSession
from aiocg.workers.llvm.trust import REFUSED_OBSERVATIONS, Guard, machine_code_problem
from aiocg.workers.programs.linking import Tools
from aiocg.workers.programs.recipe import Program, decode_program

SECRET = "/etc/hostname"
LINUX = 'target triple = "x86_64-unknown-linux-gnu"\n'


@pytest.fixture(scope="module")
def guard(library: Library) -> Guard:
    return Guard(library, Tools(str(find_clang())))


def function(assembly: str) -> str:
    return f'{LINUX}define void @f() {{\n  call void asm sideeffect "{assembly}", ""()\n  ret void\n}}\n'


def refusal(guard: Guard, text: str) -> str:
    with pytest.raises(CompilationError) as caught:
        guard.check_content(text.encode())
    assert caught.value.code == FailureCode.BENCHMARK
    return caught.value.message


# ---------------------------------------------------------------------------------------------------------- assembly

INCLUDES = {
    "outside of functions": f'{LINUX}module asm ".incbin \\22{SECRET}\\22"\n',
    "inside": function(f".incbin \\22{SECRET}\\22"),
    "after an instruction": function(f"nop; .incbin \\22{SECRET}\\22"),
    "after a label": function(f"1: .incbin \\22{SECRET}\\22"),
    "by a macro": function(f".macro m a b\\0A.\\5Ca\\5Cb \\22{SECRET}\\22\\0A.endm\\0Am inc bin"),
    "of a value that looks like assembly": (
        f'{LINUX}define i8 @f() {{\n  %"asm " = call i8 asm ".incbin \\22{SECRET}\\22", "=r"()\n  ret i8 %"asm "\n}}\n'
    ),
    "behind a NUL, where a string in C ends": (
        f'target triple = "x86_64-unknown-linux-gnu\\00"\nmodule asm ".incbin \\22{SECRET}\\22"\n'
    ),
}


@pytest.mark.parametrize("name", INCLUDES)
def test_a_program_cannot_have_files_of_the_machine_in_its_machine_code(
    engine: Engine, guard: Guard, name: str
) -> None:
    text = INCLUDES[name]
    state = engine.load(text.encode())
    assert Path(SECRET).read_bytes().strip() in engine.code.object_file(state)  # so it must be refused
    assert re.search("assembly|NUL", refusal(guard, text))
    engine.code.forget()
    engine.code.check = guard.check_module  # and again when passes may have made it
    with pytest.raises(LlvmError, match=r"assembly|NUL"):
        engine.code.object_file(state)


@pytest.mark.parametrize(
    "text",
    [
        LINUX + '@.incbin = external global i8\n@"/f" = external global i8\ndefine void @f() {\n'
        '  call void asm sideeffect "$0 $1", "m,m"(ptr @.incbin, ptr @"/f")\n  ret void\n}\n',
        function("nop $$$0"),
        function("nop\\0A\\09$0"),
        function("${:comment}"),
        function("# 1 \\22x\\22"),
    ],
)
def test_an_operand_cannot_be_a_directive(guard: Guard, text: str) -> None:
    assert "assembly" in refusal(guard, text.replace('sideeffect "nop $$$0", ""()', 'sideeffect "nop $$$0", "r"(i8 0)'))


def test_the_name_of_an_operand_cannot_end_its_quotes(guard: Guard) -> None:
    """LLVM 19 writes the name `a\\";.incbin ` so that a directive follows, and the string behind it is left open."""
    text = (
        '@"a\\5C\\22;.incbin " = internal global i8 0\n@file = internal global i8 0\n@";#" = internal global i8 0\n'
        'define void @f() {\n  call void asm sideeffect "pushq $0$1$2", "s,s,s"'
        '(ptr @"a\\5C\\22;.incbin ", ptr @file, ptr @";#")\n  ret void\n}\n'
    )
    assert "a name with a backslash" in refusal(guard, LINUX + text)
    guard.check_content((LINUX + text.replace("5C", "5B")).encode())


@pytest.mark.parametrize("assembly", ["", "nop", "movl $$60, %eax\\0A\\09syscall", "lock; incl (%rax)", "1: jmp 1b"])
def test_instructions_are_allowed(engine: Engine, guard: Guard, assembly: str) -> None:
    guard.check_content(function(assembly).encode())
    engine.code.check = guard.check_module
    assert engine.code.object_file(engine.load(function(assembly).encode()))


@pytest.mark.parametrize("name", ["llvm.dependent-libraries", "llvm.linker.options"])
def test_a_program_cannot_ask_for_libraries_by_path(guard: Guard, name: str) -> None:
    assert name in refusal(guard, f'{LINUX}!{name} = !{{!0}}\n!0 = !{{!"{SECRET}"}}\n')


def test_metadata_cannot_become_assembly(guard: Guard) -> None:
    marker = "clang.arc.retainAutoreleasedReturnValueMarker"
    assert marker in refusal(guard, f'!llvm.module.flags = !{{!0}}\n!0 = !{{i32 1, !"{marker}", !".incbin"}}\n')


# ----------------------------------------------------------------------------------------------------------- recipes


def recipe(**change: Any) -> Program:
    program = decode_program(default_datasets()["programs-v0"]["gcd"].recipe)
    assert program is not None
    return msgspec.structs.replace(program, **change)


@pytest.mark.needs("libc")
def test_what_our_own_programs_need_is_allowed(guard: Guard) -> None:
    guard.check_program(None)
    guard.check_program(recipe())
    for language in ("c", "c++"):
        guard.check_program(decode_program(encode_program(BenchmarkProgram(language, runs={"it": ProgramRun()}))))


def test_where_there_is_no_libgcc_programs_are_linked_with_our_own(
    guard: Guard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "_has_libgcc", lambda: False)
    words = toolchain.link_flags(find_clang(), "c")
    if not words:
        pytest.skip("needs the clang of the wheel")
    guard.check_program(recipe(command=("{clang}", "-o", "program", "program.o", *words)))
    with pytest.raises(CompilationError, match="-Wl,-rpath,/tmp"):
        guard.check_program(recipe(command=("{clang}", "-o", "program", "program.o", "-Wl,-rpath,/tmp")))


COMMAND = ("{lld}", "-o", "program", "program.o")


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "id"),
        ("/bin/sh",),
        ("clang", *COMMAND[1:]),
        (),
        *(
            (*COMMAND, word)
            for word in (
                *("-T/tmp/script", "@/etc/passwd", "/etc/passwd", "../file", "--plugin=/tmp/x.so", "-Map=/tmp/x"),
                *("--reproduce=/tmp/x.tar", "-L/", "-fuse-ld=/tmp/x", "--ld-path=/tmp/x", "-B/tmp", "-fplugin=/tmp/x"),
                *("-wrapper", "-Wl,-T,/tmp/x", "--dependency-file=/tmp/x", "-o/tmp/x", "-rpath=/tmp", "-Xlinker"),
                *("{clang}", "program.bc", "-flto", "--save-temps", "none.a", "-specs=/tmp/x", "-include", "-v"),
            )
        ),
    ],
)
def test_a_command_of_others_has_words_from_a_list_only(guard: Guard, command: tuple[str, ...]) -> None:
    if not command:  # then it can only be optimised
        return guard.check_program(recipe(command=command))
    with pytest.raises(CompilationError, match="its command") as caught:
        guard.check_program(recipe(command=command))
    assert caught.value.code == FailureCode.BENCHMARK
    return None


def test_a_command_of_others_has_no_environment(guard: Guard) -> None:
    with pytest.raises(CompilationError, match="LD_PRELOAD"):
        guard.check_program(recipe(environment={"LD_PRELOAD": "/tmp/x.so"}))


ARCHIVE = b"!<arch>\n"


def member(content: bytes, name: bytes = b"a.o/", size: int | None = None) -> bytes:
    count = len(content) if size is None else size
    head = b"%-16s%-12d%-6d%-6d%-8d%-10d`\n" % (name, 0, 0, 0, 644, count)
    return head + content + b"\n" * (len(content) % 2)


def elf(table: int, stride: int = 64, count: int = 1, size: int = 0) -> bytes:
    """Make the head of an object file, and its first section."""
    head = b"\x7fELF\x02\x01" + bytes(34) + struct.pack("<Q10x2H2x", table, stride, count)
    return head + struct.pack("<4xIQ16xQ24x", 0, 0, size)


@pytest.mark.parametrize(
    "content",
    [
        b"INPUT(/etc/passwd)",
        b"OUTPUT(/tmp/x)",
        b"",
        b"BC\xc0\xde",
        b"!<thin>\n",
        b"\x7fELF",
        b"\x7fELF" + bytes(40),
        ARCHIVE + b"short",
        ARCHIVE + member(b"BC\xc0\xde"),
        ARCHIVE + member(b"INPUT(/etc/passwd)"),
        ARCHIVE + member(b"INPUT(/x)", b"#1/3"),
        ARCHIVE + member(b"BC\xc0\xde", b"\t/"),
        ARCHIVE + member(b"", b"/") + member(b"BC\xc0\xde", b"/"),
        ARCHIVE + member(b"", b"//") + member(b"BC\xc0\xde", b"//"),
        ARCHIVE + member(b"\x7fELF", size=10**9),
        ARCHIVE + member(b"\x7fELF", size=-60),
        elf(table=2**63),
        elf(table=64, stride=0, count=0, size=2**40),  # so many sections, and all at the same place
        elf(table=64, stride=64, count=2),
    ],
)
def test_files_that_are_linked_hold_machine_code(guard: Guard, content: bytes) -> None:
    files = {"runtime.a": runtime_archive(find_toolchain())}
    guard.check_program(recipe(files=files))
    with pytest.raises(CompilationError, match=re.escape("its file 'more.a'")):
        guard.check_program(recipe(files=files | {"more.a": content}))


def test_an_archive_may_begin_with_tables(guard: Guard, engine: Engine) -> None:
    code = engine.code.object_file(engine.load(LINUX.encode()))
    for tables in (b"", member(b"", b"/"), member(b"", b"//"), member(b"", b"/SYM64/") + member(b"a\n", b"//")):
        guard.check_program(recipe(files=recipe().files | {"more.a": ARCHIVE + tables + member(code)}))


def test_bitcode_that_is_named_like_a_table_is_not_linked(untrusting: type[LlvmSession], engine: Engine) -> None:
    """A linker takes members for tables at the beginning only; others are optimised by it, with their assembly."""
    text = f'{LINUX}module asm ".globl f\\0Af: .incbin \\22{SECRET}\\22"\ndeclare void @f()\n'
    with Module.parse(engine.library, text.encode()) as module:
        hidden = module.write_bitcode()
    program = BenchmarkProgram("c", runs={"only": ProgramRun()}, command=("{lld}", "-o", "program", "program.o", "a.a"))
    files = {"a.a": ARCHIVE + member(engine.code.object_file(engine.load(LINUX.encode()))) + member(hidden, b"/")}
    calling = f"{LINUX}declare void @f()\ndefine void @_start() {{\n  call void @f()\n  ret void\n}}\n"
    with pytest.raises(CompilationError, match="an archive of something else"):
        untrusting.load_benchmark(calling.encode(), encode_program(dataclasses.replace(program, files=files)))


@pytest.mark.parametrize("name", ["x.c", ".c", "a/x.S", "x.o.cpp", "x.c/", "x.ll", "x."])
def test_a_file_that_is_linked_is_no_source_to_a_compiler(guard: Guard, name: str) -> None:
    """This one is an ELF file in the eyes of a linker, and a program in C that includes another file."""
    content = b'\x7fELF\x01\n;\n#include "/etc/passwd"\n'.ljust(32) + bytes(64)
    assert not machine_code_problem(content)
    with pytest.raises(CompilationError, match="names without a suffix"):
        guard.check_program(recipe(files=recipe().files | {name: content}))


def test_machine_code_cannot_ask_for_libraries_by_path(guard: Guard, engine: Engine) -> None:
    text = f'{LINUX}!llvm.dependent-libraries = !{{!0}}\n!0 = !{{!"{SECRET}"}}\n'
    code = engine.code.object_file(engine.load(text.encode()))
    for content in (code, ARCHIVE + member(code)):
        with pytest.raises(CompilationError, match="its file 'more'"):
            guard.check_program(recipe(files=recipe().files | {"more": content}))


@pytest.mark.parametrize("name", ["-T", "@a", "program", "program.o", "program.bc", "{lld}", "-lm"])
def test_files_have_names_that_no_tool_mistakes(guard: Guard, name: str) -> None:
    with pytest.raises(CompilationError, match="it has a file named"):
        guard.check_program(recipe(files=recipe().files | {name: runtime_archive(find_toolchain())}))


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../b", "..", "", ".", "a\0b"])
@pytest.mark.parametrize("field", ["files", "outputs", "recipe"])
def test_names_of_files_stay_below_the_folder_for_trusted_clients_too(field: str, name: str) -> None:
    recipe = msgspec.msgpack.decode(encode_program(BenchmarkProgram("c", runs={"only": ProgramRun()})))
    if field == "recipe":
        recipe["files"] = {name: b""}
    else:
        recipe["runs"][0][field] = {name: b""}
    with pytest.raises(CompilationError, match="is not the name of a file"):
        decode_program(msgspec.msgpack.encode(recipe))


# ------------------------------------------------------------------------------------------------- the whole session


@pytest.fixture
def untrusting(cache_dir: Path) -> Iterator[type[LlvmSession]]:
    class Session(LlvmSession):
        pass

    Session.start({"untrusted": True, "unboxed_programs": True, "cache_dir": str(cache_dir)})
    yield Session
    Session.engine.builder.release()
    Session.engine.runner.close()


def test_a_program_of_others_is_optimised_linked_run_and_measured(untrusting: type[LlvmSession]) -> None:
    benchmark = default_datasets()["programs-v0"]["gcd"]
    untrusting.deadline = time.monotonic() + 100
    session = untrusting(untrusting.load_benchmark(benchmark.content, benchmark.recipe))
    assert session.apply_action("sroa")
    assert [run["problem"] for run in session.get_observation("Execution")] == [""] * len(benchmark.program.runs)
    session.set_parameter("llvm.set_runtimes_per_observation_count", "1")
    assert session.get_observation("Runtime").shape == (1,)


def test_a_session_of_others_refuses_what_the_guard_does(untrusting: type[LlvmSession]) -> None:
    with pytest.raises(CompilationError, match="assembly"):
        untrusting.load_benchmark(INCLUDES["inside"].encode())
    recipe = msgspec.msgpack.decode(encode_program(BenchmarkProgram("c", runs={"only": ProgramRun()})))
    with pytest.raises(CompilationError, match="its command begins with 'sh'"):
        untrusting.load_benchmark(LINUX.encode(), msgspec.msgpack.encode(recipe | {"command": ["sh"]}))
    session = untrusting(untrusting.load_benchmark(LINUX.encode()))
    for name in sorted(REFUSED_OBSERVATIONS):
        with pytest.raises(CompilationError, match="observe Bitcode or Ir"):
            session.get_observation(name)


def test_observations_that_write_files_are_among_the_refused(tmp_path: Path, cache_dir: Path) -> None:
    """Observe everything in an empty folder for temporary files: only those refused leave something there."""
    script = (
        "import json, os, sys, time\n"
        "from pathlib import Path\n"
        "from aiocg.workers.compilation import CompilationError\n"
        "from aiocg.workers.llvm.session import LlvmSession\n"
        "cache, folder, names = sys.argv[1], Path(sys.argv[2]), json.loads(sys.argv[3])\n"
        "LlvmSession.start({'cache_dir': cache, 'shared_folder': str(folder)})\n"
        "LlvmSession.deadline = time.monotonic() + 90\n"
        "session = LlvmSession(LlvmSession.load_benchmark(b'define void @f() { ret void }'))\n"
        "leaving = []\n"
        "for name in names:\n"
        "    before = set(folder.rglob('*'))\n"
        "    session.get_observation(name)\n"
        "    if set(folder.rglob('*')) != before: leaving.append(name)\n"
        "print(json.dumps(leaving))"
    )
    names = [name for name in OBSERVATIONS if not name.startswith(("Execution", "TextSize"))]
    command = [sys.executable, "-P", "-c", script, str(cache_dir), str(tmp_path), json.dumps(names)]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(json.loads(done.stdout)) == REFUSED_OBSERVATIONS


@pytest.mark.slow
def test_an_action_has_a_length_that_a_worker_can_remember(untrusting: type[LlvmSession]) -> None:
    passes = ",".join(["dce"] * (LONGEST // 4))
    untrusting.check_action(passes)
    with pytest.raises(CompilationError, match=f"at most {LONGEST} characters") as caught:
        untrusting.check_action(f"{passes},dce")
    assert len(caught.value.message) < 1000


def test_a_compiled_program_of_ours_has_nothing_to_refuse(guard: Guard) -> None:
    text = 'int main(void) { __asm__ volatile("" ::: "memory"); return 0; }'
    guard.check_content(compile_source(text, "it.c", freestanding_flags("c")))
