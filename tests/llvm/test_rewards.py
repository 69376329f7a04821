"""Rewards on real programs are what their definitions say of the counts."""

import asyncio
import os
import re
import subprocess
from pathlib import Path

import pytest

import aiocg
from aiocg.datasets import default_datasets
from aiocg.errors import UnknownName
from aiocg.spaces import ObservationSpace, Scalar
from aiocg.spaces.rewards import CostReward

pytestmark = pytest.mark.asyncio(loop_scope="session")

WALK = ("mem2reg", "inline", "simplifycfg", "instcombine", "loop-unroll", "gvn", "reg2mem", "sroa", "dce")
COSTS = {"IrInstructionCount": "", "ObjectImageSize": "Bytes", "ObjectTextSize": "Bytes", "TextSize": "Bytes"}


async def test_rewards_follow_from_the_costs(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program)
    costs = [prefix + suffix for prefix, suffix in COSTS.items()]
    spaces = [name for prefix, cost in zip(COSTS, costs, strict=True) for name in (cost, *names_of(prefix))]
    scales = []
    for prefix, cost in zip(COSTS, costs, strict=True):
        now, o0, o3, oz = await env.observe(cost, *(f"{prefix}{level}" for level in ("O0", "O3", "Oz")))
        assert now == o0 > oz
        scales.append([1, max(o0, 1), max(o0 - o3, 1), max(o0 - oz, 1)])
    start = present = await env.observe(*costs)
    sums = [0.0] * len(spaces)
    for action in WALK:
        now, rewards, *_ = await env.step(action, observation_spaces=costs, reward_spaces=spaces)
        assert rewards == pytest.approx(expected(present, now, scales))
        sums = [total + reward for total, reward in zip(sums, rewards, strict=True)]
        present = now
    assert sums == pytest.approx(expected(start, present, scales))


def names_of(prefix: str) -> list[str]:
    """Return the names of the scaled rewards of a cost."""
    return [f"{prefix}{suffix}" for suffix in ("Norm", "O3", "Oz")]


def expected(before: list[int], after: list[int], scales: list[list[float]]) -> list[float]:
    """Return what going from some costs to others is worth, in all rewards."""
    return [(a - b) / scale for a, b, row in zip(before, after, scales, strict=True) for scale in row]


@pytest.mark.parametrize(
    ("id", "observation", "reward"),
    [
        (f"llvm-{prefix}{kind}-v0", observation, f"{reward}Oz")
        for kind, reward in (("ic", "IrInstructionCount"), ("codesize", "ObjectImageSize"))
        for prefix, observation in (("", None), ("autophase-", "Autophase"), ("ir-", "Ir"))
    ],
)
async def test_environments_have_the_spaces_that_their_names_say(  # type: ignore[no-untyped-def]
    make, id, observation, reward
) -> None:
    env = await make("gcd", id)
    assert (env.observation_space, env.reward_space) == (observation, reward)
    seen, earned, *_ = await env.step("mem2reg")
    assert (seen is None) == (observation is None)
    assert earned > 0
    assert env.reward_spaces[reward].success_threshold == 1.0


async def test_oz_is_worth_one(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program, "llvm-codesize-v0", action_space=["default<Oz>", "default<O3>"])
    _, rewards, *_ = await env.step("default<Oz>", reward_spaces=["ObjectImageSizeOz", "IrInstructionCountOz"])
    assert rewards == [1.0, 1.0]


def marked_for_size(ir: str) -> str:
    """Mark the functions of a program as `clang -Oz` does."""
    marked, count = re.subn(r"^(define .*\)[a-z_ ]*) #", r"\1 minsize optsize #", ir, flags=re.MULTILINE)
    assert count == len(re.findall("^define ", ir, re.MULTILINE))
    return marked


