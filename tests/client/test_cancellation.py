"""What is cancelled stops the compiler's work, and what that means for everything else."""

import asyncio
import os
import signal
import time
from typing import Any

import anyio
import pytest

import aiocg
from aiocg.errors import Interrupted
from aiocg.supervision import Policy
from aiocg.testing import scripted_benchmark

SLACK = 0.4  # seconds that a busy machine may add to what is bounded


@pytest.fixture
async def one(request: pytest.FixtureRequest):  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1) as runtime:
        yield runtime


async def at(runtime: aiocg.Runtime, number: int) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(number), reward_space="value")
    await env.reset()
    return env


async def executing(runtime: aiocg.Runtime) -> None:
    """Wait until the worker is at something."""
    (supervisor,) = runtime._supervisors.values()
    async with asyncio.timeout(20):
        while not any(look is not None and look.execution for _, _, look in supervisor.looks()):  # noqa: ASYNC110, a process sets no event
            await asyncio.sleep(0.005)


async def gone(pid: int, is_alive) -> float:  # type: ignore[no-untyped-def]
    """Return after how many seconds a process has ended."""
    started = time.monotonic()
    async with asyncio.timeout(20):
        while is_alive(pid):  # noqa: ASYNC110, a process sets no event
            await asyncio.sleep(0.002)
    return time.monotonic() - started


async def by_task(doing) -> None:  # type: ignore[no-untyped-def]
    task = asyncio.ensure_future(doing)
    await asyncio.sleep(0.1)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_timeout(doing) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            await doing


async def by_scope(doing) -> None:  # type: ignore[no-untyped-def]
    with anyio.move_on_after(0.1) as scope:
        await doing
    assert scope.cancelled_caught


@pytest.mark.parametrize("cancel", [by_task, by_timeout, by_scope])
@pytest.mark.parametrize("what", ["step", "expand"])
async def test_what_was_cancelled_is_ended_and_not_done_again(one: aiocg.Runtime, what, cancel, is_alive) -> None:  # type: ignore[no-untyped-def]
    env, other = await at(one, 5), await at(one, 7)
    await env.step("double")
    (pid,) = one.worker_pids()
    queued = other.submit("double")
    await cancel(env.step("hang") if what == "step" else env.expand(["increment", "hang"]))
    assert await gone(pid, is_alive) < 0.1 + SLACK
    assert (await queued)[0] == 14 and (await other.step("increment"))[0] == 15
    assert env.in_episode and env.action_texts == ("double",)
    assert (await env.step("increment"))[:3] == (11, -1.0, False)
    assert len(one.quarantine) == 0 and one._supervisors[("scripted",)]._slots[0].deaths == 0


async def test_a_cancelled_reset_leaves_the_episode_that_there_was(one: aiocg.Runtime, is_alive) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    await env.step("double")
    hanging = (await at(one, 1)).submit("hang")  # so that the reset is not yet begun
    reset = asyncio.ensure_future(env.reset(benchmark=scripted_benchmark(9)))
    await executing(one)
    reset.cancel()
    hanging.cancel()
    assert await env.observe("value") == 10 and env.in_episode
    assert str(env.benchmark.uri).endswith("/5")
    assert (await env.reset(benchmark=scripted_benchmark(9)))[0] == 9


async def test_those_behind_a_cancelled_step_fail_and_nothing_else_does(one: aiocg.Runtime) -> None:
    env, other = await at(one, 5), await at(one, 7)
    done = [env.submit("nap") for _ in range(3)]
    hanging = env.submit("hang")
    behind: list[asyncio.Future[Any]] = [env.submit("double"), env.submit([]), asyncio.ensure_future(env.fork())]
    others = [other.submit("double") for _ in range(3)]
    await asyncio.wait(done)
    await executing(one)
    hanging.cancel()
    for future in behind:
        with pytest.raises(Interrupted, match="cancelled"):
            await future
    assert [(await future)[0] for future in others] == [14, 28, 56]
    assert await env.observe("value") == 8 and len(env.actions) == 3
    assert (await (await env.fork()).step("double"))[0] == 16


async def test_those_behind_a_cancelled_observation_or_expansion_go_on(one: aiocg.Runtime) -> None:
    env = await at(one, 5)
    expanding = asyncio.ensure_future(env.expand(["hang"]))
    await executing(one)
    behind = env.submit("double")
    expanding.cancel()
    assert (await behind)[0] == 10


