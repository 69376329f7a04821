"""Searches in action spaces of every kind, beside a search through everything."""

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest

from aiocg.search import Budget, SearchState, beam, greedy, random

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all searches

START, TARGET = 3, 250


def recipes(value: int) -> dict[str, int]:
    return {"increment": value + 1, "double,increment": 2 * value + 1, "square,square": value**4}


def arithmetic(value: int) -> dict[str, int]:
    products = {f"multiply<{factor}>": value * factor for factor in (2, 3)}
    return {f"add<{n}>": value + n for n in (1, 5, 10)} | products | {"multiply<2;increment>": 2 * value + 1}


def places(value: int) -> dict[str, int]:
    found = {}
    for place, digit in enumerate(reversed(str(value))):
        found[f"@{place}(raise)"] = value + 10**place
        found[f"@{place}(clear)"] = value - int(digit) * 10**place
    return found


WORLDS = {"Recipes": recipes, "Arithmetic": arithmetic, "Places": places}
Successors = Callable[[int], dict[str, int]]


@pytest.fixture(params=WORLDS)
def space(request: pytest.FixtureRequest) -> str:
    """The name of an action space."""
    name: str = request.param
    return name


def value_after(texts: tuple[str, ...], successors: Successors) -> int:
    value = START
    for text in texts:
        others = {"nothing": value, "multiply<3;increment>": 3 * value + 1}  # not among what is tried by default
        value = {**others, **successors(value)}[text]
    return value


def reward_of(value: int) -> int:
    return abs(START - TARGET) - abs(value - TARGET)


def reachable(successors: Successors, depth: int) -> set[int]:
    found = level = {START}
    for _ in range(depth):
        level = {after for value in level for after in successors(value).values()}
        found = found | level
    return found


async def test_a_wide_beam_finds_the_best_there_is(world, space) -> None:  # type: ignore[no-untyped-def]
    env = await world(START, TARGET)
    env.action_space = space
    result = await beam(env, width=1000, depth=3)
    assert result.reward == max(map(reward_of, reachable(WORLDS[space], 3)))
    assert reward_of(value_after(result.actions, WORLDS[space])) == result.reward


async def test_greedy_takes_the_best_action_in_every_state(world, space) -> None:  # type: ignore[no-untyped-def]
    env = await world(START, TARGET)
    env.action_space = space
    result = await greedy(env)
    value = START
    for text in result.actions:
        after = WORLDS[space](value)
        assert reward_of(after[text]) == max(map(reward_of, after.values()))
        value = after[text]
    assert max(map(reward_of, WORLDS[space](value).values())) <= reward_of(value) == result.reward
    assert await env.observe("value") == value


@pytest.mark.few(1)
async def test_random_finds_what_it_says(world, space) -> None:  # type: ignore[no-untyped-def]
    results = []
    for lanes in (1, 3):
        env = await world(START, TARGET)
        env.action_space = space
        results.append(await random(env, budget=Budget(evaluations=150), seed=3, lanes=lanes))
    assert (results[0].actions, results[0].reward) == (results[1].actions, results[1].reward)
    assert reward_of(value_after(results[0].actions, WORLDS[space])) == results[0].reward > 0


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("search", [greedy, beam])
async def test_a_search_that_is_resumed_gives_the_same(world, space, search) -> None:  # type: ignore[no-untyped-def]
    async def run(**options: Any) -> Any:
        env = await world(START, TARGET)
        env.action_space = space
        return await search(env, **options)

    options = {"depth": 3} if search is beam else {}
    through = await run(**options)
    result = await run(**options, budget=Budget(evaluations=1))
    for evaluations in itertools.count(20):
        if result.complete:
            break
        state = SearchState.from_json(result.state.to_json())
        result = await run(**options, budget=Budget(evaluations=evaluations), resume=state)
    assert (result.actions, result.reward, result.evaluations) == (through.actions, through.reward, through.evaluations)


async def test_a_search_in_the_space_of_texts_tries_the_names_of_the_first_space(world) -> None:  # type: ignore[no-untyped-def]
    env = await world(3, 6)
    env.action_space = "Texts"
    result = await random(env, budget=Budget(evaluations=10), seed=1)
    assert all(re.fullmatch("[a-z]+", text) for text in result.actions)
    assert result.evaluations == 10
