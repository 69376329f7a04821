"""The command line of a state, run outside: it names the program's files, and makes the same bytes."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import InvalidAction
from aiocg.gcc import make_benchmark

from .written import LOOP, program

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("gcc"),
]

OPTIONS = "gcc -O2 -fno-gcse"
USES_HEADERS = """
#include "own.h"
#include <far.h>
#include <assert.h>
static const char where[] = __FILE__, when[] = __DATE__;
int f(int n) { assert(n > FAR); return where[n] + when[n] + OWN; }
"""


async def outside(line: str, folder: Path) -> bytes:
    """Run a command line in an empty folder and return the object file that it writes."""
    folder.mkdir()
    process = await asyncio.create_subprocess_shell(line, cwd=folder)
    assert await process.wait() == 0, line
    written = {path.name: path for path in folder.iterdir()}
    return (written.get("program.o") or next(iter(written.values()))).read_bytes()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project in a folder with a space in its name."""
    folder = tmp_path / "my project"
    (folder / "src").mkdir(parents=True)
    (folder / "far away").mkdir()
    (folder / "src" / "main unit.c").write_text(USES_HEADERS)
    (folder / "src" / "own.h").write_text("#define OWN 3\n")
    (folder / "src" / "other.cc").write_text(
        "namespace { int g(int n) { return n + N; } }\nint h(int n) { return g(n); }\n"
    )
    (folder / "far away" / "far.h").write_text("#define FAR 4\n")
    return folder


@pytest.mark.slow
async def test_one_line_outside_makes_the_bytes_of_the_environment(
    make: Callable[..., Any], project: Path, tmp_path: Path
) -> None:
    flags = ["-I", str(project / "far away"), "-DN=7"]
    for number, units in enumerate((["main unit.c"], ["main unit.c", "other.cc"])):
        target = make_benchmark([project / "src" / unit for unit in units], flags)
        env = await make(target, action_space="command_line")
        await env.step(OPTIONS)
        line = env.commandline()
        assert str(project / "src" / "main unit.c") in line and "-O2 -fno-gcse" in line
        assert await outside(line, tmp_path / f"outside {number}") == await env.observe("obj")
        assert env.action_space.from_string(line) == [OPTIONS]  # so it can be read again


async def test_our_own_programs_are_files_as_well(make: Callable[..., Any], tmp_path: Path) -> None:
    env = await make("programs-v0/qsort", action_space="command_line")
    await env.step(OPTIONS)
    assert await outside(env.commandline(), tmp_path / "outside") == await env.observe("obj")


async def test_sources_in_memory_have_no_names(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = await make(program(LOOP), action_space="command_line")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.c").write_text("another program")
    assert env.commandline() == "gcc -c input.c -o output.o"


async def test_a_line_that_names_the_language_can_be_read_again(make: Callable[..., Any], tmp_path: Path) -> None:
    text = "namespace { int one = 1; }\nint f() { return one; }\n"
    (tmp_path / "unit.c").write_text(text)
    tree = SourceTree(("unit.c",), {"unit.c": text.encode()}, language="c++", origin=str(tmp_path))
    env = await make(Benchmark("benchmark://test-v0/unit", tree.encode, source_tree=lambda: tree))
    env.action_space = env.action_spaces["command_line"]
    await env.step(OPTIONS)
    assert "-x c++" in env.commandline()
    assert await outside(env.commandline(), tmp_path / "outside") == await env.observe("obj")
    assert env.action_space.from_string(env.commandline()) == [OPTIONS]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gcc -O7", "-O7.* its levels are -O0, -O1"),
        ("clang -O2", "'clang' is not GCC"),
        ("-O2 -O12", "-O12"),
        ("clang-17 -O2", "is not GCC"),
        ("gcc -ffile-prefix-map=/a=b -frandom-seed=c -O77", "-O77"),
    ],
)
async def test_what_gcc_would_not_be_told_is_an_error(make: Callable[..., Any], line: str, words: str) -> None:
    env = await make(program(LOOP), action_space="command_line")
    with pytest.raises(InvalidAction, match=words):
        await env.step(line)
    assert env.action_texts == ()
