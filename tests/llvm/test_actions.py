"""Steps, batches, expansions, forks and replays of real programs."""

import asyncio
import re

import numpy as np
import pytest

import aiocg
from aiocg.datasets import default_datasets
from aiocg.errors import InvalidAction, UnknownName

pytestmark = pytest.mark.asyncio(loop_scope="session")

WALK = ("-mem2reg", "simplifycfg", "instcombine", "reassociate", "gvn", "loop-rotate", "licm", "indvars", "adce")
_COMMENTS = re.compile(r"^; ModuleID.*\n|^(\S+:) +; preds = .*$", re.MULTILINE)


def essence(ir: str) -> str:
    """Return the IR without the comments that depend on how it was read."""
    return _COMMENTS.sub(r"\1", ir)


async def test_an_action_is_given_by_index_name_compilergyms_name_or_in_a_list(make) -> None:  # type: ignore[no-untyped-def]
    hashes = set()
    index = (await make("crc32")).action_space.index("mem2reg")
    for action in ("mem2reg", "-mem2reg", index, np.int64(index), [index], ["-mem2reg"], ("mem2reg",)):
        env = await make("crc32")
        _, _, terminated, truncated, info = await env.step(action)
        assert not (terminated or truncated or info["action_had_no_effect"])
        assert env.state.actions == ("mem2reg",)
        hashes.add(env.state_hash)
    assert len(hashes) == 1


async def test_a_batch_is_the_same_as_single_steps_to_the_bit(make, program) -> None:  # type: ignore[no-untyped-def]
    single, batch, mixed = [await make(program, reward_space="IrInstructionCountOz") for _ in range(3)]
    rewards = [(await single.step(action))[1] for action in WALK]
    total = (await batch.step(list(WALK)))[1]
    await mixed.step(list(WALK[:4]))
    futures = [mixed.submit(action) for action in WALK[4:]]
    await asyncio.gather(*futures)
    assert sum(rewards) == pytest.approx(total)
    assert single.state_hash == batch.state_hash == mixed.state_hash
    assert await single.observe("Bitcode") == await batch.observe("Bitcode") == await mixed.observe("Bitcode")


async def test_expand_is_the_same_as_fork_and_step(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program, reward_space="IrInstructionCountOz")
    await env.step(["mem2reg", "simplifycfg"])
    before = env.state_hash
    actions = list(range(0, env.action_space.n, 7))
    candidates = [*actions, [actions[1], actions[2]], []]
    expanded = await env.expand(candidates, observation_spaces=["IrInstructionCount", "Bitcode"])
    for actions_of_one, candidate in zip(candidates, expanded, strict=True):
        child = await env.fork()
        observation, reward, terminated, _, info = await child.step(
            actions_of_one, observation_spaces=["IrInstructionCount", "Bitcode"]
        )
        assert not terminated and candidate.error is None
        assert (candidate.observation, candidate.reward) == (observation, reward)
        assert (candidate.state, candidate.had_no_effect) == (child.state_hash, info["action_had_no_effect"])
        await child.close()
    assert env.state_hash == before


async def check_effects(env: aiocg.Env) -> int:
    """Compare what is said about every action's effect with the IR before and after; return how many had one."""
    before, hash_before = essence(await env.observe("Ir")), env.state_hash
    results = await env.expand(range(env.action_space.n), observation_spaces="Ir", timeout=300)
    for name, result in zip(env.action_space.names, results, strict=True):
        assert result.error is None, (name, result.error)
        same = essence(result.observation) == before
        assert result.had_no_effect == same == (result.state == hash_before), name
    return sum(not result.had_no_effect for result in results)


@pytest.mark.slow
async def test_the_effect_of_every_action_is_told_exactly(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program)
    assert await check_effects(env) > 5
    await env.step(["mem2reg", "simplifycfg", "instcombine"])
    assert await check_effects(env) > 3


async def test_an_action_without_effect_leaves_the_state_to_the_bit(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    await env.step("mem2reg")
    bitcode = await env.observe("Bitcode")
    _, _, _, _, info = await env.step("mem2reg")
    assert info["action_had_no_effect"] is True and await env.observe("Bitcode") == bitcode
    _, _, _, _, info = await env.step(["mem2reg", "simplifycfg"])
    assert info["action_had_no_effect"] is False


async def test_forks_and_snapshots_go_their_own_ways(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("nqueens", reward_space="IrInstructionCount")
    await env.step("mem2reg")
    snapshot = await env.snapshot()
    at_snapshot = env.state_hash, await env.observe("Bitcode"), env.episode_reward
    child = await env.fork()
    await child.step(["gvn", "simplifycfg"])
    await env.step(["simplifycfg", "gvn"])
    assert env.state.actions != child.state.actions
    await env.restore(snapshot)
    assert (env.state_hash, await env.observe("Bitcode"), env.episode_reward) == at_snapshot
    await env.step(["gvn", "simplifycfg"])
    assert env.state_hash == child.state_hash and env.episode_reward == child.episode_reward
    await child.close()


@pytest.mark.sampled
@pytest.mark.few(1)
async def test_a_state_is_replayed_to_the_bit_in_another_runtime(make, program) -> None:  # type: ignore[no-untyped-def]
    env = await make(program, reward_space="IrInstructionCountOz")
    rng = np.random.default_rng(len(program))
    for action in rng.integers(env.action_space.n, size=12):
        await env.step(action)
    state = type(env.state).from_json(env.state.to_json())
    async with aiocg.Runtime(workers=1, datasets=default_datasets()) as other:
        again = await other.replay(state)
        assert again.state_hash == env.state_hash
        assert await again.observe("Bitcode") == await env.observe("Bitcode")
        assert again.episode_reward == pytest.approx(env.episode_reward)


async def test_resetting_goes_back_to_the_same_program(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    start, bitcode = env.state_hash, await env.observe("Bitcode")
    await env.step(["mem2reg", "instcombine"])
    await env.reset()
    assert (env.state_hash, await env.observe("Bitcode"), env.actions) == (start, bitcode, [])
    await env.reset(benchmark="programs-v0/crc32")
    assert env.state_hash != start and str(env.benchmark.uri) == "benchmark://programs-v0/crc32"


async def test_unknown_names_suggest_the_nearest_and_change_nothing(make, runtime) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd")
    before = env.state_hash
    with pytest.raises(UnknownName, match="mem2reg"):
        await env.step("mem2rge")
    with pytest.raises(UnknownName, match="Autophase"):
        await env.observe("AutoPhase")
    with pytest.raises(UnknownName, match="IrInstructionCountOz"):
        await env.step("gvn", reward_spaces="IrInstructionCountOZ")
    with pytest.raises(UnknownName, match="llvm-v0"):
        await runtime.make("llvm-v1")
    with pytest.raises(InvalidAction):
        await env.step(env.action_space.n)
    assert (env.state_hash, env.actions) == (before, [])
    assert (await env.step("mem2reg"))[2] is False


async def test_a_deadline_too_short_for_a_pass_ends_the_episode_only(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("lisp")
    walk = [name for name in env.action_space.names if "<" not in name] * 20
    _, _, terminated, _, info = await env.step(walk, timeout=0.02)
    assert terminated and info["error_type"] == "DeadlineExceeded"
    await env.reset()
    assert (await env.step("mem2reg"))[2] is False
