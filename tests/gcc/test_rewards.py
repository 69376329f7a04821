"""Rewards of GCC's environments: what a step saves, from the first step on."""

from collections.abc import Callable
from typing import Any

import pytest

from aiocg.gcc.environments import gcc_rewards

from .written import program

pytestmark = pytest.mark.asyncio(loop_scope="session")

COSTS = ("asm_size", "obj_size", "obj_image_size", "obj_text_size")


async def test_there_are_rewards_for_each_cost_plain_and_scaled_and_for_the_runtime() -> None:
    names = {f"{cost}{suffix}" for cost in COSTS for suffix in ("", "_Os", "_Oz", "_O2", "_O3")}
    assert {reward.name for reward in gcc_rewards()} == names | {"runtime"}


@pytest.mark.parametrize("cost", COSTS)
async def test_the_first_action_earns_its_due(make: Callable[..., Any], cost: str) -> None:
    env = await make(action_space="command_line", reward_space=cost)
    before = await env.observe(cost)
    _, reward, *_ = await env.step("gcc -Os")
    assert reward == before - await env.observe(cost) != 0
    _, reward, *_ = await env.step("gcc")
    assert reward == await env.observe(f"{cost}_Os") - before and env.episode_reward == 0


@pytest.mark.parametrize("level", ["Os", "Oz", "O2"])
async def test_scaled_rewards_are_1_for_what_the_level_saves(make: Callable[..., Any], level: str) -> None:
    env = await make(action_space="command_line", reward_space=f"asm_size_{level}")
    _, reward, *_ = await env.step(f"gcc -{level}")
    assert reward == pytest.approx(1.0)
    await env.step("gcc -O1 -fno-inline")
    saved = await env.observe("asm_size_O0") - await env.observe("asm_size")
    possible = await env.observe("asm_size_O0") - await env.observe(f"asm_size_{level}")
    assert env.episode_reward == pytest.approx(saved / possible)


async def test_where_a_level_saves_nothing_a_byte_is_the_unit(make: Callable[..., Any]) -> None:
    env = await make(action_space="command_line", reward_space="asm_size_O3")
    before = await env.observe("asm_size_O0")
    assert before < await env.observe("asm_size_O3")  # which makes vectors of the loop
    _, reward, *_ = await env.step("gcc -Os")
    assert reward == before - await env.observe("asm_size_Os")
    env = await make(program("int a = 3;\n"), action_space="command_line", reward_space="obj_text_size_O2")
    assert await env.observe("obj_text_size_O0") == await env.observe("obj_text_size_O2")
    _, reward, *_ = await env.step("gcc -O2")
    assert reward == 0.0


async def test_a_faster_program_earns_the_seconds_saved(make: Callable[..., Any]) -> None:
    env = await make("programs-v0/gcd", action_space="command_line", reward_space="runtime")
    _, reward, terminated, _, info = await env.step("gcc -O2")
    assert not terminated and "error" not in info and abs(reward) < 10
