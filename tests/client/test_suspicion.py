"""A request that harms its worker and returns, so that the worker dies later and nothing says of what."""

import asyncio
import logging

import pytest

import aiocg
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark
from aiocg.workers.scripted import UNLISTED

QUICK = Policy(first_delay=0.01, max_delay=0.1)


async def made(runtime: aiocg.Runtime, count: int) -> list[aiocg.Env]:
    envs = [
        await runtime.make("scripted-v0", benchmark=scripted_benchmark(number), extra_actions=tuple(UNLISTED))
        for number in range(5, 5 + count)
    ]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


async def test_who_cuts_the_workers_connection_is_found_and_nobody_else_is_harmed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "aiocg")
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 20)
        for round_ in range(2):
            futures = [env.submit("sever" if index == 7 else "increment") for index, env in enumerate(envs)]
            after = [env.submit("increment") for env in envs if env is not envs[7]]
            results = [await future for future in futures]
            assert [result[2] for result in results] == [index == 7 for index in range(20)]
            error = results[7][4]["error"]
            assert error.cause in (
                "exit status 1",
                "exit status 120",
                "signal SIGABRT",
            ) and "the actions ['sever']" in str(error)
            values = [7 + 2 * round_ + index for index in range(20) if index != 7]
            assert [(await future)[0] for future in after] == values
            await envs[7].reset()
        assert results[7][4]["error_type"] == "Quarantined"  # the second time nobody has to die for it
        assert caplog.text.count("worker ended") <= 3 and "given up" not in caplog.text
        assert [suspect.program for suspect in runtime.quarantine] == ["benchmark://scripted-v0/12"]


async def test_two_of_them_are_both_found() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 12)
        futures = [env.submit("sever" if index in (2, 9) else "increment") for index, env in enumerate(envs)]
        assert [(await future)[2] for future in futures] == [index in (2, 9) for index in range(12)]


async def test_many_in_a_row_do_not_exhaust_the_budget_of_the_innocent() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        guilty, innocent = await made(runtime, 2)
        for turn in range(8):
            ending, going_on = guilty.submit("sever"), innocent.submit("increment")
            assert (await going_on)[0] == 7 + turn
            assert (await ending)[2]
            await guilty.reset(benchmark=scripted_benchmark(1000 + turn))  # which is another question


async def test_one_that_stops_its_worker_is_found_and_the_others_go_first() -> None:
    policy = Policy(stall_timeout=0.3, first_delay=0.01, max_delay=0.1)
    async with aiocg.Runtime(workers=1, policy=policy) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 4)
        stopping, *others = [env.submit("stop" if env is envs[0] else "increment") for env in envs]
        assert [(await other)[0] for other in others] == [7, 8, 9]
        assert not stopping.done()  # it is tried again, behind them
        result = await stopping
        assert result[2] and "did not respond" in result[4]["error_details"]


@pytest.mark.parametrize("last", ["square", "sever"])
async def test_a_candidate_that_cuts_the_workers_connection_is_the_only_one_that_fails(last: str) -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(60):
        guilty, innocent = await made(runtime, 2)
        expanding = asyncio.ensure_future(
            guilty.expand(["increment", "sever", "double", ["increment", "double"], last], observation_spaces=["value"])
        )
        await asyncio.sleep(0)
        behind = guilty.submit("double")
        going_on = [innocent.submit("increment") for _ in range(3)]
        candidates = await expanding
        found = [None if one.error else int(one.observation[0]) for one in candidates]
        assert found == [6, None, 10, 12, 25 if last == "square" else None]
        for one in filter(lambda one: one.error, candidates):
            assert isinstance(one.error, (aiocg.errors.WorkerCrashed, aiocg.errors.Quarantined))
        assert "a candidate of an expansion" in str(candidates[1].error)
        assert [(await step)[0] for step in going_on] == [7, 8, 9]
        assert (await behind)[0] == 10 and await guilty.observe("value") == 10
        assert guilty.in_episode and runtime._supervisors[("scripted",)].workers[0].tally.lost == 0
        assert [suspect.doing.partition(" with")[0] for suspect in runtime.quarantine] == ["the actions ['sever']"]


async def test_who_closes_all_descriptors_is_blamed() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(60):
        closing, expanding, innocent = await made(runtime, 3)
        futures = [env.submit("close" if env is closing else "nap") for env in [innocent, closing, innocent, innocent]]
        candidates = asyncio.ensure_future(expanding.expand(["increment", "close", "double"]))
        results = [await future for future in futures]
        assert [result[2] for result in results] == [False, True, False, False] and results[3][0] == 10
        assert [type(one.error) for one in await candidates] == [type(None), aiocg.errors.WorkerCrashed, type(None)]
        (worker,) = runtime._supervisors[("scripted",)].workers
        assert worker.tally.starts <= 5 and worker.tally.lost == 1  # each has cost two processes at most
