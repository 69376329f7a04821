"""Shrinking lists of actions, on real workers that crash."""

import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

import aiocg
from aiocg.errors import ServiceError, WorkerCrashed
from aiocg.testing import scripted_benchmark
from aiocg.validation.minimize import (
    MinimizationError,
    bisect_prefix,
    bisect_suffix,
    minimize,
    one_by_one,
    random_removal,
)

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest_asyncio.fixture(loop_scope="session")
async def env(runtime: aiocg.Runtime) -> AsyncIterator[aiocg.Env]:
    async with await runtime.make("scripted-v0", benchmark=scripted_benchmark(3)) as env:
        yield env


async def above_twenty(env: aiocg.Env) -> bool:
    return bool(await env.observe("value") > 20)


async def test_a_list_is_shrunk_to_the_actions_that_matter(env) -> None:  # type: ignore[no-untyped-def]
    await env.reset()
    await env.step(["nothing", "increment", "nothing", "increment", "square", "nothing", "increment", "nothing"])
    steps: list[tuple[object, ...]] = []
    result = await minimize(env, above_twenty, progress=steps.append)
    assert result.actions == ("increment", "increment", "square"), "5 * 5 is the least above 20"
    assert steps[-1] == result.actions
    assert all(len(later) < len(earlier) for earlier, later in itertools.pairwise(steps))
    assert result.evaluations > 3


async def test_the_result_does_not_depend_on_the_number_of_lanes(env) -> None:  # type: ignore[no-untyped-def]
    actions = ["increment", "double", "nothing", "increment", "square", "double", "increment"] * 2
    results = [await minimize(env, above_twenty, actions, lanes=lanes) for lanes in (1, 2, 5)]
    assert len({result.actions for result in results}) == 1


async def test_every_strategy_can_be_chosen(env) -> None:  # type: ignore[no-untyped-def]
    actions = ["nothing"] * 6 + ["increment", "increment", "square"] + ["nothing"] * 6
    chosen = [random_removal(1), bisect_prefix, bisect_suffix, one_by_one]
    result = await minimize(env, above_twenty, actions, strategies=chosen)
    assert result.actions == ("increment", "increment", "square")


async def test_an_action_that_crashes_the_compiler_is_found(env) -> None:  # type: ignore[no-untyped-def]
    async def never(_: aiocg.Env) -> bool:
        return False

    actions = ["increment", "double", "increment", "crash", "increment"]
    result = await minimize(env, never, actions, failing=lambda error: isinstance(error, WorkerCrashed))
    assert result.actions == ("crash",)


async def test_a_list_that_fails_does_not_hold_unless_that_is_looked_for(env) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MinimizationError):
        await minimize(env, above_twenty, ["square", "square", "refuse"])


async def test_a_list_that_never_held_is_an_error_with_the_list(env) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(MinimizationError, match="all 2 actions") as caught:
        await minimize(env, above_twenty, ["increment", "increment"])
    assert caught.value.actions == ("increment", "increment")


async def test_what_holds_only_now_and_then_is_tried_again(env) -> None:  # type: ignore[no-untyped-def]
    calls: dict[int, int] = {}

    async def every_third_time(env: aiocg.Env) -> bool:
        value = await env.observe("value")
        calls[value] = calls.get(value, 0) + 1
        return bool(value > 20) and calls[value] % 3 == 0

    actions = ["nothing", "double", "nothing", "double", "double"]
    result = await minimize(env, every_third_time, actions, flakiness=3, lanes=1)
    assert result.actions == ("double", "double", "double")
    calls.clear()
    with pytest.raises(MinimizationError, match="tried 2 times"):
        await minimize(env, every_third_time, actions, flakiness=2, lanes=1)
    with pytest.raises(ValueError, match="at least 1"):
        await minimize(env, every_third_time, actions, flakiness=0)


async def test_an_error_of_the_hypothesis_is_not_swallowed_and_no_lane_is_left_open(env, runtime) -> None:  # type: ignore[no-untyped-def]
    async def broken(_: aiocg.Env) -> bool:
        raise ServiceError("no answer")

    async def sessions() -> int:
        return sum(counters["sessions"] for counters in await runtime.statistics())

    await env.reset()
    before = await sessions()
    with contextlib.suppress(ServiceError):
        await minimize(env, broken, ["increment"], lanes=4)
        pytest.fail("the error is gone")
    assert await sessions() == before
