"""Random search: reproducible, however the work is shared and whatever happens meanwhile."""

import asyncio
import itertools

import pytest

from aiocg.search import Budget, Progress, SearchState, greedy, random

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all searches


def essence(result):  # type: ignore[no-untyped-def]
    return result.actions, result.reward, result.evaluations


@pytest.mark.slow
async def test_the_best_state_of_all_walks_is_found(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm(3, 50)
    result = await random(env, budget=Budget(evaluations=3000), patience=8)
    assert (result.reward, result.evaluations, result.complete) == (47.0, 3000, False)
    await env.reset()
    await env.step(list(result.actions))
    assert (await env.observe("value"), env.episode_reward) == (50, 47.0)


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("evaluations", [1, 7, 50, 300])
async def test_the_result_does_not_depend_on_the_number_of_lanes(calm, seed, evaluations) -> None:  # type: ignore[no-untyped-def]
    results = []
    for lanes in (1, 2, 5):
        budget = Budget(evaluations=evaluations)
        results.append(await random(await calm(2, 997), budget=budget, seed=seed, patience=6, lanes=lanes))
    assert essence(results[0]) == essence(results[1]) == essence(results[2])
    assert results[0].evaluations == evaluations
    assert results[0].state.round == results[1].state.round == results[2].state.round


async def test_another_seed_is_another_search(calm) -> None:  # type: ignore[no-untyped-def]
    budget = Budget(evaluations=40)
    results = {(await random(await calm(2, 997), budget=budget, seed=seed)).actions for seed in range(6)}
    assert len(results) > 1


@pytest.mark.sampled
@pytest.mark.few(1)
@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("piece", [1, 13, 100])
async def test_a_search_that_is_resumed_again_and_again_gives_the_same(calm, lanes, piece) -> None:  # type: ignore[no-untyped-def]
    through = await random(await calm(2, 997), budget=Budget(evaluations=201), patience=6)
    state, pieces = None, 20 if piece == 1 else 201 // piece
    for _ in range(pieces):
        budget = Budget(evaluations=piece)
        result = await random(await calm(2, 997), budget=budget, patience=6, resume=state, lanes=lanes)
        state = SearchState.from_json(result.state.to_json())
    rest = Budget(evaluations=201 - pieces * piece)
    result = await random(await calm(2, 997), budget=rest, patience=6, resume=state, lanes=lanes)
    assert essence(result) == essence(through)
    assert (result.state.round, result.state.outcomes) == (through.state.round, through.state.outcomes)


async def test_a_budget_may_be_a_number_of_numpys(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    result = await random(env, budget=Budget(evaluations=env.action_space.n), patience=6)
    assert SearchState.from_json(result.state.to_json()) == result.state and result.evaluations == 4


@pytest.mark.slow
async def test_what_was_found_before_is_kept_when_resumed(calm) -> None:  # type: ignore[no-untyped-def]
    first = await random(await calm(3, 50), budget=Budget(evaluations=500), patience=8)
    again = await random(await calm(3, 50), budget=Budget(seconds=0), patience=8, resume=first.state)
    with pytest.raises(ValueError, match="another seed"):
        await random(await calm(3, 50), budget=Budget(seconds=0), seed=1, patience=8, resume=first.state)
    assert essence(again) == essence(first)
    state = (await greedy(await calm())).state
    with pytest.raises(ValueError, match="algorithm"):
        await random(await calm(), resume=state)


@pytest.mark.slow
async def test_actions_that_crash_hang_or_fail_end_their_walk_only(world, sessions) -> None:  # type: ignore[no-untyped-def]
    env = await world(3, 50)
    result = await random(env, budget=Budget(evaluations=25), seed=1)
    again = await random(env, budget=Budget(evaluations=25), seed=1, lanes=1)
    assert result.reward > 0 and result.evaluations == 25
    assert {"hang", "crash", "abort", "exit", "grow", "refuse"}.isdisjoint(result.actions)
    assert essence(result) == essence(again)
    assert await sessions() == 1


async def test_a_time_limit_ends_the_search(calm) -> None:  # type: ignore[no-untyped-def]
    seen: list[Progress] = []
    result = await random(await calm(2, 997), budget=Budget(seconds=0.1), patience=6, progress=seen.append)
    assert result.elapsed >= 0.1 and result.evaluations > 0
    assert seen and all(a.reward <= b.reward for a, b in itertools.pairwise(seen))
    assert all(a.evaluations <= b.evaluations for a, b in itertools.pairwise(seen))
    more = await random(await calm(2, 997), budget=Budget(seconds=0.1), patience=6, resume=result.state)
    assert more.reward >= result.reward
    assert more.elapsed >= result.state.elapsed + 0.1


async def test_a_cancelled_search_leaves_nothing_and_the_environment_usable(calm, sessions, start_and_cancel) -> None:  # type: ignore[no-untyped-def]
    env = await calm(2, 997)
    await start_and_cancel(random(env, budget=Budget(), lanes=3))
    assert (await env.reset())[0] == 2
    await asyncio.sleep(0.05)
    assert await sessions() == 1
