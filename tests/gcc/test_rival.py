"""What results of GCC are compared with, and which of its options are no optimisations."""

import stat
import subprocess
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from aiocg.datasets import Benchmark, BenchmarkSource
from aiocg.datasets.process import cancellable
from aiocg.gcc import make_benchmark
from aiocg.gcc.meaning import effects
from aiocg.gcc.rival import _compile_small, same_meaning
from aiocg.transport.elf import image_size
from aiocg.transport.options import Option

from ..command_line import CHEAPEST, Run, runner
from .written import LOOP, program

pytestmark = pytest.mark.needs("gcc")

KEYS = "static long keys[200] = {3, 1, 4, 1, 5, 9};\nlong key(long n) { return keys[n & 3] ^ keys[n % 200]; }\n"
NO_TABLES = "-fno-asynchronous-unwind-tables"


def test_a_compiler_that_is_killed_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, temporary, stop = tmp_path / "slow-gcc", tmp_path / "temporary", threading.Event()
    temporary.mkdir()
    started = tmp_path / "started"
    driver.write_text(f'#!/bin/sh\ncase "$*" in *-dM*) exec gcc "$@";; esac\nmktemp > {started}\nexec sleep 60\n')
    driver.chmod(0o755)
    monkeypatch.setenv("TMPDIR", str(temporary))

    def stopping() -> None:
        while not (started.exists() and started.read_text()):
            time.sleep(0.01)
        stop.set()

    with cancellable(stop), ThreadPoolExecutor() as pool:
        pool.submit(stopping)
        assert "cancelled" in _compile_small(program(LOOP), str(driver)).problem
    assert not Path(started.read_text().strip()).exists() and [*temporary.iterdir()] == []


@pytest.mark.asyncio(loop_scope="session")
async def test_a_table_counts_wherever_it_is(make: Callable[..., Any]) -> None:
    env = await make(program(KEYS), action_space="command_line")
    sizes = ("obj_text_size", "obj_image_size")
    written = await env.observe(*(f"{size}_O0" for size in sizes))
    constant = await env.observe(*(f"{size}_Os" for size in sizes))
    assert constant[0] > written[0] + 1200, "-Os makes the table constant, which the text size holds against it"
    assert constant[1] < written[1] and written[1] - written[0] >= 1600


@pytest.mark.asyncio(loop_scope="session")
async def test_zeroed_memory_is_beside_the_image(make: Callable[..., Any]) -> None:
    env = await make(program("int seen[500];\nint *last = seen;\n"), action_space="command_line")
    assert await env.observe("obj_bss_size") == 2000
    assert await env.observe("obj_image_size") == 8 + 24  # the variable, and an entry of the loader's table


@pytest.mark.asyncio(loop_scope="session")
async def test_dropping_unwind_tables_is_no_gain(make: Callable[..., Any]) -> None:
    env = await make(program(LOOP), action_space="command_line", reward_space="obj_image_size_Oz")
    for more in ("", f" {NO_TABLES}"):
        sizes = {}
        for level in ("-Os", "-Oz"):
            await env.step(f"gcc {level}{more}")
            sizes[level] = await env.observe("obj_image_size")
        found = await same_meaning(env, "obj_image_size")
        assert found is not None and found.cost == min(sizes.values()) and found.words[1:] == tuple(more.split())
        assert found.words[0] in [level for level in sizes if sizes[level] == found.cost]
        if more:
            assert found.alone == await env.observe(f"obj_image_size_{found.words[0][1:]}") > found.cost
        else:
            assert found.alone == found.cost


@pytest.mark.asyncio(loop_scope="session")
async def test_options_that_make_a_program_larger_are_no_excuse(make: Callable[..., Any]) -> None:
    env = await make(program(LOOP), action_space="command_line", reward_space="obj_image_size_Oz")
    plain = min(await env.observe("obj_image_size_Os", "obj_image_size_Oz"))
    await env.step("gcc -Oz -fstack-protector-all -ftrapv -fno-ivopts")
    found = await same_meaning(env, "obj_image_size")
    assert found is not None and found.cost == plain < await env.observe("obj_image_size")


FEWER = ("--param=ssp-buffer-size=64", "-ffinite-loops", "-fnothrow-opt")


def test_options_that_change_a_program_are_named() -> None:
    def flag(name: str, initial: str) -> Option:
        return Option(name, "flag", texts=(name, f"-fno-{name[2:]}"), initial=initial)

    options = [
        flag("-fstack-protector", "[enabled]"),
        flag("-fexceptions", "[disabled]"),
        flag("-fivopts", "[enabled]"),
    ]
    words = (
        "-Oz",
        "-fno-ivopts",
        "-fno-stack-protector",
        "-fno-exceptions",
        "-ffinite-math-only",
        "-fwrapv",
        NO_TABLES,
        *FEWER,
    )
    found = dict(effects(words, options))
    assert [*found] == ["-fno-stack-protector", "-ffinite-math-only", NO_TABLES, *FEWER]
    assert "protected less" in found["-fno-stack-protector"] and "NaN" in found["-ffinite-math-only"]


