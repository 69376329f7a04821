"""`aiocg search` on LLVM's programs, with what GCC makes of the same sources beside it."""

import os
from pathlib import Path

import pytest

from aiocg.transport.elf import image_size

from .command_line import Run, runner

SOURCE = """#ifndef SCALE
#define SCALE 3
#endif
static const short steps[] = {1, 5, 9, 2};
int walk(const int *at, int n) {
  int sum = SCALE;
  for (int i = 0; i < n; i++) sum += at[i] * steps[i & 3];
  return sum;
}
"""
WORDS = ("walk.c", "--evaluations", 3)


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    (tmp_path / "walk.c").write_text(SOURCE)
    return runner(monkeypatch, capfd, "search")


@pytest.mark.slow
@pytest.mark.needs("gcc")
def test_gcc_stands_beside_clang_and_the_headline_is_against_the_smaller(command: Run) -> None:
    found = command(*WORDS, "--json").json
    gcc, sizes = found["gcc"], found["bytes"]
    assert gcc["bytes"] > 0 and not gcc["problem"] and gcc["compiler"].startswith("gcc ")
    rivals = {f"gcc {gcc['level']}": gcc["bytes"], "clang -Oz": sizes["OzMinsize"]}
    least = min(rivals, key=lambda name: rivals[name])
    done = command(*WORDS)
    assert done.status == 0, done.err
    assert f"gcc {gcc['level']} ┃ found" in done.out and str(gcc["bytes"]) in done.out
    (line,) = [line for line in done.out.splitlines() if line.startswith("bytes   ")]
    assert line.split("(relative")[0].rstrip().endswith(f"than {least}") or f"as large as {least} (relative" in line
    assert all(f" {other}" in line for other in rivals)


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", ["functionwise", "evolve"])
def test_no_result_is_larger_than_a_level_that_is_smaller_than_those_for_size(
    command: Run, tmp_path: Path, algorithm: str
) -> None:
    (tmp_path / "two.c").write_text(
        "void fill(int, long *); int id(void); void show(int, long);\n"
        "void both(void) { long t[2]; fill(0, t); show(id(), t[1]); }\n"
    )
    done = command(algorithm, "two.c", "--evaluations", 3, "--json", "-o", "two.o")
    assert done.status == 0, done.err
    sizes = done.json["bytes"]
    assert sizes["found"] <= min(sizes["O3"], sizes["OsOptsize"]) < sizes["OzMinsize"]
    assert image_size((tmp_path / "two.o").read_bytes())[0] == sizes["found"]
    shown = command(algorithm, "two.c", "--evaluations", 3)
    (line,) = [line for line in shown.out.splitlines() if line.startswith("bytes   ")]
    assert not line.split("(relative")[0].rstrip().endswith("than clang -Oz"), line


@pytest.mark.slow
@pytest.mark.parametrize("reward", ["ObjectImageSizeOz", "ObjectImageSizeOsOptsize", "ObjectImageSizeOzMinsize"])
def test_nothing_is_said_to_be_smaller_than_itself(command: Run, reward: str) -> None:
    done = command("evolve", "walk.c", "--reward", reward, "--evaluations", 1)
    assert done.status == 0, done.err
    (line,) = [line for line in done.out.splitlines() if line.startswith("bytes   ")]
    (start,) = [line for line in done.out.splitlines() if line.startswith("start   ")]
    level = start.partition("nothing better than ")[2].partition(" was found")[0]
    assert level and f" smaller than {level}," not in f"{line},", (line, start)


LONG = """#include <stdio.h>
int main(int count, char **words) {
  unsigned long sum = count;
  for (unsigned long i = 0; i < 200000; i++) sum = sum * 31 + (i ^ sum >> 7);
  printf("%lu %s\\n", sum, words[count - 1]);
}
"""


@pytest.mark.slow
@pytest.mark.needs("libc")
def test_a_run_that_the_compiler_knows_is_named(command: Run, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(LONG)
    words = ("sum.c", "--reward", "runtime", "--budget", 2)
    for line, constant in (("./sum", True), ("./sum 7", False)):
        done = command(*words, "--run", line)
        assert done.status == 0, done.err
        assert ("this run has no arguments, standard input or files" in done.out) is constant


@pytest.mark.slow
def test_without_a_gcc_a_line_says_so(command: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    monkeypatch.setenv("PATH", os.fspath(empty))
    done = command(*WORDS)
    assert done.status == 0, done.err
    assert "gcc -Oz      not compared: there is no GCC here: no gcc on PATH" in done.out


@pytest.mark.slow
def test_a_program_that_came_without_sources_says_so(command: Run, tmp_path: Path) -> None:
    (tmp_path / "plain.ll").write_text("define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n")
    done = command("plain.ll", "--evaluations", 3)
    assert done.status == 0, done.err
    assert "gcc -Oz      not compared: its C or C++ sources are not known" in done.out
