"""Whoever is paused, and for however long: no request is blamed for that time, and one that hangs still is."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import aiocg
from aiocg.fleet.restart_policy import Policy, SlotState
from aiocg.testing import scripted_benchmark

TIMEOUT = 1.0  # seconds that a request may take
PAUSE = 3.0


async def made(runtime: aiocg.Runtime, count: int) -> list[aiocg.Env]:
    envs = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(number)) for number in range(count)]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


def state_of(pid: int) -> bytes:
    return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]


@pytest.mark.slow
async def test_a_worker_may_be_stopped_for_longer_than_its_request_may_take(executing) -> None:  # type: ignore[no-untyped-def]
    async with aiocg.Runtime(workers=1) as runtime, asyncio.timeout(60):
        (env,) = await made(runtime, 1)
        futures = [env.submit(["nap"] * 20, timeout=TIMEOUT) for _ in range(10)]
        (pid,) = runtime.worker_pids()
        for _ in range(2):
            while not executing(runtime):  # noqa: ASYNC110, nobody sets an event
                await asyncio.sleep(0.01)
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(PAUSE)
            os.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.3)
        results = [await future for future in futures]
        assert [(result[0], result[2]) for result in results] == [(20 * turn, False) for turn in range(1, 11)]
        assert runtime.worker_pids() == [pid]


@pytest.mark.slow
async def test_a_request_that_hangs_is_found_beside_pauses() -> None:
    async with aiocg.Runtime(workers=1) as runtime, asyncio.timeout(60):
        (env,) = await made(runtime, 1)
        hanging = env.submit("hang", timeout=TIMEOUT)
        (pid,) = runtime.worker_pids()
        await asyncio.sleep(0.2)
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE)
        assert not hanging.done()
        os.kill(pid, signal.SIGCONT)
        result = await hanging
        assert result[2] and result[4]["error_type"] == "DeadlineExceeded"
        assert result[4]["error"].timeout == pytest.approx(TIMEOUT)


@pytest.mark.slow
async def test_a_request_that_hangs_is_found_by_a_client_that_is_always_busy() -> None:
    async with aiocg.Runtime(workers=1) as runtime, asyncio.timeout(100):
        (env,) = await made(runtime, 1)
        hanging = env.submit("hang", timeout=6.0)
        await asyncio.sleep(0.2)
        turns = 0
        while not hanging.done():
            time.sleep(2.0)  # noqa: ASYNC251, this is the point
            await asyncio.sleep(0.01)
            turns += 1
        assert (await hanging)[4]["error_type"] == "DeadlineExceeded"
        assert turns <= 10  # the worker has kept its beat: without it, the time of each turn would hardly count


CLIENT = textwrap.dedent("""
    import asyncio, json, sys, time
    import aiocg
    from aiocg.testing import scripted_benchmark

    async def main():
        async with aiocg.Runtime(workers=2) as runtime:
            envs = [await runtime.make("scripted-v0", benchmark=scripted_benchmark(i)) for i in range(4)]
            await asyncio.gather(*(env.reset() for env in envs))
            print(*runtime.worker_pids(), flush=True)
            turns = [env.submit(["nap"] * 25, timeout=float(sys.argv[1])) for _ in range(20) for env in envs]
            results = [await turn for turn in turns]
            found = [[result[0], result[2], str(result[4].get("error", ""))] for result in results]
            print(json.dumps([found, len(set(runtime.worker_pids()))]))

    asyncio.run(main())
