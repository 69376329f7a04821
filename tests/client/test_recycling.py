"""Workers that have grown are replaced, and nobody notices."""

import asyncio
import os
import signal

import pytest

import aiocg
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark

MIB = 1 << 20


async def at(runtime: aiocg.Runtime, number: int) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(number))
    await env.reset()
    return env


@pytest.mark.slow
async def test_a_worker_under_load_is_replaced_without_an_error_and_without_a_wrong_state() -> None:
    policy = Policy(memory_threshold=150 * MIB, recycle_interval=0.5)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime:
        envs = [await at(runtime, number) for number in range(9)]
        pids, stop = set(), asyncio.Event()
        counts = [0] * len(envs)

        async def walk(index: int) -> None:
            env = envs[index]
            while not stop.is_set():
                futures = [env.submit("nap") for _ in range(3)]
                for future in futures:
                    observation, _, terminated, _, info = await future
                    assert not terminated, info
                    counts[index] += 1
                    assert observation == index + counts[index]
                if index == 1:
                    async with await env.fork() as child:
                        assert (await child.step("double"))[0] == 2 * (index + counts[index])
                pids.add(await env.observe("pid"))

        walks = [asyncio.create_task(walk(index)) for index in range(1, len(envs))]
        for _ in range(2):  # twice 192 MiB, kept for good
            await envs[0].reset()
            for _ in range(3):
                await envs[0].step("hoard")
            seen = len(pids)
            async with asyncio.timeout(20):
                while len(pids) == seen:  # noqa: ASYNC110, a process sets no event
                    await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*walks)
        assert await envs[0].observe("value") == 3
        assert [await env.observe("value") for env in envs[1:]] == [i + counts[i] for i in range(1, len(envs))]


async def test_the_old_worker_serves_until_its_successor_is_up(stop_workers, eventually) -> None:  # type: ignore[no-untyped-def]
    policy = Policy(memory_threshold=100 * MIB)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime:
        env, other = await at(runtime, 5), await at(runtime, 6)
        old = await other.observe("pid")
        await other.step("increment")
        stop_workers()  # the successor is not up before it is told to go on
        await env.step(["hoard", "hoard"])
        supervisor = runtime._supervisors[("scripted",)]
        await eventually(lambda: bool(supervisor._successors))
        assert await other.observe("pid") == old
        (successor,) = [process.pid for process in supervisor._successors.values()]
        os.kill(successor, signal.SIGCONT)
        async with asyncio.timeout(20):
            while (pid := await other.observe("pid")) == old:  # noqa: ASYNC110, a process sets no event
                await asyncio.sleep(0.01)
        assert pid == successor
        assert await other.observe("value") == 7 and await env.observe("value") == 7


@pytest.mark.slow
async def test_what_is_as_large_once_it_is_rebuilt_is_not_replaced_all_the_time() -> None:
    policy = Policy(memory_threshold=100 * MIB)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime:
        env = await at(runtime, 5)
        old = await env.observe("pid")
        await env.step(["hoard", "hoard"])  # they are replayed on the successor, which is as large then
        async with asyncio.timeout(20):
            while (new := await env.observe("pid")) == old:  # noqa: ASYNC110, a process sets no event
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.5)
        assert await env.observe("pid") == new


async def test_a_worker_that_dies_while_its_successor_starts_is_replaced_by_it(eventually, stop_workers) -> None:  # type: ignore[no-untyped-def]
    policy = Policy(memory_threshold=100 * MIB, quarantine_deaths=0)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime:
        env, _ = await at(runtime, 5), await at(runtime, 6)
        supervisor = runtime._supervisors[("scripted",)]
        stop_workers()
        await env.step(["hoard", "hoard"])
        await eventually(lambda: bool(supervisor._successors))
        (successor,) = supervisor._successors.values()
        (old,) = set(runtime.worker_pids()) - {successor.pid}
        os.kill(old, signal.SIGKILL)
        os.kill(successor.pid, signal.SIGCONT)
        assert await env.observe("pid") == successor.pid and await env.observe("value") == 7


async def test_closing_while_a_successor_starts_leaves_no_process(eventually, is_alive) -> None:  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1, policy=Policy(memory_threshold=100 * MIB)) as runtime:
        env = await at(runtime, 5)
        await env.step(["hoard", "hoard"])
        supervisor = runtime._supervisors[("scripted",)]
        await eventually(lambda: bool(supervisor._successors))
        (successor,) = supervisor._successors.values()
    assert not is_alive(successor.pid)


@pytest.mark.few(1)
@pytest.mark.parametrize("busy", [False, True])
async def test_one_past_twice_the_threshold_is_replaced_at_once(busy: bool, eventually) -> None:  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1, policy=Policy(memory_threshold=60 * MIB, recycle_interval=1e9)) as runtime:
        env, other = await at(runtime, 5), await at(runtime, 6)
        (old,) = runtime.worker_pids()
        futures = [other.submit("nap") for _ in range(20)] if busy else []
        await env.step("increment")
        hoarder = await at(runtime, 7)
        await hoarder.step(["hoard", "hoard"])
        await hoarder.close()
        await eventually(lambda: bool(runtime.worker_pids()) and runtime.worker_pids() != [old])
        assert not any([(await future)[2] for future in futures])
        assert await env.observe("value") == 6


async def test_where_there_is_no_room_for_a_successor_it_is_started_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    async with aiocg.Runtime(workers=1, policy=Policy(memory_threshold=100 * MIB)) as runtime:
        env, other = await at(runtime, 5), await at(runtime, 6)
        old = await env.observe("pid")
        launcher = runtime._supervisors[("scripted",)]._launcher
        spawn, refusals = launcher.spawn, 0

        async def limited():  # type: ignore[no-untyped-def]
            nonlocal refusals
            if runtime.worker_pids():
                refusals += 1
                raise BlockingIOError("only one process is allowed")
            return await spawn()

        monkeypatch.setattr(launcher, "spawn", limited)
        await env.step(["hoard", "hoard"])
        async with asyncio.timeout(20):
            while await other.observe("pid") == old:  # noqa: ASYNC110, a process sets no event
                await asyncio.sleep(0.005)
        assert refusals == 1
        assert (await env.observe("value"), await other.observe("value")) == (7, 6)


async def test_the_successor_of_a_worker_that_is_given_up_does_not_stay(eventually, is_alive, stop_workers) -> None:  # type: ignore[no-untyped-def]
    policy = Policy(memory_threshold=100 * MIB, max_deaths=0)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime:
        env, _ = await at(runtime, 5), await at(runtime, 6)
        supervisor = runtime._supervisors[("scripted",)]
        stop_workers()
        await env.step(["hoard", "hoard"])
        await eventually(lambda: bool(supervisor._successors))
        (successor,) = supervisor._successors.values()
        (old,) = set(runtime.worker_pids()) - {successor.pid}
        os.kill(old, signal.SIGKILL)
        await eventually(lambda: not is_alive(successor.pid))
