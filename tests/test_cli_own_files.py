"""A user's own source file on the command line: flags for clang, odd names, and messages."""

import json
import shutil
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest

from .command_line import Run
from .machine import has_headers, needs_headers

SOURCE = """\
#include "size.h"
int f(int x) { int y = x + x; for (int i = 0; i < SIZE; i++) y += WIDE(i); return y; }
"""
FLAGS = ("--", "-std=c23", "-Iinclude", "-D", "WIDE(x)=(x*2)", "-c")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a file that compiles with `FLAGS` only, in the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "include").mkdir()
    (tmp_path / "include/size.h").write_text("constexpr int SIZE = 3;\n")
    (tmp_path / "own.c").write_text(SOURCE)
    return tmp_path / "own.c"


@pytest.mark.slow
def test_flags_are_the_programs_and_are_replayed(command: Run, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = command("search", "greedy", "own.c", "--evaluations", "30", "--state", "s.json", "--json", *FLAGS)
    assert found.status == 0, found.err
    state = json.loads((source.parent / "s.json").read_text())
    flags = f"flag=-std%3Dc23&flag=-I{source.parent}/include&flag=-DWIDE(x)%3D(x*2)"
    assert unquote(state["benchmark"]).endswith(f"own.c?{unquote(flags)}")
    (source.parent / "elsewhere").mkdir()
    monkeypatch.chdir(source.parent / "elsewhere")
    assert command("replay", "../s.json").status == 0
    assert command("validate", "../s.json").status == 3  # it has no main, so nothing is proven


@pytest.mark.slow
def test_flags_are_taken_wherever_a_program_is(command: Run, source: Path) -> None:
    assert command("search", "own.c", "--evaluations", "10", *FLAGS).status == 0
    shown = command("dataset", "show", "own.c", "--json", *FLAGS)
    assert shown.json["measured"]["instructions"] > 0
    words = ("-Iinclude", "'-DWIDE(x)=x'", "-std=c23")
    typed = command("shell", "--workers", "1", "-c", f"set-benchmark own.c {' '.join(words)}; action mem2reg")
    assert typed.status == 0, typed.err
    assert command("shell", "--workers", "1", "--benchmark", "own.c", "-c", "action mem2reg", *FLAGS).status == 0


@pytest.mark.slow
def test_missing_flags_are_hinted_at(command: Run, source: Path) -> None:
    missing = command("search", "own.c")
    assert missing.status == 1
    assert "if size.h is yours, give its folder, such as -Iinclude, behind --" in missing.err


@pytest.mark.skipif(has_headers, reason="looks at a machine without the headers of the C library")
def test_missing_system_header_names_the_package(command: Run, source: Path) -> None:
    (source.parent / "hello.c").write_text('#include <stdio.h>\nint main(void) { return puts("hello"); }\n')
    missing = command("search", "greedy", "hello.c")
    assert missing.status == 1
    assert "libc6-dev" in missing.err


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("programs-v0/qsort", "--", "-DN=3"), "-DN=3 can only be given for a C or C++ file of your own"),
        (("own.c", "--", "-o", "x.o"), "give -o before --"),
        (("own.c", "other.c"), "other.c: is no flag"),
        (("own.c", "--", "-Inowhere"), "there is no such folder"),
        (("own.c", "--", "-flto"), "aiocg shrink -- BUILD"),
    ],
)
@pytest.mark.parametrize("name", [("search",), ("search", "greedy"), ("dataset", "show"), ("explore", "--no-browser")])
def test_flag_that_cannot_be_honoured_ends_the_command(
    command: Run, source: Path, name: tuple[str, ...], words: tuple[str, ...], message: str
) -> None:
    refused = command(*name, *words)
    assert refused.status in (1, 2)
    assert message in " ".join(refused.err.replace("│", " ").split())


@pytest.mark.few(1)
@pytest.mark.parametrize("words", [("./-x.c",), ("--", "-x.c"), ("-x.c",), ("greedy", "--", "-x.c", "-DN=3")])
def test_file_whose_name_begins_with_a_dash_is_searched(command: Run, source: Path, words: tuple[str, ...]) -> None:
    (source.parent / "-x.c").write_text("int f(int x) { return x + x; }\n")
    options = ("--evaluations", "5", "--json")
    before = words.index("--") if "--" in words else len(words)
    first = words[:before] if before else ("functionwise",)
    found = command("search", *first, *options, *words[before:])
    assert found.status == 0, found.err
    assert "/-x.c" in found.json["benchmark"]


