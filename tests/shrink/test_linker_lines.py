"""Builds that start the linker themselves."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiocg.llvm.recording import is_linker

START = """
long sum(long);
void start(void) {
  long status = sum(5) != 40;
  __asm__ volatile("syscall" : : "a"(60), "D"(status) : "rcx", "r11", "memory");
  for (;;);
}
"""
PART = """
long sum(long n) { return n ? n * n - n + sum(n - 1) : 0; }
long table[4] = {1, 2, 3, 4};
long unused(long n) { return table[n & 3] * sum(n); }
"""
FLAGS = "-O2 -ffreestanding -fno-pic -fno-stack-protector -fcf-protection=none"
MAKEFILE = f"""
app: start.o part.o
\tld -m elf_x86_64 -Map app.map -e start -o app start.o part.o
%.o: %.c
\tcc {FLAGS} -c $< -o $@
together.o: start.o part.o
\tld -r -o $@ $^
"""


@pytest.mark.parametrize("name", ["ld", "/usr/bin/ld.bfd", "ld.lld", "arm-none-eabi-ld", "x86_64-linux-gnu-ld.gold"])
def test_a_linker_is_known_by_its_name(name: str) -> None:
    assert is_linker(name)


@pytest.mark.parametrize("name", ["ld.so", "cc", "build", "ldd", "ld-linux.so", "old"])
def test_other_programs_are_no_linkers(name: str) -> None:
    assert not is_linker(name)


def _shrink(place: Any, cache: Path, *build: str) -> dict[str, Any]:
    for name, text in {"start.c": START, "part.c": PART, "Makefile": MAKEFILE}.items():
        (place.folder / name).write_text(text)
    place.environment["AIOCG_CACHE"] = str(cache)
    done = place.run(sys.executable, "-P", "-m", "aiocg.cli", "shrink", "--json", "--budget", "1", "--", *build)
    assert done.returncode == 0, done.stderr[-2000:]
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.slow
@pytest.mark.needs("make", "cc", "ld")
def test_an_image_of_a_direct_call_of_the_linker_gets_smaller(place: Any, new_cache: Callable[[], Path]) -> None:
    report = _shrink(place, new_cache(), "make", "app")
    (image,) = report["images"]
    assert {"-Os", "-Oz", "-Oz -flto", "found"} <= image["sizes"].keys() and report["left_alone"] == {}
    assert image["name"] == "app" and image["after"] < image["before"]
    assert place.run("./app").returncode == 0 and (place.folder / "app.map").exists()


@pytest.mark.slow
@pytest.mark.needs("make", "cc", "ld")
def test_what_the_linker_links_to_an_object_is_left_alone(place: Any, new_cache: Callable[[], Path]) -> None:
    report = _shrink(place, new_cache(), "make", "together.o")
    assert report["images"] == [] and "links no image" in report["left_alone"]["together.o"]
