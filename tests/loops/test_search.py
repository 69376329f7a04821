"""The searches, as they are, over schedules of loop nests."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.search import Budget, SearchResult, beam, genetic, greedy, hill_climb, random

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
}


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