@pytest.mark.slow
@needs_headers
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")
def test_object_of_a_cplusplus_file_links_into_a_build_of_the_machines_compiler(
    command: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = (
        '#include <iostream>\n#include <string>\nint main(int n, char **) { std::cout << "ok " + std::to_string(n); }\n'
    )
    (tmp_path / "x.cc").write_text(text)
    assert command("search", "x.cc", "--evaluations", "5", "-o", "x.o").status == 0
    subprocess.run(["g++", "x.o", "-o", "x"], check=True)
    assert subprocess.run(["./x"], capture_output=True, check=True).stdout == b"ok 1"


LABEL = """\
static int marked(int x) { __asm__ volatile("only_once: nop"); return x * 3; }
int first(int a) { return marked(a); }
int second(int a) { int s = 0; for (int i = 0; i < 4; i++) s += a * i; return s + first(a); }
"""


@pytest.mark.slow
def test_gain_of_more_than_twice_that_nothing_proves_is_said_in_the_headline(command: Run, source: Path) -> None:
    values = ", ".join(str(number**3 % 9973) for number in range(500))  # a table that stays where it does not count
    function = "long mix(long x) { return ((x ^ table[5]) + table[77]) * 3 ^ table[x & 255]; }"
    source.write_text(f"static long table[500] = {{{values}}};\n{function}\n")
    words = ("search", "greedy", "own.c", "--evaluations", "300", "--reward", "ObjectTextSizeOzMinsize")
    found = command(*words, "--json")
    assert found.json["reward"] > 2 and found.json["unproven"] is True and found.json["validated"] == "not run"
    headline = command(*words).out.partition("┏")[0]
    assert "unproven, since a gain of more than twice was not run" in " ".join(headline.split())


@pytest.mark.slow
def test_level_that_takes_long_is_given_up_and_named(command: Run, source: Path) -> None:
    function = """define i32 @f{}(ptr %p, i32 %n) {{
begin:
  %s = alloca i32
  %i = alloca i32
  store i32 0, ptr %s
  store i32 0, ptr %i
  br label %loop
loop:
  %at = load i32, ptr %i
  %more = icmp slt i32 %at, %n
  br i1 %more, label %body, label %end
body:
  %place = getelementptr i32, ptr %p, i32 %at
  %value = load i32, ptr %place
  %old = load i32, ptr %s
  %product = mul i32 %value, {}
  %sum = xor i32 %old, %product
  store i32 %sum, ptr %s
  %next = add i32 %at, 1
  store i32 %next, ptr %i
  br label %loop
end:
  %result = load i32, ptr %s
  ret i32 %result
}}
"""
    text = "".join(function.format(number, number + 2) for number in range(8_000))  # -Oz takes some five seconds
    (source.parent / "long.ll").write_text(f'target triple = "x86_64-unknown-linux-gnu"\n{text}')
    found = command("search", "long.ll", "--budget", "1", "--reward", "IrInstructionCountOz")
    assert found.status == 0, found.err
    words = "-Oz takes longer than 3 s here, and a longer --budget waits longer; the search goes on against the program"
    assert words in " ".join(found.err.split())
    assert "did not compile in the time" in found.out


@pytest.mark.slow
def test_level_that_cannot_compile_the_program_does_not_end_the_search(command: Run, source: Path) -> None:
    source.write_text(LABEL)
    found = command("search", "own.c", "--evaluations", "20", "-o", "own.o", "--json")
    assert found.status == 0, found.err
    assert "clang -Oz cannot compile this program: <inline asm>:1:2: symbol 'only_once' is already defined" in found.err
    assert "the search goes on against the program as it is" in found.err
    assert found.json["reward"] > 0
    assert set(found.json["bytes"]) == {"before", "found"} < set(found.json["instructions"])
    assert found.json["failed_levels"] == {
        "-O3, clang -Os, -Oz, clang -Oz": "<inline asm>:1:2: symbol 'only_once' is already defined"
    }
    assert (source.parent / "own.o").read_bytes().startswith(b"\x7fELF")


@pytest.mark.slow
def test_one_level_that_cannot_compile_the_program_leaves_the_others_in_the_table(command: Run, source: Path) -> None:
    work = "".join(f"x ^= x * {n} + (x >> {n % 7});" for n in range(3, 16))  # which -O3 copies and -Oz does not
    body = f'static int marked(int x) {{ __asm__ volatile("only_once: nop"); {work} return x; }}'
    source.write_text(f"{body}\nint f(int a, int b) {{ return marked(a) + marked(b); }}\n")
    found = command("search", "own.c", "--evaluations", "5")
    assert found.status == 0, found.err
    row = next(line for line in found.out.splitlines() if "image bytes" in line)
    cells = [cell.strip() for cell in row.split("│")[2:7]]
    assert cells[1] == "" and all(cell.isdigit() for cell in (cells[0], *cells[2:])), row
    assert "-O3 cannot compile this program: <inline asm>:1:2: symbol 'only_once' is already defined" in found.out


@pytest.mark.few(1)
@pytest.mark.parametrize("algorithm", ["functionwise", "greedy", "evolve"])
def test_result_of_an_instruction_reward_assembles(command: Run, source: Path, algorithm: str) -> None:
    source.write_text(LABEL)
    words = ("--reward", "IrInstructionCountOz", "--evaluations", "60", "-o", "own.o", "--json")
    found = command("search", algorithm, "own.c", *words)
    assert found.status == 0, found.err
    assert found.json["reward"] > 0
    assert (source.parent / "own.o").read_bytes().startswith(b"\x7fELF")


IR = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 0\n  ret i32 %y\n}\n"


