"""What has killed its worker twice is not tried again."""

import asyncio
import os
import signal

import pytest

import aiocg
from aiocg.errors import DeadlineExceeded, Quarantined, ServiceError, WorkerCrashed
from aiocg.fleet import quarantine
from aiocg.fleet.restart_policy import Policy
from aiocg.testing import scripted_benchmark


async def at(runtime: aiocg.Runtime, number: int | str = 5) -> aiocg.Env:
    content = scripted_benchmark(number) if isinstance(number, int) else number
    env = await runtime.make("scripted-v0", benchmark=content)
    await env.reset()
    return env


async def error_of(env: aiocg.Env, action: object, **options: object) -> Exception:
    """Take a step that ends the episode, and reset."""
    _, _, terminated, _, info = await env.step(action, **options)  # type: ignore[arg-type]
    assert terminated and info["error_type"] == type(info["error"]).__name__
    await env.reset()
    return info["error"]  # type: ignore[no-any-return]


def deaths(runtime: aiocg.Runtime) -> int:
    return sum(slot.deaths for slot in runtime._supervisors[("scripted",)]._slots)


async def test_what_has_overrun_its_deadline_once_is_tried_again(runtime: aiocg.Runtime) -> None:
    env, other, before = await at(runtime), await at(runtime), deaths(runtime)
    assert type(await error_of(env, "hang", timeout=0.1)) is DeadlineExceeded
    assert len(runtime.quarantine) == 0
    assert type(await error_of(other, "hang", timeout=0.1)) is DeadlineExceeded
    assert type(await error_of(env, "hang", timeout=0.1)) is Quarantined
    assert deaths(runtime) == before + 2


async def test_what_has_crashed_twice_is_refused_with_all_that_is_known(runtime: aiocg.Runtime) -> None:
    env, other, start = await at(runtime), await at(runtime), deaths(runtime)
    assert type(await error_of(other, "abort")) is WorkerCrashed
    before = deaths(runtime)
    assert before == start + 2
    error = await error_of(env, "abort")
    assert isinstance(error, Quarantined) and isinstance(error, ServiceError)
    assert error.program == str(env.benchmark.uri) and error.causes == ("signal SIGABRT",) * 2
    for words in ("not tried", env.benchmark.uri.path, "[6]", "SIGABRT", "2 times", "quarantine.clear()"):
        assert str(words) in str(error)
    assert deaths(runtime) == before
    (suspect,) = runtime.quarantine
    assert suspect.program == error.program and suspect.causes == ["signal SIGABRT"] * 2


async def test_it_ends_the_episode_as_the_crash_did(runtime: aiocg.Runtime) -> None:
    env = await at(runtime)
    for _ in range(2):
        await error_of(env, "abort")
    assert (await env.step("abort"))[2:3] == (True,)
    with pytest.raises(aiocg.errors.ResetNeeded):
        await env.step("increment")
    snapshot_of = await at(runtime)
    snapshot = await snapshot_of.snapshot()
    assert (await snapshot_of.step("abort"))[2]
    await snapshot_of.restore(snapshot)
    assert (await snapshot_of.step("increment"))[0] == 6


async def test_another_state_another_action_and_another_program_are_tried(runtime: aiocg.Runtime) -> None:
    env = await at(runtime)
    for _ in range(2):
        await error_of(env, "abort")
    assert type(await error_of(env, "crash")) is WorkerCrashed
    await env.step("increment")
    assert type(await error_of(env, "abort")) is WorkerCrashed
    assert type(await error_of(await at(runtime, 8), "abort")) is WorkerCrashed
    assert (await env.step("increment"))[0] == 6


async def test_the_same_state_is_the_same_whatever_led_to_it(runtime: aiocg.Runtime) -> None:
    env, other = await at(runtime, 5), await at(runtime, 4)
    for _ in range(2):
        await error_of(env, "abort")
    await other.step("increment")
    assert type(await error_of(other, "abort")) is Quarantined


