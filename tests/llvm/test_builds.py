"""Benchmarks from compilers' command lines: built again from what became of them, run, and timed."""

import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aiocg import llvm
from aiocg.datasets import BenchmarkInitError, BenchmarkNotFound, ProgramRun
from aiocg.datasets.toolchain import find_clang

from ..machine import needs_headers

PROJECT = Path(__file__).resolve().parents[2] / "examples/makefile_project"

pytestmark = [pytest.mark.asyncio(loop_scope="session"), needs_headers]

COUNT = """
#include <stdio.h>
int length(FILE *file);
int main(int argc, char **argv) {
  FILE *file = argc > 1 ? fopen(argv[1], "r") : stdin;
  if (!file) return 3;
  printf("%d\\n", length(file));
  return 0;
}
"""
LENGTH = "#include <stdio.h>\nint length(FILE *f) { int n = 0; while (getc(f) != EOF) n += STEP; return n; }\n"
CPLUSPLUS = """
#include <iostream>
#include <stdexcept>
#include <vector>
int main() {
  try { std::vector<int> v{1, 2}; std::cout << v.at(1) << std::endl; v.at(2); }
  catch (const std::out_of_range &) { return 5; }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (("main.c", COUNT), ("length.c", LENGTH), ("text.txt", "12345"), ("p.cc", CPLUSPLUS)):
        (tmp_path / name).write_text(text)
    return tmp_path


def compiled(folder: Path, *words: str) -> None:
    subprocess.run([find_clang(), *words], check=True, cwd=folder)


def printed(*words: object) -> tuple[int, str]:
    done = subprocess.run([*map(str, words)], stdout=subprocess.PIPE, text=True)
    return done.returncode, done.stdout


async def test_program_is_linked_again_from_what_an_environment_made_of_it(
    make: Callable[..., Any], folder: Path
) -> None:
    benchmark = llvm.benchmark_from_command_line(
        "gcc -O2 -Wall main.c -DSTEP=2 length.c -lm -o 'the app' -MD", directory=folder
    )
    env = await make("gcd")
    await env.reset(benchmark=benchmark)
    before = await env.observe("IrInstructionCount")
    await env.step(["mem2reg", "simplifycfg", "gvn"])
    assert await env.observe("IrInstructionCount") < before
    program = await benchmark.compile(env)
    assert program == folder / "the app"
    assert printed(program, folder / "text.txt") == (0, "10\n")
    other = await benchmark.compile(env, folder / "elsewhere")
    assert printed(other, folder / "text.txt") == (0, "10\n")
    assert [source.filename for source in benchmark.sources] == ["main.c", "length.c"]
    assert not list(folder.glob("*.d"))


async def test_objects_archives_and_response_files_of_the_line_take_part(folder: Path) -> None:
    compiled(folder, "-DSTEP=3", "-c", "length.c")
    (folder / "words").write_text("main.c 'length.o'")
    benchmark = llvm.benchmark_from_command_line(["cc", "@words", "-o", "app"], directory=folder)
    assert len(benchmark.command.sources) == 1
    assert printed(benchmark.build(benchmark.content), folder / "text.txt") == (0, "15\n")


@pytest.mark.needs("gcc")
async def test_driver_of_the_line_links_if_it_is_not_to_be_replaced(folder: Path) -> None:
    line = "gcc -DSTEP=1 main.c length.c -o app"
    benchmark = llvm.benchmark_from_command_line(line, directory=folder, replace_driver=False)
    assert printed(benchmark.build(benchmark.content), folder / "text.txt") == (0, "5\n")
    absent = llvm.benchmark_from_command_line(f"no-such-{line}", directory=folder, replace_driver=False)
    with pytest.raises(BenchmarkInitError, match="no-such-gcc cannot be started"):
        absent.build(absent.content)


async def test_minus_c_gives_an_object(folder: Path) -> None:
    benchmark = llvm.benchmark_from_command_line("cc -DSTEP=1 -O1 -c length.c", directory=folder)
    built = benchmark.build(benchmark.content)
    assert built == folder / "length.o"
    assert built.read_bytes()[:4] == b"\x7fELF"


@pytest.mark.slow
async def test_cplusplus_finds_its_library_and_throws(folder: Path) -> None:
    benchmark = llvm.benchmark_from_command_line("g++ -O2 p.cc -o p", directory=folder)
    assert printed(benchmark.build(benchmark.content)) == (5, "2\n")


@pytest.mark.slow
async def test_project_with_its_run_command_is_run_and_timed(make: Callable[..., Any], folder: Path) -> None:
    (folder / "lib").mkdir()
    (folder / "extra.c").write_text("int unused;\n")
    compiled(folder, "-c", "extra.c", "-o", "lib/extra.o")
    line = "cc -O2 -DSTEP=1 main.c length.c lib/extra.o -Llib -o app"
    env = await make("gcd")
    await env.reset(benchmark=llvm.benchmark_from_command_line(line, directory=folder, run="./app text.txt"))
    buildable, runnable, size, oz, times = await env.observe(
        "IsBuildable", "IsRunnable", "TextSizeBytes", "TextSizeOz", "Runtime"
    )
    assert (buildable, runnable) == (1, 1)
    assert size >= oz > 500
    assert np.all(np.asarray(times) > 0)
    assert env.benchmark.program.runs["default"] == ProgramRun(
        ("text.txt",), exit_status=None, files={"text.txt": b"12345"}
    )
    other = llvm.benchmark_from_command_line(line, directory=folder, run=["./app", "nothing.txt"])
    assert other.program is not None
    assert other.program.runs["default"] == ProgramRun(("nothing.txt",), exit_status=None)
    assert other.uri != env.benchmark.uri


async def test_runs_of_ones_own_say_more(make: Callable[..., Any]) -> None:
    line = "cc -O2 src/main.c src/lzss.c src/bits.c src/crc32.c -o pack"
    text = (PROJECT / "src/lzss.c").read_bytes()
    runs = {"pack": ProgramRun(("pack",), stdin=text), "damaged": ProgramRun(("unpack",), stdin=b"x", exit_status=1)}
    benchmark = llvm.benchmark_from_command_line(line, directory=PROJECT, run=runs)
    env = await make("gcd")
    await env.reset(benchmark=benchmark)
    assert await env.observe("IsRunnable") == 1


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("cc -E main.c", "-E asks for no object code"),
        ("cc -S main.c", "-S asks for no object code"),
        ("cc -M main.c", "-M asks for no object code"),
        ("cc -flto main.c", "-flto needs clang's own passes"),
        ("cc -c main.c length.c", "several objects"),
        ("ld main.o", "no C or C\\+\\+ compiler's driver"),
        ("cc main.o", "no C or C\\+\\+ source"),
        ("cc main.c -o", "lacks its value"),
        ("", "the command line is empty"),
        ("cc -x c -", "standard input"),
        ("cc 'main.c", "No closing quotation"),
        ("cc @endless", "endless contains itself"),
    ],
)
async def test_line_that_gives_no_benchmark_is_refused_with_the_reason(folder: Path, line: str, says: str) -> None:
    (folder / "endless").write_text("-O2 @endless")
    with pytest.raises(BenchmarkInitError, match=says):
        llvm.benchmark_from_command_line(line, directory=folder)


async def test_other_mistakes(folder: Path) -> None:
    with pytest.raises(BenchmarkNotFound, match=r"no source 'nothing\.c'"):
        llvm.benchmark_from_command_line("cc nothing.c", directory=folder)
    with pytest.raises(BenchmarkInitError, match="cannot be run"):
        llvm.benchmark_from_command_line("cc -c main.c", directory=folder, run="./main")
    for run in ("", [], "./main 'x"):
        with pytest.raises(BenchmarkInitError, match="is no command line"):
            llvm.benchmark_from_command_line("cc main.c", directory=folder, run=run)
    with pytest.raises(BenchmarkInitError, match="STEP"):
        _ = llvm.benchmark_from_command_line("cc length.c", directory=folder).content
    alone = llvm.benchmark_from_command_line("cc main.c -o app", directory=folder)
    with pytest.raises(BenchmarkInitError, match="undefined symbol: length"):
        alone.build(alone.content)


async def test_uri_names_line_and_folder(folder: Path) -> None:
    line = "cc -O2 main.c length.c '-DSTEP=1 + 1'"
    one = llvm.benchmark_from_command_line(line, directory=folder)
    assert one.uri.path == "a.out"
    assert one.uri.param("command") == (line,)
    assert llvm.benchmark_from_command_line(shlex.split(line), directory=folder).content == one.content
