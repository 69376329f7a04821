"""Searches on real programs."""

import pytest

from aiocg.search import Budget, SearchState, beam, greedy, random

pytestmark = pytest.mark.asyncio(loop_scope="session")


def essence(result):  # type: ignore[no-untyped-def]
    return result.actions, result.reward, result.evaluations, result.complete


@pytest.mark.slow
async def test_greedy_beats_oz_on_qsort(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("qsort", "llvm-ic-v0")
    result = await greedy(env)
    found, oz = await env.observe("IrInstructionCount", "IrInstructionCountOz")
    assert result.complete and result.reward > 1.0 and found < oz
    await env.reset()
    assert (await env.step(list(result.actions)))[1] == pytest.approx(result.reward)
    assert await env.observe("IrInstructionCount") == found


@pytest.mark.slow
async def test_greedy_takes_the_best_action_each_time(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("qsort", reward_space="IrInstructionCount")
    result = await greedy(env, lanes=2)
    assert result.improved
    await env.reset()
    for action in result.actions:
        rewards = [candidate.reward for candidate in await env.expand(range(env.action_space.n))]
        best = max(rewards)
        assert best > 0 and env.action_space.names[rewards.index(best)] == action
        await env.step(action)
    assert max(candidate.reward for candidate in await env.expand(range(env.action_space.n))) <= 0


@pytest.mark.slow
async def test_beam_is_at_least_as_good_as_greedy_of_the_same_depth(make) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd", reward_space="IrInstructionCount")
    climbed = await greedy(env)
    result = await beam(env, width=2, depth=len(climbed.actions))
    assert result.reward >= climbed.reward


@pytest.mark.few(1)
@pytest.mark.parametrize("search", [greedy, beam, random])
async def test_the_result_does_not_depend_on_the_number_of_lanes(make, search) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd", "llvm-ic-v0")
    budget = Budget(evaluations=3 * env.action_space.n)
    results = [await search(env, budget=budget, lanes=lanes) for lanes in (1, 3)]
    assert essence(results[0]) == essence(results[1])


@pytest.mark.few(1)
@pytest.mark.parametrize("search", [greedy, beam, random])
async def test_a_resumed_search_gives_the_same(make, search) -> None:  # type: ignore[no-untyped-def]
    env = await make("gcd", "llvm-ic-v0")
    size = env.action_space.n
    through = await search(env, budget=Budget(evaluations=4 * size))
    first = await search(env, budget=Budget(evaluations=through.evaluations // 2))
    state = SearchState.from_json(first.state.to_json())
    rest = Budget(evaluations=through.evaluations - first.evaluations)
    again = await search(await make("gcd", "llvm-ic-v0"), budget=rest, resume=state)
    assert essence(again) == essence(through)


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("search", [greedy, beam, random])
async def test_workers_killed_at_random_do_not_change_the_result(make, killer, search) -> None:  # type: ignore[no-untyped-def]
    env = await make("qsort", "llvm-ic-v0")
    budget = Budget(evaluations=6 * env.action_space.n)
    undisturbed = await search(env, budget=budget)
    async with killer(0.1, 0.5) as killed:
        while len(killed) < 2:
            disturbed = await search(await make("qsort", "llvm-ic-v0"), budget=budget, lanes=2)
            assert essence(disturbed) == essence(undisturbed)


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_workers_killed_all_the_time_do_not_change_a_whole_search(make, killer) -> None:  # type: ignore[no-untyped-def]
    undisturbed = await greedy(await make("sha256", "llvm-ic-v0"))
    async with killer(0.05, 0.3) as killed:
        while len(killed) < 2:
            disturbed = await greedy(await make("sha256", "llvm-ic-v0"))
            assert essence(disturbed) == essence(undisturbed)


async def test_a_cancelled_search_leaves_the_environment_usable(make, start_and_cancel) -> None:  # type: ignore[no-untyped-def]
    env = await make("qsort", "llvm-ic-v0")
    await start_and_cancel(beam(env, lanes=3))
    await env.reset()
    assert (await env.step("mem2reg"))[1] > 0
