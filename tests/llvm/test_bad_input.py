"""What goes wrong with programs of the user's own, and that everything goes on afterwards."""

import contextlib
import os
import subprocess
from pathlib import Path

import pytest
import pytest_asyncio

import aiocg
from aiocg.datasets import BenchmarkInitError, BenchmarkNotFound, DatasetError, DatasetNotFound
from aiocg.datasets.toolchain import find_toolchain

pytestmark = pytest.mark.asyncio(loop_scope="session")

SOURCES = {
    "mine.c": "int twice(int x) { int y = x; return y + y; }\n",
    "mine.cc": "template <class T> T twice(T x) { return x + x; }\nint f(int x) { return twice(x); }\n",
    "mine.cpp": "struct S { int x; int get() const { return x; } };\nint f(const S &s) { return s.get(); }\n",
    "mine.ll": "define i32 @f(i32 %x) {\n  %y = alloca i32\n  store i32 %x, ptr %y\n"
    "  %z = load i32, ptr %y\n  ret i32 %z\n}\n",
}


def bitcode(folder: Path) -> bytes:
    """Compile a small program to bitcode with the clang at hand."""
    source, target = folder / "source.c", folder / "source.bc"
    source.write_text(SOURCES["mine.c"])
    clang = os.fspath(find_toolchain().clang)
    subprocess.run(
        [clang, "-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c", source, "-o", target], check=True
    )
    return target.read_bytes()


@pytest.mark.parametrize("name", SOURCES)
async def test_a_file_of_the_users_own_is_optimised(make, tmp_path, name) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / name
    path.write_text(SOURCES[name])
    env = await make(path, "llvm-ic-v0")
    before = await env.observe("IrInstructionCount")
    await env.step(["mem2reg", "inline", "instcombine", "simplifycfg"])
    assert 0 < await env.observe("IrInstructionCount") < before


async def test_bitcode_is_the_same_program_wherever_it_is_read(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    path, again = tmp_path / "mine.bc", tmp_path / "again.bc"
    path.write_bytes(bitcode(tmp_path))
    env = await make(path)
    again.write_bytes(bytes(await env.observe("Bitcode")))
    other = await make(again)
    assert await other.observe("Bitcode") == again.read_bytes()
    assert other.state_hash == env.state_hash


@pytest_asyncio.fixture(loop_scope="session")
async def standing(make) -> aiocg.Env:  # type: ignore[no-untyped-def]
    """An environment in the middle of an episode."""
    env = await make("gcd", "llvm-ic-v0")
    await env.step("mem2reg")
    return env


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "content"), [("nothing.c", ";"), ("data.c", "int x = 3;"), ("declaration.ll", "declare i32 @f()\n")]
)
async def test_a_program_without_instructions_can_be_optimised(make, tmp_path, name, content) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / name
    path.write_text(content)
    env = await make(path, "llvm-ic-v0")
    names = list(env.observation_spaces)
    linked = [name for name in names if name.startswith("TextSize") or name == "Buildtime"]
    for name in linked:
        with contextlib.suppress(aiocg.errors.ObservationFailed):  # there is no program without main
            assert env.observation_spaces[name].space.contains(await env.observe(name)), name
    names = [name for name in names if name not in linked]
    for space, value in zip(names, await env.observe(*names), strict=True):
        assert env.observation_spaces[space].space.contains(value), space
    results = await env.expand(range(env.action_space.n))
    assert [(r.error, r.reward) for r in results if r.error is not None or r.reward != 0.0] == []


async def still_usable(env: aiocg.Env) -> None:
    """Check that an environment goes on where it was, and can go on elsewhere."""
    assert env.state.actions == ("mem2reg",) and env.in_episode
    assert (await env.step("simplifycfg"))[2] is False
    assert (await env.reset(benchmark="programs-v0/crc32"))[1]["benchmark"] == "benchmark://programs-v0/crc32"
    assert (await env.step("mem2reg"))[1] > 0


async def refused(make, runtime, content: bytes, name: str, tmp_path: Path) -> str:  # type: ignore[no-untyped-def]
    """Have a file refused by the reset of an environment that stands elsewhere; return the message."""
    env = await make("gcd", "llvm-ic-v0")
    await env.step("mem2reg")
    path = tmp_path / name
    path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(DatasetError) as caught:
            await env.reset(benchmark=path)
    await still_usable(env)
    return str(caught.value)