@pytest.mark.few(1)
@pytest.mark.parametrize("triple", ["sparcel-unknown-none", "not-a-target", "x86_64-pc-windows-msvc"])
def test_program_without_machine_code_here_is_refused_with_what_works(command: Run, source: Path, triple: str) -> None:
    (source.parent / "x.ll").write_text(f'target triple = "{triple}"\n{IR}')
    refused = command("search", "x.ll")
    assert refused.status == 1
    assert "cannot be had" in refused.err
    assert "--reward IrInstructionCountOz" in refused.err
    assert command("search", "x.ll", "--evaluations", "9", "--reward", "IrInstructionCountOz", "-o", "x.bc").status == 0


def test_program_for_another_target_is_not_run_for_a_reason_in_words(command: Run, source: Path) -> None:
    text = IR.replace("@f(", "@main(")
    (source.parent / "own.ll").write_text(f'target triple = "sparcel-unknown-none"\n{text}')
    found = command("search", "own.ll", "--reward", "IrInstructionCountOz", "--evaluations", "5", "--json")
    assert found.json["validated"] == "not run"
    assert found.json["reason"] == "there is no code generator here for sparcel-unknown-none"


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_program_without_a_target_is_one_for_this_machine(command: Run, source: Path) -> None:
    (source.parent / "own.ll").write_text(IR.replace("@f(", "@main("))
    found = command("search", "own.ll", "--evaluations", "5", "--json")
    assert (found.status, found.json["validated"]) == (0, "same"), found.json["reason"]


def test_object_for_another_target_is_refused_before_the_search(command: Run, source: Path) -> None:
    (source.parent / "x.ll").write_text(f'target triple = "sparcel-unknown-none"\n{IR}')
    refused = command("search", "x.ll", "--reward", "IrInstructionCountOz", "-o", "x.o")
    assert refused.status == 1
    assert "reward " not in refused.out
    assert "with no -o or a .bc or .ll" in refused.err


@pytest.mark.few(1)
@pytest.mark.parametrize("algorithm", ["functionwise", "random", "evolve"])
def test_program_without_functions_ends_at_once(command: Run, source: Path, algorithm: str) -> None:
    (source.parent / "x.ll").write_text("@x = global i32 5\n")
    found = command("search", algorithm, "x.ll", "--budget", "600")
    assert found.status == 0, found.err
    assert "no function with a body" in found.out