@pytest.mark.parametrize(
    ("name", "flags"), [("one.c", ()), ("one.cpp", ("-std=c++20", "-DN=7")), ("one.c", ("-DN=9",))]
)
def test_gcc_compiles_the_same_source_with_the_same_flags(tmp_path: Path, gcc: str, name: str, flags: Any) -> None:
    text = f'#include "n.h"\n{KEYS}int many[N];\nint n = N + sizeof(long) - 8;\n'
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "n.h").write_text("#ifndef N\n#define N 5\n#endif\n")
    (tmp_path / name).write_text(text)
    words = (f"-I{tmp_path / 'include'}", *flags)
    found = _compile_small(Benchmark.from_file(tmp_path / name, words))
    driver = "g++" if name.endswith("pp") else gcc
    subprocess.run([driver, *words, "-Oz", "-c", name, "-o", "by-hand.o"], cwd=tmp_path, check=True)
    assert found.bytes == image_size((tmp_path / "by-hand.o").read_bytes()).stored
    assert found.level == "-Oz" and found.compiler.startswith("gcc ") and not found.problem


def test_several_units_are_one_object(tmp_path: Path) -> None:
    texts = [
        BenchmarkSource("a.c", b"int a(void) { return 1; }\n"),
        BenchmarkSource("b.c", b"int b(void) { return 2; }\n"),
    ]
    together, alone = _compile_small(make_benchmark(texts)), _compile_small(make_benchmark(texts[:1]))
    assert together.bytes is not None and alone.bytes is not None and together.bytes > alone.bytes


@pytest.mark.parametrize(
    ("driver", "text", "problem"),
    [
        ("no-such-gcc", "int x;", "there is no GCC here"),
        ("false", "int x;", "there is no GCC here"),
        ("gcc", "int f(void) { return 1 + ; }", "error: expected expression"),
    ],
)
def test_where_gcc_makes_nothing_the_reason_is_said(tmp_path: Path, driver: str, text: str, problem: str) -> None:
    (tmp_path / "x.c").write_text(text)
    found = _compile_small(Benchmark.from_file(tmp_path / "x.c"), driver)
    assert found.bytes is None and problem in found.problem


def test_bitcode_has_no_sources_for_gcc() -> None:
    found = _compile_small(Benchmark.from_file_contents("benchmark://user-v0/x", b"; no source"))
    assert found.bytes is None and "sources are not known" in found.problem


SUM = """double total(const double *v, int n) {
  double s = 0;
  for (int i = 0; i < n; i++) s += v[i] == v[i] ? v[i] : 0.0;
  return s;
}
"""


@pytest.fixture
def command(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return runner(monkeypatch, capfd, "search")


@pytest.mark.slow
def test_a_search_names_what_it_changed_and_what_it_does_not_count(command: Run, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(SUM)
    words = ("screening", "sum.c", "--env", "gcc-v0", "--evaluations", 60, "--seed", 1)
    done = command(*words)
    assert done.status == 0, done.err
    assert f"smaller than -Oz {NO_TABLES}" in done.out or f"as large as -Oz {NO_TABLES}" in done.out
    assert "not counted" in done.out and f"by {NO_TABLES} alone" in done.out
    assert f"changes     {NO_TABLES}: no unwind tables" in done.out
    found = command(*words, "--json").json
    assert found["same_meaning"]["cost"] < found["same_meaning"]["alone"] and NO_TABLES in found["changes"]
    assert found["metrics"]["baselines"].keys() == {"O2", "O3", "Os", "Oz"}


OLDER = """#!/bin/sh
for word; do
  if [ "$word" = -Oz ]; then
    echo "gcc: error: argument to '-O' should be a non-negative integer, 'g', 's' or 'fast'" >&2
    exit 1
  fi
done
exec {gcc} "$@"
"""


@pytest.mark.slow
def test_without_oz_the_comparison_is_with_os_and_says_so(command: Run, tmp_path: Path, gcc: str) -> None:
    older = tmp_path / "gcc-older"
    older.write_text(OLDER.format(gcc=gcc))
    older.chmod(older.stat().st_mode | stat.S_IXUSR)
    words = ("screening", CHEAPEST, "--evaluations", 20, "--env", f"gcc-v0?gcc_bin={older}")
    done = command(*words)
    assert done.status == 0, done.err
    assert "(obj_image_size_Os)" in done.out and "than -Os" in done.out and "-Oz │" not in done.out
    assert "no -Oz" in done.out and "GCC has it since 12" in done.out
    refused = command(*words, "--reward", "obj_image_size_Oz")
    assert refused.status and "obj_image_size_Os" in refused.err
