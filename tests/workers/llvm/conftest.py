"""What the LLVM tests share: the library under test, its clang, and small programs compiled by it."""

import re
import shutil
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from aiocg.workers.llvm._library import Library, find_clang
from aiocg.workers.llvm._walker import Walker
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.native_code import NativeLibraries

DATA = Path(__file__).with_name("data")
SOURCES = {"c": "everything.c", "c++": "exceptions.cc"}
PROGRAMS = ("sorting.c", "matrix.c", "calculator.c", "shapes.cc")
UNOPTIMISED = ("-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-w", "-fno-exceptions")

Compile = Callable[..., bytes]

# No pointers, so that every LLVM from 14 on reads it; dead code, a redundancy and a branch on a constant.
TEXT = b"""
define i32 @simple(i32 %x, i32 %y) {
entry:
  %dead = mul i32 %x, 7
  %one = add i32 %x, %y
  %two = add i32 %x, %y
  br i1 true, label %then, label %else

then:
  %sum = add i32 %one, %two
  ret i32 %sum

else:
  ret i32 0
}
"""


@cache
def _compile(clang: str, name: str, *flags: str) -> bytes:
    """Compile a program of `data` to bitcode."""
    command = [clang, *UNOPTIMISED, *flags, "-c", str(DATA / name), "-o", "-"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=DATA).stdout


def everything(clang: str, language: str, flags: str) -> bytes:
    """Compile what a language has, to bitcode."""
    command = [
        clang,
        "-w",
        "-fexceptions",
        *flags.split(),
        "-c",
        "-emit-llvm",
        str(DATA / SOURCES[language]),
        "-o",
        "-",
    ]
    return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout


def every_opcode(library: Library) -> bytes:
    """Return a program with all instructions, as a library reads it."""

    def opaque(match: re.Match[str]) -> str:
        space = re.search(r"addrspace\(\d+\)", match[0])
        return f"ptr {space[0]}" if space else "ptr"

    text = (DATA / "opcodes.ll").read_text()
    if library.version >= (15,):
        text = re.sub(r"\w+ \(\.\.\.\)\*|\b\w+(?: addrspace\(\d+\))?\*", opaque, text)
    return text.encode()


def random_program(seed: int, size: int) -> bytes:
    """Return bitcode by llvm-stress."""
    if not shutil.which("llvm-stress-14") or not shutil.which("llvm-as-14"):
        pytest.skip("llvm-stress-14 and llvm-as-14 are not installed here")
    script = f"llvm-stress-14 -seed={seed} -size={size} | llvm-as-14"
    return subprocess.run(["sh", "-c", script], stdout=subprocess.PIPE, check=True).stdout


@pytest.fixture(scope="session")
def library() -> Library:
    return Library.find()


@pytest.fixture(scope="session")
def compile_with() -> Compile:
    return _compile


@pytest.fixture(scope="session")
def system_library() -> Callable[[int], Library]:
    return _system_library


@pytest.fixture(scope="session")
def library_14() -> Library:
    return _system_library(14)


@cache
def _system_library(major: int) -> Library:
    """Load Debian's libLLVM of a release, or skip the test."""
    names = f"llvm-{major}/lib/libLLVM-{major}.so.1", f"x86_64-linux-gnu/libLLVM.so.{major}.1"  # until, since LLVM 18
    path = next((path for name in names if (path := Path("/usr/lib") / name).exists()), None)
    if path is None or shutil.which(f"clang-{major}") is None:
        pytest.skip(f"this machine has no LLVM {major} (apt install llvm-{major} clang-{major})")
    return Library(path)


@pytest.fixture(scope="session", params=["bundled", "19", "14"])
def any_library(request: pytest.FixtureRequest, library: Library) -> Library:
    """Each LLVM on this machine, one after the other."""
    return library if request.param == "bundled" else _system_library(int(request.param))


@pytest.fixture(scope="session")
def any_clang(any_library: Library, library: Library, clang: str) -> str:
    """The clang of its own version: an older library cannot read what a newer clang writes."""
    name = f"clang-{any_library.version[0]}"
    found = clang if any_library is library else shutil.which(name)
    return found or pytest.skip(f"{name} is not installed here")


@pytest.fixture(scope="session")
def any_natives(any_library: Library, clang: str, cache_dir: Path) -> NativeLibraries:
    return NativeLibraries(any_library, clang, cache_dir)


@pytest.fixture(scope="session")
def simple() -> bytes:
    return TEXT


@pytest.fixture(scope="session")
def clang(library: Library) -> str:
    return find_clang(library)


@pytest.fixture(scope="session")
def compile_program(clang: str) -> Compile:
    return lambda name, *flags: _compile(clang, name, *flags)


@pytest.fixture(scope="session")
def cache_dir(run_cache: Path) -> Path:
    return run_cache


@pytest.fixture(scope="session")
def natives(library: Library, clang: str, cache_dir: Path) -> NativeLibraries:
    return NativeLibraries(library, clang, cache_dir)


@pytest.fixture(scope="session")
def walker(natives: NativeLibraries) -> Walker:
    return Walker(natives.load("walker"))


@pytest.fixture
def engine(library: Library, natives: NativeLibraries) -> Engine:
    return Engine(library, natives)
