"""Giving up what is being executed: every environment is then where its last finished request left it."""

import asyncio
import random

import pytest

import aiocg
from aiocg.errors import Interrupted
from aiocg.testing import scripted_benchmark

pytestmark = pytest.mark.asyncio(loop_scope="module")  # one runtime for all of them


async def at(runtime: aiocg.Runtime, number: int) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(number), reward_space="value")
    await env.reset()
    return env


async def executing(env: aiocg.Env, action: str) -> "asyncio.Future[object]":
    """Submit an action, and wait until the worker is at it."""
    future = env.submit(action)
    await asyncio.sleep(0.1)
    assert not future.done()
    return future


async def test_what_hangs_fails_and_its_environment_goes_on_from_before(runtime: aiocg.Runtime) -> None:
    env = await at(runtime, 5)
    await env.step("double")
    future = await executing(env, "hang")
    runtime.interrupt()
    with pytest.raises(Interrupted):
        await future
    assert env.in_episode
    assert env.action_texts == ("double",)
    assert (await env.step("increment"))[:3] == (11, -1.0, False)
    assert env.episode_reward == -6.0


async def test_what_was_cancelled_before_is_not_executed_again(runtime: aiocg.Runtime) -> None:
    env = await at(runtime, 5)
    future = await executing(env, "hang")
    future.cancel()
    runtime.interrupt()
    async with asyncio.timeout(20):
        assert await env.observe("value") == 5


async def test_other_environments_of_the_worker_are_where_they_were(runtime: aiocg.Runtime) -> None:
    envs = [await at(runtime, number) for number in range(6)]
    await asyncio.gather(*(env.step("double") for env in envs))
    snapshot = await envs[0].snapshot()
    queued = [await executing(envs[0], "hang"), *(env.submit("increment") for env in envs[2::2])]
    runtime.interrupt()
    outcomes = await asyncio.gather(*queued, return_exceptions=True)
    assert all(isinstance(outcome, Interrupted) for outcome in outcomes)
    assert [await env.observe("value") for env in envs] == [0, 2, 4, 6, 8, 10]
    await envs[1].restore(snapshot)
    assert await envs[1].observe("value") == 0


async def test_idle_workers_are_not_replaced(runtime: aiocg.Runtime) -> None:
    env = await at(runtime, 5)
    await at(runtime, 6)
    before = runtime.worker_pids()
    runtime.interrupt()
    assert await env.observe("value") == 5
    assert runtime.worker_pids() == before


async def test_an_environment_can_be_reset_after_it(runtime: aiocg.Runtime) -> None:
    env = await at(runtime, 5)
    future = await executing(env, "hang")
    runtime.interrupt()
    observation, _ = await env.reset(benchmark=scripted_benchmark(8))
    assert observation == 8
    assert isinstance(future.exception(), Interrupted)


@pytest.mark.slow
async def test_what_was_acknowledged_is_never_lost_and_nothing_hangs(runtime: aiocg.Runtime) -> None:
    rng = random.Random(1)
    envs = await asyncio.gather(*(at(runtime, number) for number in range(200)))
    expected = list(range(200))
    stopped = asyncio.Event()
    interrupted = 0

    async def use(index: int) -> None:
        nonlocal interrupted
        env = envs[index]
        while not stopped.is_set():
            double = expected[index] < 1000 and rng.random() < 0.3
            try:
                if rng.random() < 0.2:
                    async with await env.fork() as child:
                        assert await child.observe("value") == expected[index]
                else:
                    await env.step("double" if double else "increment")
                    expected[index] = expected[index] * 2 if double else expected[index] + 1
            except Interrupted:
                interrupted += 1

    async with asyncio.timeout(80):
        users = [asyncio.create_task(use(index)) for index in range(200)]
        for _ in range(12):
            await asyncio.sleep(rng.random() * 0.3)
            runtime.interrupt()
        stopped.set()
        await asyncio.gather(*users)
        assert interrupted > 200
        assert await asyncio.gather(*(env.observe("value") for env in envs)) == expected
        await asyncio.gather(*(env.close() for env in envs))
