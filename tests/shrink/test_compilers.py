"""Which compiler a build has: this machine's own, one for another machine or C library, or a GCC without gcc."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.llvm.command_line import parse
from aiocg.shrink._candidate import Candidates
from aiocg.shrink._tools import PLAIN, Clang, Cross, cross_of
from aiocg.shrink.gcc import GccShrinking
from aiocg.shrink.lock import Lock
from aiocg.shrink.record import Build, Link


def program(folder: Path, name: str, script: str = "") -> None:
    """Write a program that a shell runs."""
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in which programs are looked for by name, after the shell's."""
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "machine", "triple"),
    [
        ("musl-gcc", "x86_64-linux-gnu", "x86_64-linux-musl"),  # Debian's, which starts the machine's own GCC
        ("x86_64-linux-musl-gcc", "x86_64-linux-musl", "x86_64-linux-musl"),
        ("x86_64-w64-mingw32-gcc", "x86_64-w64-mingw32", "x86_64-w64-mingw32"),
        ("x86_64-linux-gnu-gcc-12", "x86_64-linux-gnu", ""),
        ("x86_64-redhat-linux-gcc", "x86_64-redhat-linux", ""),
        ("herself-gcc", "x86_64-linux-gnu", ""),
    ],
)
def test_a_compiler_for_another_c_library_is_a_cross_compiler(
    programs: Path, name: str, machine: str, triple: str
) -> None:
    program(programs, name, f"echo {machine}")
    found = cross_of(parse([name, "-o", "app", "main.o"]), programs)
    assert (found.triple if isinstance(found, Cross) else "") == triple


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("-specs=/usr/lib/rpm/redhat/redhat-hardened-ld", ""),
        ("-specs=/usr/share/dpkg/no-pie-link.specs", ""),
        ("-specs /usr/share/dpkg/no-pie-link.specs", ""),
        ("-specs nano.specs", "nano.specs may choose libraries"),
        ("-specs=nosys.specs", "nosys.specs may choose libraries that only GCC knows"),
        ("--specs=/usr/lib/x86_64-linux-musl/musl-gcc.specs", "musl-gcc.specs may choose libraries"),
    ],
)
def test_specs_of_gcc_are_left_out_where_they_change_options_alone(tmp_path: Path, given: str, said: str) -> None:
    words = ["main.o", *given.split()]
    link = Link(tmp_path / "app", parse(["gcc", *words, "-o", "app"]), tmp_path)
    if said:
        with pytest.raises(BenchmarkInitError, match=said):
            Clang().linker(words, link, PLAIN, tmp_path)
    else:
        line = Clang().linker(words, link, PLAIN, tmp_path)
        assert "main.o" in line and not {*given.split()} & {*line}


@pytest.mark.parametrize(
    ("linked_by", "there", "driver"),
    [
        ("g++", ["g++", "gcc"], "gcc"),
        ("g++", ["g++"], "g++"),
        ("c++-13", ["cc-13"], "cc-13"),
        ("arm-none-eabi-g++", ["arm-none-eabi-gcc", "arm-none-eabi-g++"], "arm-none-eabi-gcc"),
        ("gcc", [], "gcc"),
    ],
)
def test_options_are_those_of_the_compiler_for_c_if_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked_by: str, there: list[str], driver: str
) -> None:
    for name in there:
        program(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    image: Any = SimpleNamespace(linker=SimpleNamespace(inputs=SimpleNamespace(link=SimpleNamespace())))
    image.linker.inputs.link.command = parse([linked_by, "-o", "app", "main.o"])
    work = GccShrinking(Build({}, (), {}), tmp_path, tmp_path, Lock())
    work.images = [image]
    assert work.driver == driver


@pytest.mark.needs("libc", "cc")
def test_what_is_only_a_warning_in_old_c_is_none_at_any_level(shrinkable: Callable[[str], Candidates]) -> None:
    image = shrinkable("int main(void) { return undeclared(); }\nint undeclared(void) { return 0; }\n")
    image.add_levels()
    assert image.notes == [] and image.images.keys() > {*image.levels}
