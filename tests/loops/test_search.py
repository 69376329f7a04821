"""The searches, as they are, over schedules of loop nests."""

import statistics
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.loops import make_benchmark
from aiocg.search import (
    Budget,
    SearchResult,
    beam,
    genetic,
    greedy,
    hill_climb,
    random,
    schedule,
)
from aiocg.search._dispatcher import ROUNDS
from aiocg.search._prefix_evaluation import Lane

pytestmark = pytest.mark.asyncio(loop_scope="session")

SMALL = "generator://loops-v0/sum?m=6&n=5"
FEW = Budget(evaluations=30)


@pytest_asyncio.fixture(loop_scope="session")
async def env(make: Callable[..., Any]) -> AsyncIterator[aiocg.Env]:
    yield await make(SMALL, action_space="cursor")  # which has few actions


SEARCHES: dict[str, Callable[[aiocg.Env], Awaitable[SearchResult]]] = {
    "random": lambda env: random(env, budget=FEW, seed=1),
    "greedy": lambda env: greedy(env, budget=FEW),
    "beam": lambda env: beam(env, width=2, depth=2, budget=Budget(evaluations=60)),
    "hill_climb": lambda env: hill_climb(env, budget=FEW, seed=1),
    "genetic": lambda env: genetic(env, budget=FEW, seed=1),
    "schedule": lambda env: schedule(env, budget=Budget(evaluations=6), seed=1),
}


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
async def test_what_a_search_says_it_found_can_be_done_again(env: aiocg.Env, name: str) -> None:
    if name == "genetic":
        pytest.importorskip("pymoo", reason="the genetic search needs pymoo, of the extra search")
    result = await SEARCHES[name](env)
    assert 0 < result.evaluations <= 60
    assert result.reward >= 0.0
    env.reward_space = None
    await env.reset()
    await env.step_texts(result.actions)
    assert await env.observe("runtime") > 0


async def measuring(env: aiocg.Env) -> dict[str, str]:
    return {name: await env.send_parameter(name, "") for name in ("samples", "seconds", "patience")}


@pytest.mark.slow
async def test_a_schedule_is_searched_from_templates_and_told_as_one_action(make: Callable[..., Any]) -> None:
    env = await make("generator://loops-v0/matmul?m=96&n=96&k=96", threads="1")
    before, templates = await measuring(env), await env.observe("templates")
    assert list(templates) == ["C"]
    result = await schedule(env, budget=Budget(evaluations=24), seed=2)
    assert await measuring(env) == before and env.reward_space == "flops"
    assert result.evaluations == 24 and len(result.state.outcomes) == 24
    assert result.reward > 0  # without vectors and registers a product is ten times as slow
    (action,) = result.actions
    assert action.startswith("nests<") and "=vectorize" in action
    tree = await env.observe("loop_tree")  # the environment is left at the best
    assert "[vectorized]" in tree and ("[unrolled]" in tree) == ("=unroll" in action)


@pytest.mark.slow
async def test_the_reward_of_a_measured_search_is_the_median_of_its_last_rounds(
    make: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    env = await make("generator://loops-v0/matmul?m=64&n=64&k=64", threads="1")
    rewards: dict[tuple[str, ...], list[float]] = {}
    evaluate = Lane.evaluate

    async def remembering(self: Lane, lists: Any) -> Any:
        outcomes = await evaluate(self, lists)
        for actions, outcome in zip(lists, outcomes, strict=True):
            rewards.setdefault(actions, []).append(outcome.reward)
        return outcomes

    monkeypatch.setattr(Lane, "evaluate", remembering)
    result = await schedule(env, budget=Budget(evaluations=8), seed=1)
    assert len(rewards[result.actions]) >= ROUNDS + 1
    assert result.reward == statistics.median(rewards[result.actions][-ROUNDS:])
    assert result.state.reward == result.reward


@pytest.mark.slow
async def test_where_nothing_is_calculated_the_reward_to_take_is_named(make: Callable[..., Any]) -> None:
    env = await make(make_benchmark("B[i:32, j:32] = A[j, i]"))
    with pytest.raises(ValueError, match="take the reward roof_fraction"):
        await schedule(env, budget=Budget(evaluations=8))
    env.reward_space = "roof_fraction"
    found = await schedule(env, budget=Budget(evaluations=8))
    assert found.evaluations > 1


async def test_it_is_said_what_schedules_are_searched_for(make: Callable[..., Any]) -> None:
    env = await make("benchmark://loop_tool-cpu-v0/64", "loop_tool-v0")
    with pytest.raises(ValueError, match="schedule is for computations of loops-v0, not for loop_tool-v0"):
        await schedule(env)
