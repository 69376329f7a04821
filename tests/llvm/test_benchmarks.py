"""Making benchmarks, joining and splitting them, and LLVM without an environment: real programs, run afterwards."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import pytest

import aiocg
from aiocg import llvm
from aiocg.datasets import (
    Benchmark,
    BenchmarkInitError,
    BenchmarkNotFound,
    InvalidBenchmarkUri,
    ToolchainNotFound,
    default_datasets,
    find_toolchain,
)
from aiocg.datasets._files import benchmark_from_file_uri
from aiocg.datasets.cache import cache_directory
from aiocg.datasets.frontend import compile_words
from aiocg.datasets.linking import link
from aiocg.errors import DeadlineExceeded, EnvironmentNotSupported, ObservationFailed, UnknownName, WorkerCrashed

pytestmark = pytest.mark.asyncio(loop_scope="session")

MAIN = "int twice(int);\nstatic int unit = 1;\nint main(void) { return twice(20) + unit + 1; }\n"
TWICE = "int twice(int x) { return x + x; }\n"
TWICE_IR = "define i32 @twice(i32 %x) {\n  %y = add i32 %x, %x\n  ret i32 %y\n}\n"

# A switch by label addresses, aliases, a comdat, a constructor, an unnamed constant and a weak function: all that
# cannot simply be cut apart.
INTRICATE = """
#include <stdint.h>
struct Counter { static int count() { static int n = 40; return n++; } };
inline int shared() { return Counter::count(); }
static int steps[3];
struct Start { Start() { steps[0] = shared(); } } start;
extern "C" int original(int x) { return x + steps[0]; }
extern "C" int other(int) __attribute__((alias("original")));
extern "C" __attribute__((weak)) int weakling() { return 1; }
static int labels(int which) {
  static const void *const table[] = {&&one, &&two};
  goto *table[which & 1];
one: return 1;
two: return 2;
}
int main(int argc, char **) { return other(labels(argc)) + (shared() == 41) - weakling(); }
"""


def executed(content: bytes, folder: Path, *flags: str) -> int:
    """Link a program with the machine's libraries, run it, and return its exit status."""
    (folder / "program.bc").write_bytes(content)
    toolchain = find_toolchain()
    command = [toolchain.clang, "-Wno-override-module", folder / "program.bc", "-o", folder / "program", *flags]
    subprocess.run(command, check=True)
    return subprocess.run([folder / "program"]).returncode


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in (
        ("main.c", MAIN),
        ("twice.c", TWICE),
        ("twice.ll", TWICE_IR),
        ("twice.cc", f'extern "C" {TWICE}'),
    ):
        (tmp_path / name).write_text(text)
    return tmp_path


# --------------------------------------------------------------------------------------------- making


