"""What is cancelled stops the compiler's work, and what that means for everything else."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import pytest_asyncio

import aiocg
from aiocg.errors import DeadlineExceeded, Interrupted, Unsettled
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark


@pytest_asyncio.fixture(scope="module")
async def one() -> AsyncIterator[aiocg.Runtime]:
    """A runtime with one worker, which whatever is cancelled may cost."""
    async with aiocg.Runtime(workers=1) as runtime:
        await (await at(runtime, 5)).close()  # so that its files are open before any test
        yield runtime


async def at(runtime: aiocg.Runtime, number: int) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(number), reward_space="value")
    await env.reset()
    return env


def deaths(runtime: aiocg.Runtime) -> int:
    return runtime._supervisors[("scripted",)]._slots[0].deaths


def starts(runtime: aiocg.Runtime) -> int:
    return runtime._supervisors[("scripted",)].workers[0].tally.starts


@pytest.fixture
def busy(executing, eventually):  # type: ignore[no-untyped-def]
    """Wait until a worker is at something."""
    return lambda runtime: eventually(lambda: executing(runtime))


async def by_task(doing, begun) -> None:  # type: ignore[no-untyped-def]
    task = asyncio.ensure_future(doing)
    await begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def by_timeout(doing, begun) -> None:  # type: ignore[no-untyped-def]
    async def expire(limit: asyncio.Timeout) -> None:
        await begun
        limit.reschedule(0.0)

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(None) as limit:
            await asyncio.gather(doing, expire(limit))


async def by_scope(doing, begun) -> None:  # type: ignore[no-untyped-def]
    async def expire(scope: anyio.CancelScope) -> None:
        await begun
        scope.deadline = anyio.current_time()

    with anyio.CancelScope() as scope:
        await asyncio.gather(doing, expire(scope))
    assert scope.cancelled_caught


@pytest.mark.few(2)
@pytest.mark.parametrize("cancel", [by_task, by_timeout, by_scope])
@pytest.mark.parametrize("what", ["step", "expand"])
async def test_what_was_cancelled_is_ended_and_not_done_again(  # type: ignore[no-untyped-def]
    one: aiocg.Runtime, what, cancel, is_alive, eventually, busy
) -> None:
    env, other = await at(one, 5), await at(one, 7)
    await env.step("double")
    (pid,), before = one.worker_pids(), deaths(one)
    hanging = env.step("hang") if what == "step" else env.expand(["increment", "hang"])
    await cancel(hanging, busy(one))
    queued = other.submit("double")
    await eventually(lambda: not is_alive(pid))  # nothing else would end it within an hour
    assert (await queued)[0] == 14 and (await other.step("increment"))[0] == 15
    assert env.in_episode and env.action_texts == ("double",)
    assert (await env.step("increment"))[:3] == (11, -1.0, False)
    assert len(one.quarantine) == 0 and deaths(one) == before


async def test_a_cancelled_reset_leaves_the_episode_that_there_was(one: aiocg.Runtime, is_alive, busy) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    await env.step("double")
    hanging = (await at(one, 1)).submit("hang")  # so that the reset is not yet begun
    reset = asyncio.ensure_future(env.reset(benchmark=scripted_benchmark(9)))
    await busy(one)
    reset.cancel()
    hanging.cancel()
    assert await env.observe("value") == 10 and env.in_episode
    assert str(env.benchmark.uri).endswith("/5")
    assert (await env.reset(benchmark=scripted_benchmark(9)))[0] == 9


async def test_those_behind_a_cancelled_step_fail_and_nothing_else_does(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env, other = await at(one, 5), await at(one, 7)
    done = [env.submit("nap") for _ in range(3)]
    hanging = env.submit("hang")
    behind: list[asyncio.Future[Any]] = [env.submit("double"), env.submit([]), asyncio.ensure_future(env.fork())]
    others = [other.submit("double") for _ in range(3)]
    await asyncio.wait(done)
    await busy(one)
    hanging.cancel()
    for future in behind:
        with pytest.raises(Interrupted, match="cancelled"):
            await future
    assert [(await future)[0] for future in others] == [14, 28, 56]
    assert await env.observe("value") == 8 and len(env.actions) == 3
    assert (await (await env.fork()).step("double"))[0] == 16


async def test_those_behind_a_cancelled_observation_or_expansion_go_on(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    expanding = asyncio.ensure_future(env.expand(["hang"]))
    await busy(one)
    behind = env.submit("double")
    expanding.cancel()
    assert (await behind)[0] == 10


async def test_a_reset_behind_a_cancelled_step_is_carried_out(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    hanging = env.submit("hang")
    behind = env.submit("double")
    reset = env.begin(env.benchmark)
    await busy(one)
    hanging.cancel()
    with pytest.raises(Interrupted):
        await behind
    await reset
    assert (await env.step("increment"))[0] == 6


async def test_one_that_is_made_after_the_cancelling_goes_on_from_before(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    hanging, behind = env.submit("hang"), env.submit("double")
    await busy(one)
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


async def test_many_that_are_cancelled_at_once_cost_one_process(one: aiocg.Runtime, is_alive, busy) -> None:  # type: ignore[no-untyped-def]
    envs = [await at(one, number) for number in range(30)]
    (pid,), before = one.worker_pids(), starts(one)
    futures = [env.submit("hang") for env in envs]
    await busy(one)
    for future in futures:
        future.cancel()
    assert await asyncio.gather(*(env.observe("value") for env in envs)) == list(range(30))
    assert not is_alive(pid)
    assert starts(one) == before + 1


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


async def test_a_rebuild_for_somebody_who_has_left_is_ended(one: aiocg.Runtime, is_alive, busy) -> None:  # type: ignore[no-untyped-def]
    env, other = await at(one, 5), await at(one, 6)
    await env.step(["nap"] * 60)
    before = starts(one)
    os.kill(one.worker_pids()[0], signal.SIGKILL)
    step = env.submit("double")
    await busy(one)
    step.cancel()
    assert (await other.step("double"))[0] == 12
    assert starts(one) == before + 2  # after the kill, and after the replay's end
    assert await env.observe("value") == 65


async def test_with_patience_nothing_is_ended(is_alive) -> None:  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1, policy=Policy(cancel_grace=10.0)) as runtime:
        env = await at(runtime, 5)
        (pid,) = runtime.worker_pids()
        env.submit(["nap"] * 30).cancel()
        assert await env.observe("value") == 35 and is_alive(pid)


async def test_interrupting_a_runtime_is_no_death_of_its_workers(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env = await at(one, 5)
    before = deaths(one)
    future = env.submit("hang")
    await busy(one)
    one.interrupt()
    with pytest.raises(Interrupted):
        await future
    assert await env.observe("value") == 5
    assert deaths(one) == before


async def test_rewards_after_a_cancelled_step_are_those_of_the_state_that_there_is(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env = await one.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()
    hanging = env.submit("hang", reward_spaces=["value"])
    await busy(one)
    hanging.cancel()
    assert (await env.step("double", reward_spaces=["value"]))[1] == [-5.0]


async def test_the_state_after_a_cancelled_step_is_told_once_it_is_settled(one: aiocg.Runtime, busy) -> None:  # type: ignore[no-untyped-def]
    env, other = await at(one, 5), await at(one, 7)
    await env.step("double")
    hanging = other.submit("hang")
    await busy(one)
    stepping = asyncio.ensure_future(env.step("increment"))
    await asyncio.sleep(0)
    stepping.cancel()
    await asyncio.wait([stepping])
    with pytest.raises(Unsettled, match="settled"):
        env.state  # noqa: B018
    hanging.cancel()
    await env.settled()
    texts = env.state.actions
    assert texts in (("double",), ("double", "increment"))
    assert await env.observe("value") == 10 + len(texts) - 1 and env.state.actions == texts
    await env.settled()
    fresh = await one.make("scripted-v0")
    await fresh.settled()


async def test_a_program_that_hangs_while_it_is_loaded_overruns_the_timeout_of_its_environment(
    one: aiocg.Runtime,
) -> None:
    env, other = await at(one, 5), await at(one, 7)
    env.timeout = 0.3
    async with asyncio.timeout(30):
        with pytest.raises(DeadlineExceeded, match="the loading of benchmark://scripted-v0/hang") as caught:
            await env.reset(benchmark=scripted_benchmark("hang"))
        assert caught.value.timeout == pytest.approx(0.3)
        assert (await other.step("double"))[0] == 14
        env.timeout = 60.0
        with pytest.raises(DeadlineExceeded) as caught:
            await env.reset(benchmark=scripted_benchmark("hang"), timeout=0.4)
        assert caught.value.timeout == pytest.approx(0.4)
        assert (await env.reset())[0] == 5


async def test_a_limit_of_time_counts_the_queue_and_what_waits_there_is_not_done(  # type: ignore[no-untyped-def]
    one: aiocg.Runtime, busy
) -> None:
    working, waiting = await at(one, 5), [await at(one, number) for number in range(20)]
    before = starts(one)
    long = working.submit(["nap"] * 60)
    await busy(one)

    async def limited(env: aiocg.Env) -> None:
        async with asyncio.timeout(0.2):
            await env.step("hang")

    results = await asyncio.gather(*(limited(env) for env in waiting), return_exceptions=True)
    assert [type(result) for result in results] == [TimeoutError] * 20
    assert (await long)[0] == 65
    assert await asyncio.gather(*(env.observe("value") for env in waiting)) == list(range(20))
    steps = await asyncio.gather(*(env.step("double") for env in waiting))
    assert [int(step[0]) for step in steps] == [2 * number for number in range(20)]
    assert [len(env.actions) for env in waiting] == [1] * 20
    assert starts(one) == before + 1  # one was begun, and ended with its process
