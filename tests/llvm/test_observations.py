"""What is observed of real programs."""

import hashlib
import re

import numpy as np
import pytest

import aiocg

pytestmark = pytest.mark.asyncio(loop_scope="session")

INSTRUCTION = re.compile(r"^  [^\s\];#]", re.MULTILINE)  # not a label, a case, the end of a switch or a clause
WALK = ("mem2reg", "simplifycfg", "instcombine", "inline", "gvn", "loop-rotate", "licm", "dce")


def count_in_text(ir: str) -> int:
    """Count instructions as a reader would."""
    bodies = re.findall(r"^define .*?^}", ir, re.MULTILINE | re.DOTALL)
    return sum(len(INSTRUCTION.findall(body)) for body in bodies)


async def test_observations_agree_with_each_other_along_a_walk(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program)
    for step in (None, *WALK):
        if step is not None:
            await env.step(step)
        count, inst_count, autophase, ir, norm = await env.observe(
            "IrInstructionCount", "InstCount", "Autophase", "Ir", "InstCountNorm"
        )
        named, densities, features = await env.observe("InstCountDict", "InstCountNormDict", "AutophaseDict")
        assert count == inst_count[0] == features["TotalInsts"] == count_in_text(ir)
        assert list(named.values()) == inst_count.tolist() and list(features.values()) == autophase.tolist()
        assert list(densities.values()) == norm.tolist()
        assert np.allclose(norm * count, inst_count[1:])


async def test_the_hash_of_the_ir_is_that_of_its_text(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program)
    ir, sha1 = await env.observe("Ir", "IrSha1")
    first, second, rest = ir.split("\n", 2)
    assert first.startswith("; ModuleID") and second.startswith("source_filename = ")
    assert hashlib.sha1(rest.encode()).hexdigest() == sha1


async def test_observing_changes_nothing_and_repeats(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("nqueens")
    await env.step("mem2reg")
    before = env.state_hash
    first = await env.observe("Ir", "Bitcode", "IrInstructionCountOz", "IrSha1")
    assert await env.observe("Ir", "Bitcode", "IrInstructionCountOz", "IrSha1") == first
    _, _, _, _, info = await env.step([])
    assert (info["state"], env.state_hash) == (before, before)


async def test_the_bitcode_is_a_program_of_its_own(make, tmp_path) -> None:  # type: ignore[no-untyped-def]
    env = await make("crc32")
    await env.step(["mem2reg", "gvn", "instcombine"])
    path = tmp_path / "crc32.bc"
    path.write_bytes(await env.observe("Bitcode"))
    again = await make(path)
    assert await again.observe("IrSha1") == await env.observe("IrSha1")
    assert (await again.observe("Bitcode"), again.state_hash) == (path.read_bytes(), env.state_hash)


async def test_default_observations_come_with_reset_and_step(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd", "llvm-autophase-ic-v0")
    observation, _ = await env.reset()
    assert observation.tolist() == (await env.observe("Autophase")).tolist()
    observation, reward, *_ = await env.step("mem2reg", observation_spaces=["IrInstructionCount", "Autophase"])
    assert observation[1].tolist() == (await env.observe("Autophase")).tolist() and reward > 0


async def test_there_are_enough_actions_each_with_a_description(make) -> None:  # type: ignore[no-untyped-def]
    space = (await make()).action_space
    assert len(set(space.names)) == space.n >= 118
    assert all(text and "\n" not in text for text in space.descriptions)


async def test_the_baselines_do_not_depend_on_where_the_episode_stands(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("nqueens")
    names = [f"IrInstructionCount{level}" for level in ("O0", "O3", "Oz")]
    before = await env.observe(*names)
    assert before[0] == await env.observe("IrInstructionCount")
    await env.step(["mem2reg", "gvn"])
    assert await env.observe(*names) == before
    assert isinstance(env, aiocg.Env) and before[2] < before[0]
