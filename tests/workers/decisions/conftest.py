"""Sessions of each kind of decision, on programs compiled here."""

import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.decisions.session import DecisionSession
from aiocg.workers.llvm._library import Library, find_clang

DATA = Path(__file__).parents[1] / "llvm/data"
UNOPTIMISED = ("-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-w", "-fno-exceptions")


@cache
def bitcode(name: str) -> bytes:
    """Compile a program of the LLVM tests to bitcode without any passes."""
    command = [find_clang(Library.find()), *UNOPTIMISED, "-c", str(DATA / name), "-o", "-"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=DATA).stdout


def busy() -> bytes:
    """A program with calls to decide on, and more values alive at once than there are registers."""
    return _compiled(BUSY)


@cache
def _compiled(source: str) -> bytes:
    command = [find_clang(Library.find()), *UNOPTIMISED, "-x", "c", "-c", "-", "-o", "-"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, input=source.encode()).stdout


_VALUES = range(24)
BUSY = f"""
static long mix(long a, long b) {{ return (a ^ b) * 31 + (a >> 3); }}
static long twice(long a, long b) {{ return mix(a, b) + mix(b, a); }}
static long walk(const long *at, int count, long seed) {{
    for (int i = 0; i < count; i++) seed = twice(seed, at[i]);
    return seed;
}}
long crowded(const long *at, int count) {{
    long {", ".join(f"v{one} = at[{one}]" for one in _VALUES)};
    for (int i = 0; i < count; i++) {{
        {" ".join(f"v{one} = v{(one + 7) % 24} * at[i + {one}] + (v{one} >> {one % 5 + 1});" for one in _VALUES)}
    }}
    return {" ^ ".join(f"v{one}" for one in _VALUES)};
}}
long start(const long *at, int count) {{
    return {" + ".join(f"walk(at + {one}, count - {one}, {one})" for one in range(5))} + crowded(at, count);
}}
"""

Start = Callable[..., type[DecisionSession]]


@pytest.fixture
def start(run_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Start the compiler of a kind of decision, as a worker does."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def started(decision: str, level: str = "Oz", **options: object) -> type[DecisionSession]:
        kind = type("Session", (DecisionSession,), {})
        try:
            kind.start({"decision": decision, "level": level, "cache_dir": str(run_cache), **options})
        except CompilationError as error:
            if "LLVM 17 and later do" in error.message and Library.find().version < (17,):
                pytest.skip(error.message)
            raise
        return kind

    return started
