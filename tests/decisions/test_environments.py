"""The environments of LLVM's decisions, through the runtime."""

import asyncio
import contextlib
import json
import os
import random
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil
import pytest
import pytest_asyncio

import aiocg
from aiocg.agents.sessions import AgentSessions, Refused
from aiocg.transport.elf import image_size

PROGRAM = "programs-v0/json"
KINDS = ("inline", "evict", "priority")


@pytest_asyncio.fixture(scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=1) as runtime:
        yield runtime


async def play(env: aiocg.Env, seed: int, most: int = 1_000_000) -> tuple[list[int], float, bool]:
    """Decide at random; return the actions, the sum of rewards, and whether it is over."""
    dice, actions, total, over = random.Random(seed), [], 0.0, False
    legal = await env.observe("LegalActions")
    while not over and len(actions) < most:
        actions.append(int(dice.choice(legal.nonzero()[0])))
        (features, legal), reward, over, truncated, info = await env.step(
            actions[-1], observation_spaces=["Features", "LegalActions"]
        )
        assert "error" not in info and not truncated
        assert env.observation_spaces["Features"].space.contains(features)
        total += reward
    return actions, total, over


@pytest.mark.few(1)
@pytest.mark.parametrize("decision", KINDS)
async def test_an_episode_ends_with_the_compile_and_its_reward(runtime: aiocg.Runtime, decision: str) -> None:
    async with await runtime.make(f"llvm-{decision}-v0", benchmark=PROGRAM) as env:
        await env.reset()
        own = await env.observe(env.reward_space)
        actions, total, over = await play(env, 1)
        assert over and len(actions) == await env.observe("Decisions")
        assert total == pytest.approx(own - await env.observe(env.reward_space))
        _, _, terminated, _, info = await env.step(actions[-1])
        assert terminated and "nothing left to decide" in info["error_details"]
        again = await runtime.make(f"llvm-{decision}-v0", benchmark=PROGRAM)
        await again.reset()
        await again.step(actions)
        assert again.state_hash and (await again.observe("Object")) == (await env_object(runtime, decision, actions))


async def env_object(runtime: aiocg.Runtime, decision: str, actions: list[int]) -> bytes:
    """The object that actions lead to, one step at a time."""
    async with await runtime.make(f"llvm-{decision}-v0", benchmark=PROGRAM) as env:
        await env.reset()
        for action in actions:
            await env.step(action)
        found: bytes = await env.observe("Object")
        return found


async def test_levels_are_settings(runtime: aiocg.Runtime) -> None:
    sizes = {}
    for level in ("Oz", "O3"):
        async with await runtime.make(f"llvm-inline-v0?level={level}", benchmark=PROGRAM) as env:
            await env.reset()
            sizes[level] = await env.observe("ObjectImageSizeBytes")
    assert sizes["Oz"] < sizes["O3"]
    with pytest.raises(aiocg.AiocgError, match="no level 'fast': there are O1, O2"):
        await runtime.make("llvm-inline-v0?level=fast")


