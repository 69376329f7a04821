"""Forks, snapshots and restores that wait for nothing: what becomes of them when something goes wrong behind."""

import asyncio
import os
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

import pytest

import aiocg
from aiocg.errors import EnvClosed, Interrupted, ResetNeeded, RuntimeClosed
from aiocg.fleet.restart_policy import Policy
from aiocg.fleet.session import MAX_FORKS_AHEAD, MAX_PENDING
from aiocg.testing import scripted_benchmark

T = TypeVar("T")

PATIENT = Policy(first_delay=0.01, max_delay=0.1)


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that has nothing to wait for, without a turn of the loop."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    pytest.fail("it waited for something")


async def at_five(runtime: aiocg.Runtime) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()
    return env


async def test_fork_snapshot_and_restore_wait_for_nothing(env: aiocg.Env) -> None:
    await env.step("double")
    child = at_once(env.fork())
    snapshot = at_once(env.snapshot())
    grandchild = at_once(child.fork())
    assert (child.state_hash, child.action_texts, grandchild.state_hash) == (10, ("double",), 10)
    steps = [child.submit("increment"), grandchild.submit("square"), env.submit("double")]
    assert [(await step)[0] for step in steps] == [11, 100, 20]
    at_once(env.restore(snapshot))
    assert (env.state_hash, env.action_texts) == (10, ("double",))
    assert (await env.step("increment"))[0] == 11


async def test_a_fork_waits_for_what_was_submitted_before_it(env: aiocg.Env) -> None:
    nap = env.submit("nap")
    fork = env.fork()
    waits_for = fork.send(None)
    assert waits_for is not None and not nap.done()
    fork.close()
    child = await env.fork()
    assert nap.done() and child.state_hash == 6


async def test_many_forks_in_a_row_do_not_run_into_a_limit(fresh: aiocg.Runtime) -> None:
    env = await at_five(fresh)
    count = MAX_PENDING + MAX_FORKS_AHEAD
    children = [await env.fork() for _ in range(count)]
    assert (await children[0].step("double"))[0] == (await children[-1].step("double"))[0] == 10
    statistics = await fresh.statistics()
    assert sum(one["sessions"] for one in statistics) == count + 1


async def test_rewards_and_settings_go_along(env: aiocg.Env) -> None:
    env.reward_space = "value"
    await env.send_parameter("echo", "hello")
    await env.step("double")
    child = at_once(env.fork())
    assert (child.episode_reward, dict(child.parameters)) == (env.episode_reward, {"echo": "hello"})
    await env.step("double")
    assert (await child.step("increment"))[1] == -1
    assert await child.observe("echo") == "hello"


async def test_a_child_outlives_the_crash_of_its_parent_in_the_same_turn(env: aiocg.Env) -> None:
    await env.step("double")
    child, snapshot = at_once(env.fork()), at_once(env.snapshot())
    crash, step = env.submit("abort"), child.submit("increment")
    assert (await crash)[4]["error_type"] == "WorkerCrashed"
    assert (await step)[0] == 11
    await env.restore(snapshot)
    assert (await env.step("increment"))[0] == 11


async def test_a_child_is_rebuilt_when_its_process_dies_before_it_has_forked(env: aiocg.Env) -> None:
    await env.step("double")
    (pid,) = {await env.observe("pid")}
    os.kill(pid, signal.SIGSTOP)
    child = at_once(env.fork())
    step = child.submit("increment")
    await asyncio.sleep(0.01)
    os.kill(pid, signal.SIGKILL)
    assert (await step)[0] == 11
    assert (await env.step("double"))[0] == 20


async def test_a_child_of_what_cannot_be_rebuilt_says_so_when_it_is_used() -> None:
    async with aiocg.Runtime(workers=1, policy=PATIENT) as runtime:
        env = await at_five(runtime)
        await env.step("forget")
        (pid,) = runtime.worker_pids()
        os.kill(pid, signal.SIGKILL)
        while runtime.worker_pids() in ([pid], []):  # noqa: ASYNC110 - the death has no event
            await asyncio.sleep(0.01)
        child = at_once(env.fork())
        _, _, terminated, _, info = await child.step("increment")
        assert terminated and info["error_type"] == "SessionLost"
        with pytest.raises(ResetNeeded):
            await child.step("increment")
        assert (await child.reset())[0] == 5
        assert (await child.step("increment"))[0] == 6


async def test_an_interrupted_runtime_loses_no_child(env: aiocg.Env) -> None:
    await env.step("double")
    hanging = await env.sibling()
    await hanging.reset()
    hang = hanging.submit("hang")
    child = at_once(env.fork())
    env._runtime.interrupt()
    assert (await child.step("increment"))[0] == 11
    with pytest.raises(Interrupted):
        await hang


async def test_an_ended_environment_cannot_be_forked_quietly(fresh: aiocg.Runtime) -> None:
    env = await at_five(fresh)
    closed = await env.fork()
    await closed.close()
    with pytest.raises(EnvClosed):
        await closed.fork()
    await fresh.close()
    with pytest.raises(RuntimeClosed):
        await env.fork()


async def test_a_closed_child_leaves_nothing_on_the_worker(fresh: aiocg.Runtime) -> None:
    env = await at_five(fresh)
    for _ in range(10):
        await at_once(env.fork()).close()
        at_once(env.snapshot()).close()
    await env.observe("value")
    statistics = await fresh.statistics()
    assert sum(one["sessions"] for one in statistics) == 1
