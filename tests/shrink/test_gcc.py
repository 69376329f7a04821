"""Images of GCC with other options."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aiocg.gcc.meaning import is_meaning
from aiocg.search import Budget
from aiocg.shrink.image import read_image
from aiocg.shrink.searching import find
from aiocg.transport.options import Option

OPTIONS = (
    Option("-fgcse", "flag", texts=("-fgcse", "-fno-gcse")),
    Option("-fivopts", "flag", texts=("-fivopts", "-fno-ivopts")),
    Option("-fipa-pta", "flag", texts=("-fipa-pta", "-fno-ipa-pta")),
    Option("--param=x", "param", template="--param=x={}", low=0, high=9),
)
MAIN = """
#include <stdio.h>
#include <stdlib.h>
int half(int), sum(int);
int main(int argc, char **argv) {
  int n = argc > 1 ? atoi(argv[1]) : 10;
  printf("%d %d\\n", half(n), sum(n));
  return 0;
}
"""
PART = """
int half(int x) { return x / 2; }
int sum(int n) { int s = 0; for (int i = 0; i < n; i++) { if (i % 3 == 0) s += i * i; else s -= half(i); } return s; }
int unused(int x) { int s = 1; while (x-- > 0) s *= x % 7 + half(s); return s; }
"""
MAKEFILE = """
CC = gcc
CFLAGS = -O2 -fno-strict-aliasing
app: main.o libpart.a
\t$(CC) $(CFLAGS) $(LDFLAGS) -o $@ main.o -L. -lpart
libpart.a: part.o
\tar rcs $@ part.o
clean:
\trm -f *.o *.a app
"""


def test_the_line_has_the_options_that_save_something_and_no_others() -> None:
    asked: list[tuple[str, ...]] = []

    def size(line: tuple[str, ...]) -> int | None:
        asked.append(line)
        if "-fipa-pta" in line and "-flto" in line:
            return None  # which do not go together
        saved = {"-Os": 50, "-flto": 10, "-fno-ivopts": 3, "--param=x=0": 2}
        return 1000 - sum(saved.get(word, 0) for word in line)

    line = find(size, OPTIONS, Budget(evaluations=300).start())
    assert line[:2] == ("-Os", "-flto") and {*line[2:]} == {"-fno-ivopts", "--param=x=0"}
    assert () in asked


def test_without_time_the_line_is_the_best_level() -> None:
    assert find(lambda line: None if line else 100, OPTIONS, Budget(seconds=0.0).start()) == ()
    assert find(lambda line: None, OPTIONS, Budget(seconds=0.0).start()) == ("-Os",)
    assert find(lambda line: 100, OPTIONS, Budget(seconds=0.0).start()) == ("-Os",)  # a tie


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        *[(name, True) for name in ("-ffast-math", "-Ofast", "-ftrapv", "-fstack-protector", "-fexceptions", "-flto")],
        *[(name, False) for name in ("-fgcse", "-fivopts", "-fomit-frame-pointer", "--param=inline-unit-growth")],
    ],
)
def test_options_that_change_what_a_program_does_are_not_searched(name: str, meaning: bool) -> None:
    assert is_meaning(name) is meaning


@pytest.mark.slow
@pytest.mark.needs("libc", "gcc", "make")
def test_a_build_by_gcc_gets_smaller_by_a_line_that_any_build_can_take(place: Any) -> None:
    folder = Path(place.folder)
    for name, text in {"main.c": MAIN, "part.c": PART, "Makefile": MAKEFILE}.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-P", "-m", "aiocg.cli"]
    options = ["--budget", "5", "--check", 'test "`./app 9`" = "4 33"', "--json"]
    done: subprocess.CompletedProcess[str] = place.run(*command, "gcc", *options, "--", "make")
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout.splitlines()[-1])
    (image,) = report["images"]
    shrunk = (folder / "app").read_bytes()
    assert image["after"] == read_image(shrunk).bytes < image["before"] and image["notes"] == []
    assert {"own", "-Os", "-Oz", "-Os -flto", "-Oz -flto", "found"} == image["sizes"].keys()
    assert place.run("make", "clean").returncode == 0
    done = place.run(*command, "shrink", "--locked", "--", "make")
    assert done.returncode == 0 and (folder / "app").read_bytes() == shrunk
    assert place.run("make", "clean").returncode == 0
    flags = dict(re.findall(r'(\w+)="([^"]*)"', report["hint"]))
    assert shlex.split(flags["CFLAGS"])[-2:] == ["-ffunction-sections", "-fdata-sections"]
    words = [f"CFLAGS={flags['CFLAGS']} -fno-strict-aliasing", f"LDFLAGS={flags['LDFLAGS']}"]
    assert place.run("make", *words).returncode == 0
    assert read_image((folder / "app").read_bytes()).bytes == image["after"]
