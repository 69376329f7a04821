"""What a worker has started and let go: it does not keep the worker's death from being noticed, and it is ended too."""

import asyncio
import os
import signal

import psutil
import pytest

import aiocg
from aiocg.testing import scripted_benchmark
from aiocg.workers.scripted import UNLISTED


@pytest.mark.usefixtures("how_they_start")
@pytest.mark.few(3)
@pytest.mark.parametrize("action", ["abort", "hang", "kill"])
async def test_the_death_of_a_worker_is_noticed_while_a_daemon_of_it_lives_and_that_is_ended(
    action: str, eventually, is_alive
) -> None:
    async with aiocg.Runtime(workers=1) as runtime, asyncio.timeout(60):
        one, other = [
            await runtime.make("scripted-v0", benchmark=scripted_benchmark(5), extra_actions=tuple(UNLISTED))
            for _ in range(2)
        ]
        await asyncio.gather(one.reset(), other.reset())
        assert (await one.step("detach"))[0] == 6
        daemon = await one.observe("daemon")
        assert os.getsid(daemon) != os.getsid(runtime.worker_pids()[0])
        assert is_alive(daemon)
        if action == "kill":
            os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        else:
            assert (await one.step(action, timeout=0.3))[2]
        assert (await other.step("double"))[0] == 10
        await eventually(lambda: not is_alive(daemon))


async def test_what_a_dead_worker_leaves_ends_and_what_a_live_one_has_does_not(eventually, is_alive) -> None:
    async with aiocg.Runtime(workers=2) as runtime, asyncio.timeout(60):
        one, other = [
            await runtime.make("scripted-v0", benchmark=scripted_benchmark(5), extra_actions=tuple(UNLISTED))
            for _ in range(2)
        ]
        await asyncio.gather(one.reset(), other.reset())
        await asyncio.gather(one.step("detach"), other.step("detach"))
        gone, kept = await one.observe("daemon"), await other.observe("daemon")
        os.kill(await one.observe("pid"), signal.SIGKILL)
        await eventually(lambda: not is_alive(gone))
        assert is_alive(kept) and psutil.Process(kept).ppid() == await other.observe("pid")
    await eventually(lambda: not is_alive(kept))


@pytest.mark.usefixtures("how_they_start")
async def test_no_daemon_is_left_of_a_closed_runtime(eventually, is_alive) -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5), extra_actions=tuple(UNLISTED))
        await env.reset()
        await env.step("detach")
        daemon = await env.observe("daemon")
        assert is_alive(daemon)
    await eventually(lambda: not is_alive(daemon))
