"""Beam search, beside a search through everything."""

import asyncio
import itertools

import pytest

from aiocg.search import Budget, Progress, SearchState, beam
from aiocg.spaces import DiscreteActions

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all searches

NAMES = ("nothing", "increment", "double", "square")


def exhaustive(start: int, target: int, depth: int) -> tuple[tuple[str, ...], float]:
    """Try all lists of actions; the best is that with the most reward, then the shortest, then the first in order."""
    found = []
    for length in range(depth + 1):
        for actions in itertools.product(range(1, 4), repeat=length):
            value = start
            for action in actions:
                value = (value + 1, value * 2, value * value)[action - 1]
            found.append((-(abs(start - target) - abs(value - target)), length, actions))
    loss, _, actions = min(found)
    return tuple(NAMES[action] for action in actions), -loss


@pytest.mark.parametrize(("start", "target"), [(3, 50), (1, 13), (2, 250), (7, 100), (9, 2), (3, 3)])
async def test_a_wide_beam_finds_the_best_there_is(calm, start, target) -> None:  # type: ignore[no-untyped-def]
    result = await beam(await calm(start, target), width=1000, depth=4)
    assert (result.actions, result.reward) == exhaustive(start, target, 4)


async def test_a_beam_looks_beyond_a_step_that_loses(calm) -> None:  # type: ignore[no-untyped-def]
    result = await beam(await calm(3, 50), width=16, depth=4)
    assert (result.actions, result.reward) == (("increment", "increment", "square", "double"), 47.0)


async def test_states_reached_twice_are_followed_once(calm) -> None:  # type: ignore[no-untyped-def]
    result = await beam(await calm(0, 50), width=1000, depth=3)
    # 0 -> 1 -> 2 -> {3, 4}: on each level there is one new state, or two
    assert (result.evaluations, len(set(result.state.states))) == (4 * 3, 5)


async def test_a_beam_ends_when_there_is_nothing_new(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm(0, 5)
    env.action_space = DiscreteActions.of_texts("still", ["nothing"], env.action_space.language)
    result = await beam(env, width=4, depth=10)
    assert (result.actions, result.complete, result.evaluations) == ((), True, 1)


@pytest.mark.sampled
@pytest.mark.few(5)
@pytest.mark.parametrize("width", [1, 3, 8])
@pytest.mark.parametrize("evaluations", [None, 0, 4, 5, 40, 100])
async def test_the_result_does_not_depend_on_the_number_of_lanes(calm, width, evaluations) -> None:  # type: ignore[no-untyped-def]
    results = []
    for lanes in (1, 2, 5):
        budget = Budget(evaluations=evaluations)
        result = await beam(await calm(2, 997), width=width, depth=8, budget=budget, lanes=lanes)
        results.append((result.actions, result.reward, result.evaluations, result.complete, result.state.outcomes))
    assert results[0] == results[1] == results[2]
    assert evaluations is None or results[0][2] <= evaluations


async def test_a_search_that_is_resumed_again_and_again_gives_the_same(calm) -> None:  # type: ignore[no-untyped-def]
    through = await beam(await calm(2, 997), width=5, depth=9)
    result = await beam(await calm(2, 997), width=5, depth=9, budget=Budget(evaluations=4))
    while not result.complete:
        state = SearchState.from_json(result.state.to_json())
        assert state == result.state
        result = await beam(await calm(2, 997), width=5, depth=9, budget=Budget(evaluations=30), resume=state)
    assert (result.actions, result.reward, result.evaluations) == (through.actions, through.reward, through.evaluations)
    assert result.state.outcomes == through.state.outcomes and result.state.states == through.state.states


async def test_a_search_goes_deeper_when_resumed_with_more_depth(calm) -> None:  # type: ignore[no-untyped-def]
    shallow = await beam(await calm(), width=16, depth=2)
    deep = await beam(await calm(), width=16, depth=4, resume=shallow.state)
    assert (shallow.complete, deep.reward) == (True, 47.0)


@pytest.mark.parametrize(("width", "depth"), [(0, 1), (1, 0), (-1, 5)])
async def test_sizes_that_make_no_sense_are_refused(calm, width, depth) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="at least 1"):
        await beam(await calm(), width=width, depth=depth)


async def test_candidates_that_crash_hang_or_fail_do_not_stop_the_search(world, sessions) -> None:  # type: ignore[no-untyped-def]
    result = await beam(await world(3, 81), width=2, depth=2)
    assert (result.actions, result.reward) == (("square", "square"), 78.0)
    assert await sessions() == 1


async def test_a_time_limit_ends_the_search(calm) -> None:  # type: ignore[no-untyped-def]
    seen: list[Progress] = []
    result = await beam(await calm(2, 2**60), width=4, depth=10**9, budget=Budget(seconds=0.1), progress=seen.append)
    assert not result.complete and result.elapsed >= 0.1
    assert seen and all(a.evaluations <= b.evaluations for a, b in itertools.pairwise(seen))


async def test_a_cancelled_search_leaves_nothing_and_the_environment_usable(calm, sessions, start_and_cancel) -> None:  # type: ignore[no-untyped-def]
    env = await calm(2, 2**60)
    await start_and_cancel(beam(env, width=4, depth=10**9, lanes=3))
    assert (await env.reset())[0] == 2
    await asyncio.sleep(0.05)
    assert await sessions() == 1
