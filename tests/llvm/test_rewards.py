"""Rewards on real programs are what their definitions say of the counts."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import default_datasets

pytestmark = pytest.mark.asyncio(loop_scope="session")

WALK = ("mem2reg", "inline", "simplifycfg", "instcombine", "loop-unroll", "gvn", "reg2mem", "sroa", "dce")
SPACES = ["IrInstructionCount", "IrInstructionCountNorm", "IrInstructionCountO3", "IrInstructionCountOz"]


async def test_rewards_follow_from_the_counts(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program)
    o0, o3, oz = await env.observe(*(f"IrInstructionCount{level}" for level in ("O0", "O3", "Oz")))
    scales = [1, max(o0, 1), max(o0 - o3, 1), max(o0 - oz, 1)]
    count, sums = o0, [0.0] * 4
    for action in WALK:
        now, rewards, *_ = await env.step(action, observation_spaces="IrInstructionCount", reward_spaces=SPACES)
        assert rewards == pytest.approx([(count - now) / scale for scale in scales])
        sums = [total + reward for total, reward in zip(sums, rewards, strict=True)]
        count = now
    assert sums == pytest.approx([(o0 - count) / scale for scale in scales])


async def test_the_return_of_an_episode_is_the_sum_of_its_rewards(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program, "llvm-ic-v0")
    rewards = [(await env.step(action))[1] for action in WALK]
    o0, oz, count = await env.observe("IrInstructionCountO0", "IrInstructionCountOz", "IrInstructionCount")
    assert env.episode_reward == pytest.approx(sum(rewards)) == pytest.approx((o0 - count) / max(o0 - oz, 1))
    assert env.state.reward == env.episode_reward


async def test_a_reward_asked_for_in_the_middle_counts_from_there(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("crc32")
    await env.step("mem2reg")
    before = await env.observe("IrInstructionCount")
    _, reward, *_ = await env.step("simplifycfg", reward_spaces="IrInstructionCount")
    assert reward == before - await env.observe("IrInstructionCount")


OPT = Path("/usr/lib/llvm-19/bin/opt")


@pytest.mark.skipif(not OPT.exists(), reason="needs LLVM 19 and its opt: apt install llvm-19 clang-19")
async def test_baselines_are_those_of_the_librarys_own_opt(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/usr/lib/llvm-19/lib/libLLVM.so.1")
    monkeypatch.setenv("AIOCG_CLANG", "/usr/lib/llvm-19/bin/clang")
    async with aiocg.Runtime(workers=1, datasets=default_datasets()) as runtime:
        env = await runtime.make("llvm-v0", benchmark=f"programs-v0/{program}")
        await env.reset()
        assert env.compiler_version.startswith("LLVM 19.")
        content = await env.observe("Bitcode")
        counts = await env.observe("IrInstructionCountO0", "IrInstructionCountO3", "IrInstructionCountOz")
    path = tmp_path / "program.bc"
    path.write_bytes(content)
    for pipeline, count in zip(("verify", "default<O3>", "default<Oz>"), counts, strict=True):
        command = [os.fspath(OPT), f"-passes={pipeline}", "-S", os.fspath(path), "-o", "-"]
        ir = (await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)).stdout
        assert len(re.findall(r"^  [^\s\];#]", ir, re.MULTILINE)) == count, pipeline
