"""How often a worker may die, and where its sessions go when it has died too often."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

import aiocg
from aiocg.errors import BudgetExhausted, EnvironmentNotSupported, WorkerCrashed, WorkerStartError
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark


def policy(**numbers: int) -> Policy:
    return Policy(quarantine_deaths=0, **numbers)


async def at(runtime: aiocg.Runtime, number: int) -> aiocg.Env:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(number))
    await env.reset()
    return env


async def test_a_worker_that_crashes_again_and_again_is_given_up_with_all_that_is_to_be_said() -> None:
    async with aiocg.Runtime(workers=1, policy=policy(max_explained_rate=3)) as runtime:
        env = await at(runtime, 5)
        assert (await env.step("abort"))[4]["error_type"] == "WorkerCrashed"  # at the second death
        await env.reset()
        with pytest.raises(BudgetExhausted) as caught:
            await env.step("abort")
            await env.reset()
        error = caught.value
        assert (error.limit, error.allowed, error.deaths) == ("max_explained_rate", 3, 4)
        assert error.seconds < 60 and error.cause == "signal SIGABRT" and isinstance(error, WorkerStartError)
        for words in ("4 times in", "SIGABRT", "Policy(max_explained_rate=3)", "aborting, as asked", "giving up"):
            assert words in str(error)
        with pytest.raises(BudgetExhausted):
            await runtime.make("scripted-v0")


async def test_the_deaths_of_a_lifetime_are_counted_whatever_killed_it() -> None:
    async with aiocg.Runtime(workers=1, policy=policy(max_deaths=3)) as runtime:
        env = await at(runtime, 5)
        await env.step("exit")  # twice, as the first time says little
        await env.reset()
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        assert (await env.step("double"))[0] == 10
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        with pytest.raises(BudgetExhausted, match=r"max_deaths=3"):
            await env.step("double")


async def test_sessions_of_a_slot_that_is_given_up_go_on_in_another(caplog: pytest.LogCaptureFixture) -> None:
    async with aiocg.Runtime(workers=2, policy=policy(max_deaths=0)) as runtime:
        envs = [await at(runtime, number) for number in range(6)]
        await asyncio.gather(*(env.step("double") for env in envs))
        child, snapshot = await envs[0].fork(), await envs[2].snapshot()
        futures = [env.submit("nap") for env in envs for _ in range(5)]
        pid = await envs[0].observe("pid")
        os.kill(pid, signal.SIGKILL)
        assert not any([(await future)[2] for future in futures])
        assert [await env.observe("value") for env in (*envs, child)] == [5, 7, 9, 11, 13, 15, 0]
        assert len({await env.observe("pid") for env in envs}) == 1 == len(runtime.worker_pids())
        await envs[2].restore(snapshot)
        assert (await envs[2].step("increment"))[0] == 5
        assert await (await envs[0].fork()).observe("value") == 5
        assert "given up" in caplog.text
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        with pytest.raises(BudgetExhausted):
            await envs[0].step("increment")


async def test_one_that_waits_for_a_worker_that_never_comes_gets_another() -> None:
    async with aiocg.Runtime(workers=2, policy=policy(max_failed_starts=1)) as runtime:
        first = await at(runtime, 1)  # both workers are starting or up
        second = asyncio.ensure_future(at(runtime, 2))
        while len(runtime.worker_pids()) < 2:  # noqa: ASYNC110, a process sets no event
            await asyncio.sleep(0.01)
        taken = await first.observe("pid")
        for pid in runtime.worker_pids():
            if pid != taken:
                os.kill(pid, signal.SIGKILL)
        env = await second
        assert (await env.step("double"))[0] == 4 and (await first.step("double"))[0] == 2


async def test_a_program_that_crashes_every_worker_does_not_follow_its_sessions_for_ever() -> None:
    async with aiocg.Runtime(workers=2, policy=policy(max_deaths=3)) as runtime:
        guilty, innocent = await at(runtime, 1), await at(runtime, 2)
        for _ in range(3):
            await guilty.step("exit")
            await guilty.reset()
        assert (await innocent.step("double"))[0] == 4
        result = await guilty.step("double")
        assert result[0] == 2 and not isinstance(result[4].get("error"), WorkerCrashed)


async def test_a_compiler_that_cannot_be_started_for_a_moment_costs_nobody_anything(tmp_path: Path) -> None:
    obstacle = tmp_path / "obstacle"
    numbers = {"first_delay": 0.02, "max_delay": 0.1, "max_death_rate": 10_000}
    async with aiocg.Runtime(workers=1, policy=Policy(**numbers), options={"unless": str(obstacle)}) as runtime:
        env = await at(runtime, 5)
        obstacle.touch()
        os.kill(runtime.worker_pids()[0], signal.SIGKILL)
        step = env.submit("double")
        (supervisor,) = runtime.supervisors()
        while supervisor.looks()[0][0].failed_starts < 4:  # noqa: ASYNC110, nobody sets an event
            await asyncio.sleep(0.01)
        obstacle.unlink()
        assert (await step)[0] == 10
        obstacle.touch()
        async with aiocg.Runtime(workers=1, options={"unless": str(obstacle)}) as other:
            with pytest.raises(EnvironmentNotSupported, match="as asked"):
                await at(other, 5)
