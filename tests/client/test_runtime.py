"""The runtime: what it starts, refuses, shares and leaves behind."""

import asyncio
import os
import signal
import stat
from pathlib import Path
from typing import Any

import anyio
import pytest

import aiocg
from aiocg.datasets import DatasetNotFound
from aiocg.errors import EnvClosed, ResetNeeded, RuntimeClosed, ServiceError, UnknownName
from aiocg.spaces import ObservationSpace, Scalar
from aiocg.spaces.rewards import CostReward
from aiocg.states.state import CompilerEnvState
from aiocg.testing import scripted_benchmark


def state(**changes: object) -> CompilerEnvState:
    values = {"environment": "scripted-v0", "benchmark": "benchmark://scripted-v0/5", "actions": ("double", "square")}
    return CompilerEnvState(**(values | changes))  # type: ignore[arg-type]


@pytest.mark.parametrize("workers", [0, -1])
def test_a_number_of_workers_that_makes_no_sense_is_refused(workers: int) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        aiocg.Runtime(workers=workers)


async def test_nothing_is_started_before_it_is_needed(fresh: aiocg.Runtime) -> None:
    assert (fresh.folder, fresh.worker_pids(), await fresh.statistics()) == (None, [], [])
    with pytest.raises(UnknownName):
        await fresh.make("scripted-v1")
    assert fresh.folder is None


async def test_workers_start_before_they_are_needed_if_told_to(fresh: aiocg.Runtime) -> None:
    with pytest.raises(UnknownName):
        await fresh.start_workers("scripted-v1")
    await fresh.start_workers("scripted-v0")
    assert fresh.folder is not None
    with pytest.raises(DatasetNotFound):
        await fresh.make("scripted-v0", benchmark="nonsense-v0/1")
    env = await fresh.make("scripted-v0")
    await env.reset()
    assert 1 <= len(fresh.worker_pids()) <= fresh.worker_count


async def test_environments_made_at_once_share_the_workers(fresh: aiocg.Runtime) -> None:
    envs = await asyncio.gather(*(fresh.make("scripted-v0") for _ in range(50)))
    assert len(fresh.worker_pids()) == fresh.worker_count == 2
    await asyncio.gather(*(env.reset() for env in envs))
    assert [counters["sessions"] for counters in await fresh.statistics()] == [25, 25]


async def test_the_folder_is_for_nobody_else(runtime: aiocg.Runtime) -> None:
    await runtime.make("scripted-v0")
    assert runtime.folder is not None
    assert stat.S_IMODE(runtime.folder.stat().st_mode) == 0o700
    modes = [entry.stat().st_mode for entry in runtime.folder.iterdir()]
    assert all(stat.S_ISSOCK(mode) or stat.S_ISDIR(mode) for mode in modes)  # sockets, and room for temporary files


async def test_two_runtimes_have_nothing_in_common(runtime: aiocg.Runtime) -> None:
    await runtime.make("scripted-v0")
    async with aiocg.Runtime(workers=1) as other:
        env = await other.make("scripted-v0", benchmark=scripted_benchmark(3))
        await env.reset()
        assert not set(other.worker_pids()) & set(runtime.worker_pids())
    assert (await (await runtime.make("scripted-v0")).reset())[0] == 1


async def test_a_runtime_may_be_closed_twice_and_before_its_first_use() -> None:
    runtime = aiocg.Runtime(workers=1)
    await runtime.close()
    await runtime.close()
    with pytest.raises(RuntimeClosed):
        await runtime.make("scripted-v0")


async def test_closing_while_the_first_worker_starts_ends_the_making(stop_workers) -> None:
    stop_workers()
    runtime = aiocg.Runtime(workers=1)
    making = asyncio.create_task(runtime.make("scripted-v0"))
    for _ in range(1000):
        if runtime.worker_pids():
            break
        await asyncio.sleep(0.005)
    await runtime.close()
    with pytest.raises(RuntimeClosed):
        await making
    assert runtime.worker_pids() == [] and runtime.folder is None


@pytest.mark.parametrize("turns", [0, 1, 3, 10])
async def test_closing_before_the_first_worker_starts_leaves_nothing_behind(turns: int) -> None:
    runtime = aiocg.Runtime(workers=1)
    making = asyncio.create_task(runtime.make("scripted-v0"))
    for _ in range(turns):
        await asyncio.sleep(0)
    await runtime.close()
    with pytest.raises(RuntimeClosed):
        await making
    assert runtime.worker_pids() == [] and runtime.folder is None


async def test_a_cancelled_scope_ends_the_workers_too() -> None:
    with anyio.CancelScope() as scope:
        async with aiocg.Runtime(workers=1) as runtime:
            env = await runtime.make("scripted-v0")
            await env.reset()
            folder = runtime.folder
            asyncio.get_running_loop().call_later(0.05, scope.cancel)
            await env.step("hang")
    assert scope.cancelled_caught and folder is not None
    assert not folder.exists() and runtime.worker_pids() == []