""")


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("everybody", [True, False])
async def test_everything_may_be_paused_or_only_the_client(everybody: bool) -> None:
    command = [sys.executable, "-P", "-c", CLIENT, str(TIMEOUT)]
    client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    pids = [int(pid) for pid in client.stdout.readline().split()]
    paused = [*pids, client.pid] if everybody else [client.pid]
    for _ in range(2):
        await asyncio.sleep(0.5)
        for pid in paused:
            os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(PAUSE)
        for pid in paused:
            os.kill(pid, signal.SIGCONT)
    output, _ = await asyncio.to_thread(client.communicate, timeout=120)
    found, workers = json.loads(output)
    assert workers == 2
    assert found == [[start + 25 * turn, False, ""] for turn in range(1, 21) for start in range(4)]


async def test_sessions_do_not_wait_for_a_worker_that_hangs_while_it_starts() -> None:
    policy = Policy(start_grace=0.2, first_delay=0.01)
    async with aiocg.Runtime(workers=2, policy=policy) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 10)
        (supervisor,) = runtime.supervisors()
        slot, hanging = supervisor._slots[0], 0
        while (
            not hanging or slot.state is not SlotState.STARTING
        ):  # again, if it had said its welcome before it stopped
            if hanging:
                os.kill(hanging, signal.SIGCONT)
                while slot.state is not SlotState.READY:  # noqa: ASYNC110, nobody sets an event
                    await asyncio.sleep(0.01)
            os.kill(runtime.worker_pids()[0], signal.SIGKILL)
            while (life := supervisor._lives[0]) is None or slot.state is not SlotState.STARTING:  # noqa: ASYNC110
                await asyncio.sleep(0)
            os.kill(hanging := life.process.pid, signal.SIGSTOP)
            while state_of(hanging) != b"T":  # noqa: ASYNC110, it stops when it is scheduled next
                await asyncio.sleep(0.01)
        steps = [env.submit("increment") for env in envs]
        results = [await step for step in steps]
        assert [(result[0], result[2]) for result in results] == [(number + 1, False) for number in range(10)]
        assert {env._session.worker for env in envs} == {supervisor.workers[1]}
        os.kill(hanging, signal.SIGCONT)
        another = await runtime.make("scripted-v0", benchmark=scripted_benchmark(3))  # on the one that is idle
        await another.reset()
        assert await another.observe("pid") == hanging


async def test_an_environment_can_be_made_beside_a_worker_that_hangs_at_its_first_start() -> None:
    policy = Policy(start_grace=0.2)
    async with aiocg.Runtime(workers=2, policy=policy) as runtime, asyncio.timeout(60):
        making = asyncio.gather(*(runtime.make("scripted-v0", benchmark=scripted_benchmark(i)) for i in range(4)))
        while not runtime.supervisors() or len(runtime.worker_pids()) < 1:  # noqa: ASYNC110, nobody sets an event
            await asyncio.sleep(0)
        os.kill(runtime.worker_pids()[0], signal.SIGSTOP)
        envs = await making
        await asyncio.gather(*(env.reset() for env in envs))
        assert [(await env.step("increment"))[0] for env in envs] == [1, 2, 3, 4]


@pytest.mark.slow
async def test_a_client_that_is_busy_for_longer_than_a_start_may_take_ends_no_worker() -> None:
    policy = Policy(start_timeout=0.5, first_delay=0.01)
    async with aiocg.Runtime(workers=2, policy=policy) as runtime, asyncio.timeout(60):
        making = asyncio.ensure_future(runtime.make("scripted-v0", benchmark=scripted_benchmark(5)))
        turns = 0
        while not making.done() and turns < 20:
            slots = [slot for supervisor in runtime.supervisors() for slot in supervisor._slots]
            if any(slot.state is SlotState.STARTING for slot in slots):
                time.sleep(1.0)  # noqa: ASYNC251, this is the point
                turns += 1
            await asyncio.sleep(0)
        env = await making
        await env.reset()
        assert (await env.step("increment"))[0] == 6
        (supervisor,) = runtime.supervisors()
        assert [slot.deaths for slot in supervisor._slots] == [0, 0] and turns


async def test_a_slot_that_was_given_up_comes_back() -> None:
    policy = Policy(max_deaths=0, recovery_delay=0.5, first_delay=0.01)
    async with aiocg.Runtime(workers=2, policy=policy) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 4)
        (supervisor,) = runtime.supervisors()
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        assert [(await env.step("increment"))[0] for env in envs] == [1, 2, 3, 4]
        while len(runtime.worker_pids()) < 2 or not all(worker.flowing for worker in supervisor.workers):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        others = await made(runtime, 4)
        pids = [await env.observe("pid") for env in (*envs, *others)]
        assert len(set(pids)) == 2 and len(supervisor.workers) == 2


async def test_the_only_slot_that_was_given_up_comes_back() -> None:
    policy = Policy(max_deaths=0, recovery_delay=0.5, first_delay=0.01)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime, asyncio.timeout(60):
        (env,) = await made(runtime, 1)
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        with pytest.raises(aiocg.errors.BudgetExhausted):
            await env.step("increment")
        (supervisor,) = runtime.supervisors()
        while not supervisor.workers[0].flowing:  # noqa: ASYNC110, nobody sets an event
            await asyncio.sleep(0.02)
        assert (await env.reset())[0] == 0
        assert (await env.step("increment"))[0] == 1