async def test_source_text_is_a_benchmark_with_its_source(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    plain = llvm.benchmark_from_source(TWICE)
    with_flag = llvm.benchmark_from_source("int f(void) { return N; }", flags=["-D", "N=3"])
    cplusplus = llvm.benchmark_from_source("template <class T> T f(T x) { return x; } int g() { return f(1); }", "c++")
    assert len({plain.uri, with_flag.uri, cplusplus.uri}) == 3
    assert [(source.filename, source.contents) for source in plain.sources] == [("program.c", TWICE.encode())]
    for benchmark, says in ((plain, "@twice"), (with_flag, "ret i32 3"), (cplusplus, "@_Z1fIiET_S0_")):
        await env.reset(benchmark=benchmark)
        assert says in await llvm.ir(env)
    with pytest.raises(BenchmarkInitError, match="expected"):
        _ = llvm.benchmark_from_source("int f( {").content
    with pytest.raises(ValueError, match="unknown language 'rust'"):
        llvm.benchmark_from_source("", "rust")


async def test_missing_system_header_says_what_to_install() -> None:
    with pytest.raises(BenchmarkInitError, match="lacks the headers of the C library") as caught:
        _ = llvm.benchmark_from_source("#include <stdio.h>\n", flags=["-nostdlibinc"]).content
    assert caught.value.missing_header == "stdio.h"


@pytest.mark.few(1)
@pytest.mark.needs("libc")
@pytest.mark.parametrize("second", ["twice.c", "twice.cc", "twice.ll", "twice.bc"])
async def test_files_of_all_kinds_are_linked_to_one_module(files: Path, second: str) -> None:
    (files / "twice.bc").write_bytes(llvm.benchmark_from_source(TWICE).content)
    benchmark = llvm.make_benchmark([files / "main.c", str(files / second)])
    assert executed(benchmark.content, files) == 42
    assert [source.filename for source in benchmark.sources] == ["main.c", second]
    assert str(files / second) in dict(benchmark.uri.params[1:])["file"]


async def test_one_file_is_the_benchmark_of_that_file(files: Path) -> None:
    assert llvm.make_benchmark(files / "main.c").uri == aiocg.Benchmark.from_file(files / "main.c").uri
    assert llvm.make_benchmark(files / "twice.ll").content == TWICE_IR.encode()
    assert llvm.make_benchmark([files / "twice.c"], flags=["-DX"]).uri.param("flag") == ("-DX",)


@pytest.mark.needs("libc")
async def test_flags_and_runs_of_clang_of_ones_own(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(files)
    own = llvm.ClangInvocation([*llvm.ClangInvocation.DEFAULT_FLAGS, "-Dtwice=thrice", "twice.c"])
    assert b"thrice" in llvm.make_benchmark(own).content
    joined = llvm.make_benchmark([llvm.ClangInvocation.from_file("main.c"), "twice.c"])
    assert executed(joined.content, files) == 42
    with pytest.raises(BenchmarkInitError, match="no such file"):
        _ = llvm.make_benchmark(llvm.ClangInvocation(["-c", "nothing.c"])).content


async def test_bad_inputs_are_refused(files: Path) -> None:
    with pytest.raises(BenchmarkNotFound):
        llvm.make_benchmark([files / "main.c", files / "nothing.c"])
    with pytest.raises(BenchmarkInitError, match="no inputs"):
        llvm.make_benchmark([])
    with pytest.raises(TypeError, match="not int"):
        llvm.make_benchmark([3])  # type: ignore[list-item]
    with pytest.raises(BenchmarkInitError, match="symbol multiply defined"):
        _ = llvm.make_benchmark([files / "twice.c", files / "twice.ll"]).content
    (files / "broken.ll").write_text("define i32 @f() {\n")
    with pytest.raises(BenchmarkInitError, match=r"1-broken\.ll: 2:1: error"):
        _ = llvm.make_benchmark([files / "main.c", files / "broken.ll"]).content


@pytest.mark.needs("libc")
async def test_code_of_o0_can_be_optimised_once_it_is_stripped(make: Callable[..., Any], files: Path) -> None:
    env = await make("gcd")
    for name in ("main", "twice"):
        compiled = compile_words(["-O0", f"{name}.c"], directory=files)
        (files / f"{name}.bc").write_bytes(compiled)
    stuck = llvm.make_benchmark([files / "main.bc", files / "twice.bc"])
    free = llvm.make_benchmark([files / "main.bc", files / "twice.bc"], strip_optnone=True)
    counts = []
    for benchmark in (stuck, free):
        await env.reset(benchmark=benchmark)
        counts.append(await env.observe("IrInstructionCount", "IrInstructionCountOz"))
    assert counts[0][0] == counts[1][0]
    assert counts[1][1] < counts[0][1] / 2  # `twice` is inlined too
    assert executed(free.content, files) == 42


# ------------------------------------------------------------------------------------- splitting, merging


@pytest.mark.few(1)
async def test_parts_of_a_program_link_to_one_that_prints_the_same(program: str, tmp_path: Path) -> None:
    whole = default_datasets().benchmark(f"programs-v0/{program}")
    parts = llvm.split_benchmark_by_function(whole)
    assert str(parts[-1].uri) == f"{whole.uri}#globals"
    assert f"{whole.uri}#function:main" in map(str, parts)
    assert all(part.sources == whole.sources for part in parts)
    merged = llvm.merge_benchmarks(parts)
    link(merged.content, tmp_path / "program", find_toolchain())
    ended = await anyio.run_process([tmp_path / "program", "small"], check=False)
    expected = whole.program.runs["small"].expected_output()  # type: ignore[union-attr]
    assert (ended.returncode, ended.stdout) == (0, expected)


@pytest.mark.slow
async def test_each_part_defines_its_function_and_nothing_else(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    whole = env.benchmark
    parts = llvm.split_benchmark_by_function(whole)
    for part in parts:
        await env.reset(benchmark=part)
        text = await llvm.ir(env)
        defined = [line.split("@")[1].split("(")[0] for line in text.splitlines() if line.startswith("define")]
        name = part.uri.fragment.removeprefix("function:")
        assert defined == ([] if name == "globals" else [name])
        variables = [line for line in text.splitlines() if line.startswith("@")]
        assert all((" external " in line) == (name != "globals") for line in variables)
    assert len(llvm.split_benchmark_by_function(whole, 2)) == 3
    assert len(llvm.split_benchmark_by_function(whole, 0)) == 1
    with pytest.raises(ValueError, match="negative"):
        llvm.split_benchmark_by_function(whole, -1)


COPIES = """
@size = available_externally constant i32 7
define available_externally i32 @copy(i32 %x) {
  %y = load i32, ptr @size
  %z = add i32 %x, %y
  ret i32 %z
}
define available_externally i32 @other() {
  ret i32 0
}
define i32 @caller(i32 %x) {
  %y = call i32 @copy(i32 %x)
  ret i32 %y
}
"""


@pytest.mark.parametrize("turned", [False, True])
async def test_copies_for_inlining_are_parts_and_come_back(make: Callable[..., Any], turned: bool) -> None:
    whole = Benchmark.from_file_contents("benchmark://own-v0/copies", COPIES.encode())
    parts = llvm.split_benchmark_by_function(whole)
    assert [part.uri.fragment for part in parts] == ["function:copy", "function:other", "function:caller", "globals"]
    env = await make("gcd")
    await env.reset(benchmark=parts[0])
    assert "define available_externally i32 @copy" in await llvm.ir(env)
    await env.reset(benchmark=parts[2])
    assert "declare i32 @copy" in await llvm.ir(env)
    await env.reset(benchmark=llvm.merge_benchmarks(reversed(parts) if turned else parts))
    text = await llvm.ir(env)
    assert all(f"define available_externally i32 @{name}" in text for name in ("copy", "other"))
    assert "@size = available_externally constant i32 7" in text and "define i32 @caller" in text


@pytest.mark.slow
async def test_the_real_function_takes_the_place_of_copies(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    for real in ("", "weak "):
        text = f"define {real}i32 @copy(i32 %x) {{\n  ret i32 %x\n}}\n"
        programs = [Benchmark.from_file_contents("benchmark://own-v0/one", one.encode()) for one in (text, COPIES)]
        for order in (programs, programs[::-1]):
            await env.reset(benchmark=llvm.merge_benchmarks(order))
            assert f"define {real}i32 @copy" in await llvm.ir(env)


LLVMS = [
    pytest.param(
        version,
        marks=pytest.mark.skipif(
            not all(os.path.exists(path) for path in paths),
            reason=f"needs LLVM {version}: llvm-{version} clang-{version}",
        ),
    )
    for version, paths in {
        23: (),
        19: ("/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1", "/usr/lib/llvm-19/bin/clang"),
        14: ("/usr/lib/llvm-14/lib/libLLVM-14.so", "/usr/lib/llvm-14/bin/clang"),
    }.items()
]


@pytest.mark.needs("libc")
@pytest.mark.slow
@pytest.mark.parametrize("version", LLVMS)
async def test_what_cannot_be_cut_stays_together(version: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if version != 23:
        monkeypatch.setenv("AIOCG_LLVM_LIBRARY", f"/usr/lib/x86_64-linux-gnu/libLLVM-{version}.so")
    source = llvm.benchmark_from_source(INTRICATE, "c++", ["-nostdinc++", "-fno-exceptions", "-fno-threadsafe-statics"])
    expected = executed(source.content, tmp_path)
    assert expected == 42
    parts = llvm.split_benchmark_by_function(source)
    assert len(parts) >= 8
    assert executed(llvm.merge_benchmarks(reversed(parts)).content, tmp_path) == expected
    if version == 23:
        with pytest.raises(BenchmarkInitError, match="multiply defined"):
            _ = llvm.merge_benchmarks([source, source]).content


async def test_a_part_of_a_file_is_not_taken_for_the_whole_file(files: Path) -> None:
    part = llvm.split_benchmark_by_function(aiocg.Benchmark.from_file(files / "main.c"))[0]
    with pytest.raises(InvalidBenchmarkUri, match="no part"):
        benchmark_from_file_uri(part.uri)


# --------------------------------------------------------------------------------------- without an env


@pytest.mark.slow
async def test_written_files_are_the_program_and_replace_at_once(
    make: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AIOCG_CACHE", str(cache_directory()))
    monkeypatch.setenv("HOME", str(tmp_path))
    env = await make("gcd")
    (tmp_path / "p.ll").write_text("what was there")
    text, bitcode = await llvm.write_ir(env, "~/p.ll"), await llvm.write_bitcode(env, tmp_path / "p.bc")
    assert text.read_text() == await env.observe("Ir")
    assert bitcode.read_bytes() == await env.observe("Bitcode")
    assert text.stat().st_mode & 0o777 == 0o666 & ~int(
        Path("/proc/self/status").read_text().split("Umask:\t")[1][:4], 8
    )
    assert await llvm.ir_sha1(env) == llvm.compute_observation("IrSha1", bitcode)
    with pytest.raises(FileNotFoundError, match=r"nowhere/p\.ll"):
        await llvm.write_ir(env, tmp_path / "nowhere/p.ll")
    assert sorted(path.name for path in tmp_path.glob("*p*")) == ["p.bc", "p.ll"]


@pytest.mark.slow
async def test_an_observation_without_an_environment_is_the_same(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    for name in ("Autophase", "IrInstructionCountOz", "InstCountDict", "ObjectTextSizeBytes", "Programl"):
        here, there = await env.observe(name), llvm.compute_observation(name, env.benchmark.content)
        if name == "Programl":
            assert (sorted(here.nodes), sorted(here.edges)) == (sorted(there.nodes), sorted(there.edges))
        else:
            np.testing.assert_equal(there, here)
    with pytest.raises(ObservationFailed, match="BitcodeFile lives as long as a runtime"):
        llvm.compute_observation("BitcodeFile", env.benchmark.content)


@pytest.mark.slow
async def test_a_program_that_llvm_dies_of_takes_only_the_tool_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BenchmarkInitError, match="expected top-level entity"):
        llvm.compute_observation("Ir", b"no program")
    with pytest.raises(UnknownName, match="Autophase"):
        llvm.compute_observation("Autofase", b"")
    with pytest.raises(DeadlineExceeded):
        llvm.compute_observation("Ir", TWICE_IR.encode(), timeout=0.01)
    dying = b'@a = global [4 x i8] c"abc\\00"\nmodule asm ".bogus_directive"\n' + TWICE_IR.encode()
    with pytest.raises((WorkerCrashed, aiocg.errors.ObservationFailed)):
        llvm.compute_observation("ObjectTextSizeBytes", dying)
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/nowhere/libLLVM.so.23")
    with pytest.raises((EnvironmentNotSupported, ToolchainNotFound), match="/nowhere"):
        llvm.compute_observation("Ir", TWICE_IR.encode())


async def test_lists_are_those_of_the_environment(make: Callable[..., Any]) -> None:
    env = await make("gcd")
    assert list(llvm.observation_spaces()) == list(env.observation_spaces)
    assert list(llvm.reward_spaces()) == list(env.reward_spaces)
    assert llvm.action_names() == tuple(env.action_space.names)
    with pytest.raises(UnknownName):
        llvm.action_names("nothing")


async def test_programs_of_llvm_are_found_or_the_error_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch) -> None:
    for path in (llvm.clang_path(), llvm.program_path("clang"), llvm.lld_path()):
        assert os.access(path, os.X_OK)
    monkeypatch.setenv("PATH", str(llvm.clang_path().parent))
    with pytest.raises(ToolchainNotFound, match="split_benchmark_by_function"):
        llvm.program_path("llvm-extract")
    with pytest.raises(ToolchainNotFound, match="there is no nothing of LLVM"):
        llvm.program_path("nothing")


async def test_uris_are_read_back(files: Path) -> None:
    parts = [aiocg.Benchmark.from_file(files / name) for name in ("main.c", "twice.c")]
    for benchmark in (
        llvm.make_benchmark([files / "main.c", files / "twice.c"], ["-DA=b c&d#e?f"]),
        llvm.merge_benchmarks(parts),
        llvm.benchmark_from_source(MAIN),
        llvm.strip_optnone(parts[0]),
    ):
        assert aiocg.BenchmarkUri.from_string(str(benchmark.uri)) == benchmark.uri
        json.dumps(str(benchmark.uri))