@pytest.mark.few(2)
async def test_clangs_oz_is_worth_one_whether_or_not_a_program_is_marked_for_size(  # type: ignore[no-untyped-def]
    make, program: str, tmp_path: Path
) -> None:
    names = "IrInstructionCountOzMinsize", "ObjectImageSizeOzMinsize"
    costs = ["IrInstructionCount", "ObjectImageSizeMinsizeBytes"]
    levels = {"action_space": ["default<Oz>", "default<O3>"]}
    env = await make(program, **levels)
    best = await env.observe(*names)
    before = await env.observe("IrInstructionCountO0", "ObjectImageSizeO0Minsize")
    path = tmp_path / "marked.ll"
    path.write_text(marked_for_size(await env.observe("Ir")))
    marked = await make(path, **levels)
    assert await marked.observe(*names) == best
    for one, level in ((marked, "default<Oz>"), (env, "default<O3>")):
        now, rewards, *_ = await one.step(level, observation_spaces=costs, reward_spaces=names)
        saved = zip(before, now, best, strict=True)
        assert rewards == pytest.approx([(o0 - cost) / max(o0 - oz, 1) for o0, cost, oz in saved])
        assert one is env or (rewards[0] > 0.8 and rewards[1] == pytest.approx(1.0, abs=0.05))  # clang vectorises, too


def counted(name: str, *keys: str) -> ObservationSpace:
    """Make an observation that the client derives: the sum of some instruction counts."""
    return ObservationSpace(
        name=name,
        space=Scalar(0, None, "int64"),
        deterministic=True,
        platform_dependent=False,
        default=0,
        description="number of some instructions",
        sources=("InstCountDict",),
        translate=lambda counts: sum(counts[f"{key}Count"] for key in keys),
    )


async def test_every_number_observed_is_a_reward_too(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    env.add_observation_space(counted("Loads", "Load"))
    before = await env.observe("Loads")
    after, reward, *_ = await env.step("mem2reg", observation_spaces="Loads", reward_spaces="Loads")
    assert reward == after - before < 0
    assert set(env.reward_spaces) > {"Loads", "IsRunnable", "IrInstructionCountO0"}
    _, unchanged, *_ = await env.step("dce", reward_spaces="IrInstructionCountO0")
    assert unchanged == 0


class Saved(aiocg.Reward):
    """Loads and stores saved, as a fraction of those at the start."""

    observation_spaces = ("LoadsAndStores",)
    baseline_spaces = ("LoadsAndStores",)

    def reward(self, before, after, baseline) -> float:  # type: ignore[no-untyped-def]
        return float(before["LoadsAndStores"] - after["LoadsAndStores"]) / baseline["LoadsAndStores"]


async def test_a_reward_of_ones_own_may_stand_on_derived_observations(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    with pytest.raises(UnknownName, match="LoadsAndStores"):
        env.add_reward_space(Saved("saved"))
    env.add_observation_space(counted("LoadsAndStores", "Load", "Store"))
    env.add_reward_space(Saved("saved"))
    env.reward_space = "saved"
    await env.reset()
    start = await env.observe("LoadsAndStores")
    _, reward, *_ = await env.step("mem2reg")
    assert reward == pytest.approx((start - await env.observe("LoadsAndStores")) / start) and reward > 0
    fork = await env.fork()
    (candidate,) = await fork.expand([["reg2mem", "dce"]])
    _, reward, *_ = await env.step(["reg2mem", "dce"])
    assert candidate.reward == reward < 0
    await fork.close()


async def test_rewards_of_ones_own_can_be_given_at_make(runtime) -> None:  # type: ignore[no-untyped-def]
    mine = CostReward("fewer", "IrInstructionCount")
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", rewards=[mine], reward_space="fewer")
    await env.reset()
    _, reward, *_ = await env.step("mem2reg")
    assert reward > 0
    await env.close()


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


@pytest.mark.few(1)
@pytest.mark.skipif(not OPT.exists(), reason="needs LLVM 19 and its opt: apt install llvm-19 clang-19")
async def test_baselines_are_those_of_the_librarys_own_opt(
    program: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AIOCG_LLVM_LIBRARY", "/usr/lib/x86_64-linux-gnu/libLLVM.so.19.1")
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
        command = [os.fspath(OPT), f"-passes={pipeline}", "-relocation-model=pic", "-S", os.fspath(path), "-o", "-"]
        ir = (await asyncio.to_thread(subprocess.run, command, check=True, capture_output=True, text=True)).stdout
        assert len(re.findall(r"^  [^\s\];#]", ir, re.MULTILINE)) == count, pipeline