async def test_a_candidate_is_refused_alone_and_shares_its_record_with_steps(runtime: aiocg.Runtime) -> None:
    env = await at(runtime)
    results = await env.expand(["increment", "abort"])
    assert type(results[1].error) is WorkerCrashed
    await error_of(env, "abort")
    before = deaths(runtime)
    results = await env.expand(["increment", "abort", "double"])
    assert [result.state for result in results] == [6, 0, 10] and type(results[1].error) is Quarantined
    assert deaths(runtime) == before
    results = await env.expand(["abort"])
    assert type(results[0].error) is Quarantined


async def test_more_time_is_another_try(runtime: aiocg.Runtime) -> None:
    env = await at(runtime)
    for _ in range(2):
        assert type(await error_of(env, "hang", timeout=0.1)) is DeadlineExceeded
    assert type(await error_of(env, "hang", timeout=0.1)) is Quarantined
    assert type(await error_of(env, "hang", timeout=0.05)) is Quarantined
    assert type(await error_of(env, "hang", timeout=0.2)) is DeadlineExceeded


async def test_a_program_that_kills_its_worker_is_not_loaded_a_third_time(runtime: aiocg.Runtime) -> None:
    env, before = await at(runtime), deaths(runtime)
    bad = scripted_benchmark("kill")
    with pytest.raises(WorkerCrashed):
        await env.reset(benchmark=bad)
    assert deaths(runtime) == before + 2
    with pytest.raises(Quarantined, match="a reset"):
        await env.reset(benchmark=bad)
    assert (await env.reset())[0] == 5


async def test_kills_from_outside_put_nothing_into_quarantine(runtime: aiocg.Runtime, eventually, executing) -> None:  # type: ignore[no-untyped-def]
    env = await at(runtime)
    for _ in range(2):
        future = env.submit("hang")
        while not future.done():  # after several kills it is held responsible; kills during a load do not count
            await eventually(lambda future=future: future.done() or bool(executing(runtime)))
            for pid in executing(runtime):
                os.kill(pid, signal.SIGKILL)
                await eventually(lambda pid=pid: pid not in runtime.worker_pids())
        assert (await future)[2]
        await env.reset()
    assert len(runtime.quarantine) == 0 and not runtime.quarantine.suspects


async def test_it_can_be_lifted_for_one_program_or_all(runtime: aiocg.Runtime) -> None:
    env, other = await at(runtime, 5), await at(runtime, 6)
    for one in (env, env, other, other):
        await error_of(one, "abort")
    assert len(runtime.quarantine) == 2
    runtime.quarantine.clear(str(env.benchmark.uri))
    assert type(await error_of(env, "abort")) is WorkerCrashed
    assert type(await error_of(other, "abort")) is Quarantined
    runtime.quarantine.clear()
    assert type(await error_of(other, "abort")) is WorkerCrashed


async def test_it_can_be_switched_off_and_made_stricter() -> None:
    async with aiocg.Runtime(workers=1, policy=Policy(quarantine_deaths=0)) as runtime:
        env = await at(runtime)
        for _ in range(4):
            assert type(await error_of(env, "abort")) is WorkerCrashed
    async with aiocg.Runtime(workers=1, policy=Policy(quarantine_deaths=1)) as runtime:
        env = await at(runtime)
        assert [type(await error_of(env, "abort")) for _ in range(2)] == [WorkerCrashed, Quarantined]


async def test_one_that_is_behind_others_is_judged_by_the_state_it_would_start_from(runtime: aiocg.Runtime) -> None:
    env = await at(runtime)
    for _ in range(2):
        await error_of(env, "abort")
    futures = [env.submit("nap"), env.submit("abort")]
    await asyncio.wait(futures)
    assert type((await futures[1])[4]["error"]) is WorkerCrashed  # of 6, not of 5


async def test_the_oldest_are_forgotten(runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quarantine, "MAX_SUSPECTS", 2)
    envs = [await at(runtime, number) for number in (1, 2, 3)]
    for env in envs:
        for _ in range(2):
            await error_of(env, "exit")
    assert [suspect.program for suspect in runtime.quarantine] == [str(env.benchmark.uri) for env in envs[1:]]