async def test_truncated_bitcode_is_refused_wherever_it_ends(make, runtime, tmp_path) -> None:  # type: ignore[no-untyped-def]
    whole = bitcode(tmp_path)
    for length in (4, 5, 64, len(whole) // 3, len(whole) // 2, len(whole) - 4, len(whole) - 1):
        message = await refused(make, runtime, whole[:length], "mine.bc", tmp_path)
        assert "bitcode" in message and "mine.bc" in message


async def test_damaged_bitcode_is_refused_or_read_and_ends_nobody_elses_episode(make, runtime, tmp_path) -> None:  # type: ignore[no-untyped-def]
    whole = bytearray(bitcode(tmp_path))
    bystander = await make("gcd", "llvm-ic-v0")
    await bystander.step("mem2reg")
    before = bystander.state_hash
    env = await make("gcd")
    for position in range(40, len(whole), len(whole) // 12):
        damaged = bytearray(whole)
        damaged[position] ^= 0x5A
        path = tmp_path / f"damaged{position}.bc"
        path.write_bytes(damaged)
        with contextlib.suppress(DatasetError, aiocg.AiocgError):
            await env.reset(benchmark=path)
    assert bystander.state_hash == before and (await bystander.step("simplifycfg"))[2] is False


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("foreign.bc", b"\x7fELF" + bytes(100), ["not LLVM bitcode"]),
        ("foreign.bc", b"PK\x03\x04" + bytes(100), ["not LLVM bitcode"]),
        ("foreign.ll", b"\x7fELF" + bytes(100), ["ELF"]),
        ("noise.ll", b"this is no IR\n", ["textual IR"]),
        ("wrong.ll", b"define i32 @f() {\n  ret i64 0\n}\n", ["textual IR"]),
        ("broken.ll", b"define i32 @f() {\n  %x = add i32 %y, 1\n  ret i32 %x\n}\n", ["textual IR", "%y"]),
        ("empty.bc", b"", ["empty"]),
        ("empty.ll", b"", ["empty"]),
        ("blank.ll", b" \n\n", ["empty"]),
        ("empty.c", b"", ["empty"]),
        ("bad.c", b"int f( { return 1; }\n", ["error:", "bad.c:1"]),
        ("bad.cc", b"template <class T> void f() { undeclared(); }\n", ["error:", "undeclared"]),
        ("latin.c", b"int f(void) { return \xff\xfe; }\n", ["error:"]),
        ("text.txt", b"int f(void) { return 1; }", ["suffix"]),
    ],
)
async def test_content_that_is_no_program_is_refused_with_the_reason(
    make, runtime, tmp_path, name, content, words
) -> None:  # type: ignore[no-untyped-def]
    message = await refused(make, runtime, content, name, tmp_path)
    assert [word for word in words if word not in message] == []


async def test_bitcode_of_a_newer_llvm_is_refused_with_advice(monkeypatch, tmp_path) -> None:  # type: ignore[no-untyped-def]
    library = Path("/usr/lib/llvm-14/lib/libLLVM.so")
    clang = Path("/usr/lib/llvm-14/bin/clang")
    if not (library.exists() or Path("/usr/lib/llvm-14/lib/libLLVM-14.so").exists()) or not clang.exists():
        pytest.skip("needs LLVM 14 and its clang: apt install llvm-14 clang-14")
    path = tmp_path / "new.bc"
    path.write_bytes(bitcode(tmp_path))
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/usr/lib/llvm-14/lib/libLLVM-14.so")
    monkeypatch.setenv("AIOCG_CLANG", str(clang))
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("llvm-v0", benchmark=path)
        with pytest.raises(BenchmarkInitError, match="AIOCG_LLVM_LIBRARY"):
            await env.reset()


async def test_a_missing_system_header_names_the_package(make, tmp_path, standing, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "hello.c"
    path.write_text("#include <utmpx_not_there/sys.h>\nint main(void) { return 0; }\n")
    with pytest.raises(BenchmarkInitError, match="file not found"):
        await standing.reset(benchmark=path)
    path.write_text("#include <stdio.h>\nint main(void) { return 0; }\n")
    benchmark = aiocg.Benchmark.from_file(path, flags=["-nostdinc"])
    with pytest.raises(BenchmarkInitError, match="libc6-dev") as caught:
        await standing.reset(benchmark=benchmark)
    assert caught.value.missing_header == "stdio.h" and "file not found" in caught.value.diagnostics
    await still_usable(standing)


async def test_paths_that_cannot_be_read_are_refused(tmp_path, standing, runtime) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "folder.c").mkdir()
    for target, error in (
        (tmp_path / "none.c", BenchmarkNotFound),
        (tmp_path / "folder.c", BenchmarkInitError),
        (tmp_path / "folder.c" / "deeper.c", BenchmarkNotFound),
        ("programs-v0/qsrot", BenchmarkNotFound),
        ("program-v0/qsort", DatasetNotFound),
        ("", DatasetError),
        ("benchmark://", DatasetError),
        ("/dev/null", DatasetError),
    ):
        with pytest.raises(error):
            await standing.reset(benchmark=target)
        with pytest.raises(error):
            await runtime.make("llvm-v0", benchmark=target)
    await still_usable(standing)


async def test_a_file_without_permission_is_refused(tmp_path, standing) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "secret.c"
    path.write_text(SOURCES["mine.c"])
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("needs a user other than root: root may read everything")
    with pytest.raises(BenchmarkInitError, match="Permission denied"):
        await standing.reset(benchmark=path)
    await still_usable(standing)


async def test_a_file_that_is_repaired_is_compiled_then(tmp_path, standing) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "mine.c"
    path.write_text("int f(void) { return }\n")
    with pytest.raises(BenchmarkInitError):
        await standing.reset(benchmark=path)
    path.write_text(SOURCES["mine.c"])
    await standing.reset(benchmark=path)
    assert (await standing.step("mem2reg"))[1] > 0