async def test_a_reset_behind_a_cancelled_step_is_carried_out(one: aiocg.Runtime) -> None:
    env = await at(one, 5)
    hanging = env.submit("hang")
    behind = env.submit("double")
    reset = env.begin(env.benchmark)
    await executing(one)
    hanging.cancel()
    with pytest.raises(Interrupted):
        await behind
    await reset
    assert (await env.step("increment"))[0] == 6


async def test_one_that_is_made_after_the_cancelling_goes_on_from_before(one: aiocg.Runtime) -> None:
    env = await at(one, 5)
    hanging, behind = env.submit("hang"), env.submit("double")
    await executing(one)
    hanging.cancel()
    behind.cancel()
    assert [(await future)[0] for future in [env.submit("increment") for _ in range(3)]] == [6, 7, 8]


async def test_what_is_fast_is_done_and_costs_no_process(one: aiocg.Runtime) -> None:
    env = await at(one, 5)
    before = one.worker_pids()
    for _ in range(20):
        env.submit("nap").cancel()
    assert await env.observe("value") == 25 and len(env.actions) == 20
    assert one.worker_pids() == before


async def test_many_that_are_cancelled_at_once_cost_one_process(one: aiocg.Runtime, is_alive) -> None:  # type: ignore[no-untyped-def]
    envs = [await at(one, number) for number in range(30)]
    (pid,) = one.worker_pids()
    futures = [env.submit("hang") for env in envs]
    await executing(one)
    for future in futures:
        future.cancel()
    assert await asyncio.gather(*(env.observe("value") for env in envs)) == list(range(30))
    assert not is_alive(pid)
    assert one._supervisors[("scripted",)].workers[0].tally.starts == 2


async def test_a_cancelled_request_on_which_another_depends_is_carried_out_after_a_kill() -> None:
    patient = Policy(cancel_grace=60)  # however slow the machine, it is the kill from outside that ends the worker
    async with aiocg.Runtime(workers=1, policy=patient) as one:
        env, other = await at(one, 5), await at(one, 6)
        await other.step("increment")
        futures = [env.submit("nap") for _ in range(30)]
        last = env.submit("double")
        for future in futures:
            future.cancel()
        alone = other.submit("nap")
        alone.cancel()
        os.kill(one.worker_pids()[0], signal.SIGKILL)
        assert (await last)[0] == 70
        assert await other.observe("value") in (7, 8)
        assert other.state_hash == await other.observe("value")


async def test_a_rebuild_for_somebody_who_has_left_is_ended(one: aiocg.Runtime, is_alive) -> None:  # type: ignore[no-untyped-def]
    env, other = await at(one, 5), await at(one, 6)
    await env.step(["nap"] * 60)
    os.kill(one.worker_pids()[0], signal.SIGKILL)
    step = env.submit("double")
    await executing(one)
    step.cancel()
    started = time.monotonic()
    assert (await other.step("double"))[0] == 12
    assert time.monotonic() - started < 0.5 + SLACK  # the replay takes longer
    assert await env.observe("value") == 65


async def test_with_patience_nothing_is_ended(is_alive) -> None:  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1, policy=Policy(cancel_grace=10.0)) as runtime:
        env = await at(runtime, 5)
        (pid,) = runtime.worker_pids()
        env.submit(["nap"] * 30).cancel()
        assert await env.observe("value") == 35 and is_alive(pid)


async def test_interrupting_a_runtime_is_no_death_of_its_workers(one: aiocg.Runtime) -> None:
    env = await at(one, 5)
    future = env.submit("hang")
    await executing(one)
    one.interrupt()
    with pytest.raises(Interrupted):
        await future
    assert await env.observe("value") == 5
    assert one._supervisors[("scripted",)]._slots[0].deaths == 0


async def test_rewards_after_a_cancelled_step_are_those_of_the_state_that_there_is(one: aiocg.Runtime) -> None:
    env = await one.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()
    hanging = env.submit("hang", reward_spaces=["value"])
    await executing(one)
    hanging.cancel()
    assert (await env.step("double", reward_spaces=["value"]))[1] == [-5.0]