async def test_another_event_loop_is_refused(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()

    async def use() -> None:
        for use in (lambda: env.step("double"), lambda: runtime.make("scripted-v0"), runtime.close):
            with pytest.raises(RuntimeError, match="another event loop"):
                await use()

    await asyncio.to_thread(lambda: asyncio.run(use()))
    assert (await env.step("double"))[0] == 10


def test_options_that_cannot_reach_a_worker_are_refused() -> None:
    with pytest.raises(ValueError, match="object is not JSON serializable"):
        aiocg.Runtime(options={"library": object()})


async def test_a_cancelled_making_leaves_the_runtime_usable(fresh: aiocg.Runtime) -> None:
    making = asyncio.create_task(fresh.make("scripted-v0"))
    while not fresh.worker_pids():  # noqa: ASYNC110, a process sets no event
        await asyncio.sleep(0)
    making.cancel()
    with pytest.raises(asyncio.CancelledError):
        await making
    assert (await (await fresh.make("scripted-v0")).reset())[0] == 1


async def test_an_exception_in_the_block_ends_the_workers(is_alive) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(KeyError, match="mine"):
        async with aiocg.Runtime(workers=1) as runtime:
            await runtime.make("scripted-v0")
            (pid,) = runtime.worker_pids()
            raise KeyError("mine")
    assert not is_alive(pid)


async def test_observation_and_reward_can_be_chosen_when_making(runtime: aiocg.Runtime) -> None:
    benchmark = scripted_benchmark(5)
    env = await runtime.make("scripted-v0", benchmark=benchmark, observation_space="digits", reward_space="value")
    assert (await env.reset())[0] == "5"
    assert (await env.step("double"))[:2] == ("10", -5.0)
    with pytest.raises(UnknownName):
        await runtime.make("scripted-v0", benchmark=benchmark, observation_space="nonsense")
    with pytest.raises(UnknownName):
        await runtime.make("scripted-v0", benchmark=benchmark, reward_space="nonsense")


async def test_a_refused_making_leaves_no_session_behind(fresh: aiocg.Runtime) -> None:
    keep = await fresh.make("scripted-v0")
    await keep.reset()
    for _ in range(10):
        with pytest.raises(UnknownName):
            await fresh.make("scripted-v0", reward_space="nonsense")
    others = [await fresh.make("scripted-v0") for _ in range(3)]
    await asyncio.gather(*(env.reset() for env in others))
    counts = sorted(counters["sessions"] for counters in await fresh.statistics())
    assert counts == [2, 2]


async def test_statistics_count_what_was_asked(fresh: aiocg.Runtime) -> None:
    env = await fresh.make("scripted-v0")
    await env.reset()
    for _ in range(7):
        await env.step("increment")
    counts = [counters["requests"] for counters in await fresh.statistics()]
    assert sum(count.get("Step", 0) for count in counts) == 7
    assert sum(count.get("Open", 0) for count in counts) == 1


async def test_a_state_is_replayed_in_another_runtime(runtime: aiocg.Runtime) -> None:
    env = await runtime.replay(state(reward_space="value"))
    assert (await env.observe("value"), env.actions, env.episode_reward) == (100, [2, 3], -95.0)


async def test_replaying_an_action_that_does_not_exist_is_refused(runtime: aiocg.Runtime) -> None:
    with pytest.raises(UnknownName, match="double"):
        await runtime.replay(state(actions=("dobule",)))
    with pytest.raises(UnknownName, match="scripted-v0"):
        await runtime.replay(state(environment="scripted-v9"))


async def test_replaying_an_action_that_fails_raises_its_error(runtime: aiocg.Runtime) -> None:
    with pytest.raises(ServiceError, match="refused, as asked"):
        await runtime.replay(state(actions=("double", "refuse")))
    with pytest.raises(ServiceError, match="SIGSEGV"):
        await runtime.replay(state(actions=("crash",)))


async def test_a_failed_replay_leaves_no_session_behind(fresh: aiocg.Runtime) -> None:
    for _ in range(3):
        with pytest.raises(ServiceError):
            await fresh.replay(state(actions=("refuse",)))
    await asyncio.sleep(0.05)
    assert sum(counters["sessions"] for counters in await fresh.statistics()) == 0


async def test_steps_behind_a_failed_one_stay_undone_when_the_worker_is_killed_in_between(
    runtime: aiocg.Runtime,
) -> None:
    failing = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
    await (await runtime.make("scripted-v0")).close()
    await failing.reset()
    busy = await failing.fork()  # on the same worker
    first = failing.submit("refuse")
    naps = [busy.submit("nap") for _ in range(40)]
    behind = failing.submit("double")
    assert (await first)[2] is True
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(ResetNeeded):
        await behind
    assert (await naps[-1])[0] == 45
    assert (await failing.observe("value"), failing.actions) == (5, [])


async def test_a_state_restored_behind_a_failed_step_goes_on_when_the_worker_is_killed_in_between(
    runtime: aiocg.Runtime,
) -> None:
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
    await env.reset()
    snapshot = await env.snapshot()
    busy = await env.fork()
    first = env.submit("refuse")
    naps = [busy.submit("nap") for _ in range(40)]
    restoring = asyncio.create_task(env.restore(snapshot))
    assert (await first)[2] is True
    for pid in runtime.worker_pids():
        os.kill(pid, signal.SIGKILL)
    await restoring
    assert (await env.step("double"))[0] == 10
    assert (await naps[-1])[0] == 45


async def test_whatever_is_done_after_closing_says_that_it_was_closed(tmp_path: Path) -> None:
    runtime = aiocg.Runtime(workers=1)
    runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
    env = await runtime.make("scripted-v0", benchmark=scripted_benchmark(5))
    unused, ended = await runtime.make("scripted-v0"), await runtime.make("scripted-v0")
    await env.reset()
    await ended.reset()
    await ended.step("refuse")
    snapshot, known = await env.snapshot(), env.state
    await runtime.close()
    for one in (env, unused, ended):
        for use in (
            one.reset,
            lambda one=one: one.step("double"),
            lambda one=one: one.step_texts(["double"]),
            lambda one=one: one.submit("double"),
            lambda one=one: one.observe("value"),
            lambda one=one: one.send_parameter("x", "1"),
            one.fork,
            one.sibling,
            one.snapshot,
            lambda one=one: one.restore(snapshot),
            lambda one=one: one.expand(["double"]),
            lambda one=one: one.expand_texts([["double"]]),
            lambda one=one: one.choose_actions("Texts"),
            lambda one=one: one.check_actions(["add<7>"]),
            one.validate,
        ):
            with pytest.raises(RuntimeClosed, match="closed"):
                await use()
    for method in (
        lambda: runtime.make("scripted-v0"),
        lambda: runtime.make("llvm-v0", benchmark="nothing-v0/1"),
        lambda: runtime.replay(known),
        lambda: runtime.validate(env),
        runtime.statistics,
        runtime.__aenter__,
    ):
        with pytest.raises(RuntimeClosed, match="the runtime was closed"):
            await method()
    for call in (lambda: runtime.log_to(tmp_path / "log"), runtime.metrics, lambda: runtime.new_session(env.spec)):
        with pytest.raises(RuntimeClosed, match="the runtime was closed"):
            call()
    assert (env.state, env.action_texts, runtime.worker_pids()) == (known, (), [])
    await env.close()
    await runtime.close()


async def test_a_closed_environment_says_so_whatever_is_done_with_it(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("scripted-v0")
    await env.close()
    for use in (
        env.reset,
        env.sibling,
        env.fork,
        lambda: env.choose_actions("Texts"),
        lambda: env.check_actions(["x"]),
    ):
        with pytest.raises(EnvClosed):
            await use()


async def test_rewards_observations_and_a_timeout_of_ones_own_are_given_when_making(runtime: aiocg.Runtime) -> None:
    number = Scalar(None, None, "float64")
    half = ObservationSpace("half", number, True, False, 0, "", sources=("value",), translate=lambda value: value / 2)
    env = await runtime.make(
        "scripted-v0",
        benchmark=scripted_benchmark(5),
        observation_space="half",
        reward_space=CostReward("less", "half"),
        derived_observation_spaces=[half],
        timeout=7,
    )
    assert (env.timeout, env.reward_space, (await env.reset())[0]) == (7.0, "less", 2.5)
    assert (await env.step("double"))[:2] == (5.0, -2.5)
    sibling = await env.sibling()
    assert (sibling.timeout, sibling.reward_space) == (7.0, "less")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"timeout": 0}, "positive number of seconds"),
        ({"timeout": "soon"}, "positive number of seconds"),
        ({"rewards": [5]}, "reward of your own is"),
        ({"rewards": ["value"]}, "reward of your own is"),
        ({"derived_observation_spaces": ["value"]}, "observation space of your own is"),
        ({"reward_space": 5}, "reward space"),
        ({"reward": "value"}, "did you mean rewards, reward_space"),
        ({"observation": "value"}, "did you mean observation_space"),
        ({"seed": 1}, "setting"),
    ],
)
async def test_wrong_arguments_of_make_are_named(runtime: aiocg.Runtime, given: dict[str, Any], problem: str) -> None:
    with pytest.raises((TypeError, ValueError, UnknownName), match=problem):
        await runtime.make("scripted-v0", **given)