async def test_snapshots_forks_and_both_answers(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("llvm-inline-v0", benchmark=PROGRAM) as env:
        await env.reset()
        usual, env.reward_space = env.reward_space, "ProjectedImageSizeBytes"
        await play(env, 2, 9)
        snapshot = await env.snapshot()
        keep, inline = await env.expand([[0], [1]])
        assert keep.error is None and inline.error is None and keep.state != inline.state
        async with await env.fork() as other:
            for one, candidate, action in ((env, keep, 0), (other, inline, 1)):
                _, reward, _, _, _ = await one.step(action)
                assert one.state_hash == candidate.state and reward == candidate.reward
            other.reward_space = usual  # the other one compiles the rest at each step
            _, _, over = await play(other, 3)
            assert over
        await env.restore(snapshot)
        _, reward, _, _, _ = await env.step(1)
        assert env.state_hash == inline.state and reward == inline.reward


@pytest.mark.slow
async def test_a_killed_worker_or_compile_costs_nothing(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("llvm-inline-v0", benchmark=PROGRAM) as env:
        await env.reset()
        actions, _, _ = await play(env, 4, 20)
        state = env.state_hash
        for whose in (lambda one: [one], lambda one: one.children()):
            for worker in runtime.worker_pids():
                for process in whose(psutil.Process(worker)):
                    os.kill(process.pid, signal.SIGKILL)
            assert await env.observe("Decisions") == 20 and env.state_hash == state
            await asyncio.sleep(0.1)
        rest, _, over = await play(env, 5)
        assert over
        assert await env.observe("Object") == await env_object(runtime, "inline", [*actions, *rest])


@pytest.mark.slow
async def test_nothing_is_left_behind(tmp_path: Path) -> None:
    async with aiocg.Runtime(workers=2) as runtime:
        envs = [await runtime.make("llvm-priority-v0", benchmark=PROGRAM) for _ in range(6)]
        await asyncio.gather(*(env.reset() for env in envs))
        await asyncio.gather(*(play(env, seed, 5) for seed, env in enumerate(envs)))
        workers = [psutil.Process(pid) for pid in runtime.worker_pids()]
        processes = [one for worker in workers for one in (worker, *worker.children())]
        folder = runtime.folder
    assert len(processes) > len(workers) + 5
    for _ in range(1000):
        left = [one for one in processes if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        if not left:
            break
        await asyncio.sleep(0.01)
    assert not left and folder is not None and not folder.exists()


async def test_agents_are_told_that_a_compile_has_ended(runtime: aiocg.Runtime) -> None:
    pytest.importorskip("fastapi")
    from aiocg.agents.openenv import OpenEnvSession

    session = OpenEnvSession(AgentSessions(runtime, "llvm-inline-v0"), "programs-v0/sha256", steps=1000)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(session.close)
        answer = await session.reset({})
        for _ in range(1000):
            assert answer["observation"]["finished"] == answer["done"]
            if answer["done"]:
                break
            answer = await session.step({"actions": ["default"]})
        with pytest.raises(Refused, match="the episode has ended: reset begins another"):
            await session.step({"actions": ["default"]})
        assert not (await session.reset({}))["done"]


@pytest.mark.slow
def test_searches_take_decisions_with_each_reward(command: Callable[..., Any]) -> None:
    for reward in ("ObjectImageSizeBytes", "ProjectedImageSizeBytes", "IrInstructionCount", "SpillCost"):
        found = command(
            *("search", "random", "programs-v0/gcd", "--env", "llvm-inline-v0"),
            *("--reward", reward, "--evaluations", "3", "--json"),
        )
        assert found.status == 0, found.err
        assert found.json["evaluations"] == 3


@pytest.mark.slow
def test_a_file_of_a_state_is_what_llvm_makes_of_the_rest(
    command: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    actions = ["keep"] * 20
    state = {"environment": "llvm-inline-v0?level=O2", "benchmark": f"benchmark://{PROGRAM}", "actions": actions}
    Path("state.json").write_text(json.dumps(state | {"reward_space": "ProjectedImageSizeBytes"}))
    assert command("replay", "state.json", "-o", "made.o", "--json").json["state"]["reward"] != 0
    made = Path("made.o").read_bytes()

    async def by_hand() -> tuple[bytes, int]:
        async with aiocg.Runtime(workers=1) as runtime:
            env = await runtime.make("llvm-inline-v0?level=O2", benchmark=PROGRAM, reward_space=None)
            await env.reset()
            await env.step(actions)
            size = await env.observe("ProjectedImageSizeBytes")
            while not (await env.step("default"))[2]:
                pass
            return await env.observe("Object"), size

    content, size = asyncio.run(by_hand())
    assert made == content and image_size(made).stored == size


@pytest.mark.slow
def test_gymnasium_and_vectors_reset_when_a_compile_has_ended() -> None:
    with gymnasium.make("llvm-inline-v0", benchmark="programs-v0/gcd") as env:
        env.reset()
        for _ in range(1000):
            _, _, terminated, truncated, _ = env.step(2)
            if terminated:
                break
        assert terminated and not truncated
    envs = gymnasium.make_vec("llvm-inline-v0", num_envs=2, benchmark="programs-v0/gcd")
    with contextlib.closing(envs):
        envs.reset()
        ends = np.zeros(2, int)
        for _ in range(100):
            ends += envs.step(np.full(2, 2))[2]
        assert (ends >= 2).all()
