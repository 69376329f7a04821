"""Workers die of a request that has returned: nobody else is blamed, and whoever does it is found."""

import asyncio
import itertools
import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

import aiocg
from aiocg.fleet._suspicion import put_first
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark
from aiocg.workers.scripted import UNLISTED

QUICK = Policy(first_delay=0.01, max_delay=0.05, max_death_rate=100)
FOUND = ("spoil", "spoil3", "spoil_increment", "fuse", "alarm", "quit")


async def made(runtime: aiocg.Runtime, count: int) -> list[aiocg.Env]:
    envs = [
        await runtime.make("scripted-v0", benchmark=scripted_benchmark(number), extra_actions=tuple(UNLISTED))
        for number in range(1, count + 1)
    ]
    await asyncio.gather(*(env.reset() for env in envs))
    return envs


def deaths(runtime: aiocg.Runtime) -> int:
    (supervisor,) = runtime.supervisors()
    return sum(slot.deaths for slot in supervisor._slots)


async def rounds(guilty: aiocg.Env, others: list[aiocg.Env], action: str, count: int) -> int:
    """Have everybody do something at the same time, again and again; return how often the guilty one was held.

    Check that all others get the answers that they should.
    """
    held = 0
    begun = [int(env.state_hash) for env in others]
    for turn in range(1, count + 1):
        harming = guilty.submit(action)
        futures = [env.submit(["increment", "nap"]) for env in others]
        results = [await future for future in futures]
        assert [(result[0], result[2]) for result in results] == [(value + 2 * turn, False) for value in begun]
        held += (await harming)[2]
        await guilty.reset()
    return held


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize(("action", "others"), list(itertools.product(FOUND, (1, 2, 5, 64))))
async def test_whoever_harms_the_worker_of_others_is_held_and_nobody_else(action: str, others: int) -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(300):
        guilty, *innocent = await made(runtime, others + 1)
        held = await rounds(guilty, innocent, action, 10)
        # The first time that it does harm costs three workers, or four; how fast this machine is decides how often the
        # process ends before what would end it in a moment.
        assert deaths(runtime) <= 20 and held >= 3 * action.startswith("spoil")
        assert all(suspect.doing.startswith(f"the actions [{action!r}]") for suspect in runtime.quarantine)


async def together(others: list[aiocg.Env], turn: int, *futures: "asyncio.Future[Any]") -> list[bool]:
    """Have the innocent do the same and check their answers; return which of `futures` ended their episodes."""
    numbers = [int(env.benchmark.uri.path) + turn for env in others]
    steps = [env.submit("increment") for env in others]
    ended = [(await future)[2] for future in futures]
    assert [(result[0], result[2]) for result in [await step for step in steps]] == [(one, False) for one in numbers]
    return ended


async def test_two_who_do_harm_are_both_held() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        one, other, *innocent = await made(runtime, 7)
        held = [await together(innocent, turn, one.submit("spoil"), other.submit("spoil")) for turn in (1,)]
        for turn in range(2, 8):
            await asyncio.gather(one.reset(), other.reset())
            held.append(await together(innocent, turn, one.submit("spoil"), other.submit("spoil")))
        assert held[-1] == [True, True] and deaths(runtime) <= 8
        assert {suspect.program for suspect in runtime.quarantine} == {str(env.benchmark.uri) for env in (one, other)}


async def test_a_candidate_that_harms_the_worker_is_the_only_one_that_fails() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        guilty, *innocent = await made(runtime, 4)
        failed = 0
        for turn in range(1, 5):
            candidates = [["double"], ["spoil"], ["increment"], ["double", "double"]]
            expanding = asyncio.ensure_future(guilty.expand(candidates))
            await asyncio.sleep(0)
            await together(innocent, turn)
            results = await expanding
            assert [results[index].observation for index in (0, 2, 3)] == [2, 2, 4]
            failed += results[1].error is not None
        assert failed >= 3 and deaths(runtime) <= 8 and guilty.in_episode


async def test_forks_of_who_did_harm_are_held_when_they_go_on() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        guilty, *innocent = await made(runtime, 5)
        await guilty.step("spoil_increment")
        family = [guilty, *[await guilty.fork() for _ in range(3)]]
        ended = 0
        for turn in range(1, 9):
            going_on = [env.submit("double") for env in family if env.in_episode]
            ended += sum(await together(innocent, turn, *going_on))
        assert ended == 4 and deaths(runtime) <= 20
        assert not list(runtime.quarantine)  # what they went on with is not what did the harm


async def test_a_worker_that_dies_while_idle_is_found_to_be_due_to_who_left_something_in_it() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        guilty, *innocent = await made(runtime, 4)
        held = False
        turn = 0
        while not held:
            turn += 1
            ended = (await guilty.step("fuse"))[2]
            before = runtime.worker_pids()
            while not ended and runtime.worker_pids() == before:  # noqa: ASYNC110, nobody sets an event
                await asyncio.sleep(0.01)
            await together(innocent, turn)
            await guilty.reset()
            held = ended
        assert deaths(runtime) <= 6


async def test_who_forks_in_a_worker_that_was_harmed_is_not_to_blame() -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        guilty, *innocent = await made(runtime, 4)
        held = 0
        for turn in range(1, 6):
            harming = guilty.submit("spoil_fork")
            steps = [env.submit("increment") for env in innocent]
            children = await asyncio.gather(*(env.fork() for env in innocent))
            assert [(await step)[2] for step in steps] == [False] * 3
            assert [await child.observe("value") for child in children] == [number + turn for number in (2, 3, 4)]
            await asyncio.gather(*(child.close() for child in children))
            held += (await harming)[2]
            await guilty.reset()
        assert held >= 3 and deaths(runtime) <= 8


@pytest.mark.few(1)
@pytest.mark.parametrize("action", ["spoil", "spoil_close"])
async def test_nobody_is_to_blame_for_a_session_that_was_closed(action: str) -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(100):
        innocent = await made(runtime, 3)
        for turn in range(1, 4):
            (guilty,) = await made(runtime, 1)
            await guilty.step(action)
            await guilty.close()
            await together(innocent, turn)
        assert deaths(runtime) <= 3 and not list(runtime.quarantine)


async def test_a_kill_from_outside_accuses_nobody_of_anything(executing: Any) -> None:
    async with aiocg.Runtime(workers=1, policy=QUICK) as runtime, asyncio.timeout(60):
        envs = await made(runtime, 5)
        for turn in range(1, 6):
            steps = [env.submit("nap") for env in envs]
            while not executing(runtime) and not steps[-1].done():  # noqa: ASYNC110, nobody sets an event
                await asyncio.sleep(0)
            for pid in runtime.worker_pids():
                os.kill(pid, signal.SIGKILL)
            assert [(await step)[0] for step in steps] == [number + turn for number in range(1, 6)]
        (worker,) = runtime.supervisors()[0].workers
        assert not worker._suspicion.doubted and worker._suspicion.accused is None


def test_an_accused_request_goes_first_with_what_its_session_needs_and_nothing_else() -> None:
    parent, child, other = object(), object(), object()

    def request(*binds: Any) -> Any:
        return SimpleNamespace(binds=lambda: binds)

    step, forking, unrelated, after, accused, behind = (
        request(parent),
        request(parent, child),
        request(other),
        request(parent),
        request(child),
        request(child),
    )
    requests = [unrelated, step, forking, after, accused, behind]
    assert put_first(requests, accused) == [step, forking, accused, unrelated, after, behind]
