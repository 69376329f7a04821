"""Shrinking command lines of GCC."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import aiocg
from aiocg.validation.minimize import MinimizationError, minimize_line

pytestmark = [
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.needs("gcc"),
]

LINE = "gcc -Os -fno-asynchronous-unwind-tables -fno-gcse -fno-ipa-cp -fno-tree-pre --param=max-inline-insns-auto=7"


@pytest_asyncio.fixture(loop_scope="session")
async def env(runtime: aiocg.Runtime) -> AsyncIterator[aiocg.Env]:
    spaces = {"reward_space": "obj_text_size", "action_space": "choices"}
    async with await runtime.make("gcc-v0", benchmark="programs-v0/gcd", **spaces) as env:
        yield env


async def test_options_that_do_nothing_for_the_reward_are_dropped(env: aiocg.Env) -> None:
    results = [await minimize_line(env, LINE, lanes=lanes) for lanes in (1, 2)]
    assert results[0].actions == results[1].actions == ("gcc -Os -fno-asynchronous-unwind-tables",)
    assert results[0].evaluations > 3


async def test_what_is_left_is_worth_as_much_and_less_without_any_option(env: aiocg.Env) -> None:
    line = (await minimize_line(env, LINE)).actions[0]
    words = line.split()
    without = [" ".join((*words[:index], *words[index + 1 :])) for index in range(1, len(words))]
    await env.reset()
    whole, short, *shorter = await env.expand([[LINE], [line], *([one] for one in without)])
    assert short.reward >= whole.reward
    assert all(one.reward < short.reward for one in shorter)


async def test_the_last_action_is_minimized_under_any_hypothesis(env: aiocg.Env) -> None:
    async def is_small_with_a_frame_pointer(env: aiocg.Env) -> bool:
        asm, size, unoptimised = await env.observe("asm", "obj_text_size", "obj_text_size_O0")
        return "movq\t%rsp, %rbp" in asm and size < unoptimised

    await env.reset()
    await env.step("gcc -O1 -fno-omit-frame-pointer -fno-gcse -fno-ipa-cp")
    result = await minimize_line(env, None, is_small_with_a_frame_pointer)
    assert result.actions == ("gcc -O1 -fno-omit-frame-pointer",)


async def test_a_line_that_does_not_compile_or_is_not_there_is_an_error(env: aiocg.Env) -> None:
    async def never(_: aiocg.Env) -> bool:
        return False

    with pytest.raises(MinimizationError, match="all 1 actions"):
        await minimize_line(env, "gcc -Os", never)
    await env.reset()
    with pytest.raises(ValueError, match="no command line"):
        await minimize_line(env)
    env.reward_space = None
    with pytest.raises(ValueError, match="needs a reward space"):
        await minimize_line(env, LINE)
