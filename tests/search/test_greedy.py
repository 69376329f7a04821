"""Greedy search, where the best answer is known."""

import asyncio
import itertools

import pytest

from aiocg.errors import UnknownName
from aiocg.search import Budget, Progress, SearchState, beam, greedy
from aiocg.spaces import DiscreteActions
from aiocg.spaces.rewards import Reward

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all searches

NAMES = ("increment", "double", "square")


def by_hand(start: int, target: int) -> tuple[list[str], int]:
    """Climb as greedy search is to climb; return the steps and the number reached."""
    actions, value = [], start
    while True:
        following = [value + 1, value * 2, value * value]
        gains = [abs(value - target) - abs(number - target) for number in following]
        best = max(gains)
        if best <= 0:
            return actions, value
        actions.append(NAMES[gains.index(best)])
        value = following[gains.index(best)]


@pytest.mark.parametrize(("start", "target"), [(3, 50), (1, 13), (2, 257), (7, 100), (9, 2), (4, 4), (0, 40)])
async def test_greedy_climbs_to_where_no_action_helps(calm, start, target) -> None:  # type: ignore[no-untyped-def]
    env = await calm(start, target)
    result = await greedy(env)
    actions, value = by_hand(start, target)
    assert (list(result.actions), await env.observe("value")) == (actions, value)
    assert result.reward == abs(start - target) - abs(value - target)
    assert (result.complete, result.evaluations) == (True, 4 * (len(actions) + 1))


async def test_the_environment_is_left_at_the_best_state(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    result = await greedy(env)
    assert (env.state.actions, env.episode_reward) == (result.actions, result.reward)


async def test_candidates_that_crash_hang_or_fail_do_not_stop_the_search(world, sessions) -> None:  # type: ignore[no-untyped-def]
    env = await world(3, 50)
    result = await greedy(env)
    assert (result.actions, result.reward, result.complete) == (("square", "square"), 16.0, True)
    assert await sessions() == 1


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize("lanes", [1, 2, 3, 7])
@pytest.mark.parametrize("evaluations", [None, 1, 3, 4, 39, 40, 41])
async def test_the_result_does_not_depend_on_the_number_of_lanes(calm, lanes, evaluations) -> None:  # type: ignore[no-untyped-def]
    env = await calm(0, 40)
    result = await greedy(env, lanes=lanes, budget=Budget(evaluations=evaluations))
    steps = by_hand(0, 40)[0]
    done = steps if evaluations is None else steps[: evaluations // 4]
    if evaluations is not None and evaluations % 4 == 3:  # the next step is all but done
        done = steps[: len(done) + 1]
    assert list(result.actions) == done
    assert result.complete == (evaluations is None)
    assert result.evaluations == (evaluations if evaluations is not None else 4 * (len(steps) + 1))


async def test_a_search_that_is_resumed_again_and_again_gives_the_same(calm) -> None:  # type: ignore[no-untyped-def]
    through = await greedy(await calm(0, 40))
    result = await greedy(await calm(0, 40), budget=Budget(evaluations=4))
    while not result.complete:
        state = SearchState.from_json(result.state.to_json())
        assert state == result.state
        result = await greedy(await calm(0, 40), budget=Budget(evaluations=8), resume=state)
    assert (result.actions, result.reward, result.evaluations) == (through.actions, through.reward, through.evaluations)


async def test_a_resumed_environment_is_left_at_the_best_state(calm) -> None:  # type: ignore[no-untyped-def]
    result = await greedy(await calm(), budget=Budget(evaluations=4))
    env = await calm()
    again = await greedy(env, budget=Budget(seconds=0), resume=result.state)
    assert (env.state.actions, again.actions, again.complete) == (("square",), ("square",), False)


async def test_resuming_what_is_complete_finds_nothing_more(calm) -> None:  # type: ignore[no-untyped-def]
    result = await greedy(await calm())
    again = await greedy(await calm(), resume=result.state)
    assert (again.actions, again.reward, again.complete) == (result.actions, result.reward, True)


async def test_resuming_another_search_is_refused(calm) -> None:  # type: ignore[no-untyped-def]
    state = (await beam(await calm(), depth=1)).state
    with pytest.raises(ValueError, match="algorithm"):
        await greedy(await calm(), resume=state)
    state = (await greedy(await calm())).state
    with pytest.raises(ValueError, match="benchmark"):
        await greedy(await calm(4), resume=state)


async def test_a_time_limit_ends_the_search_at_a_whole_step(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm(0, 2**60)
    env.action_space = DiscreteActions.of_texts("slow", ["nothing", "increment"], env.action_space.language)
    result = await greedy(env, budget=Budget(seconds=0.2))
    assert not result.complete and result.elapsed >= 0.2
    assert result.reward == len(result.actions) == await env.observe("value") > 0


async def test_no_time_at_all_is_a_search_that_found_nothing(calm) -> None:  # type: ignore[no-untyped-def]
    result = await greedy(await calm(), budget=Budget(seconds=0))
    assert (result.actions, result.reward, result.evaluations, result.complete) == ((), 0.0, 0, False)


@pytest.mark.slow
async def test_progress_is_told(calm) -> None:  # type: ignore[no-untyped-def]
    seen: list[Progress] = []
    env = await calm(0, 600)
    result = await greedy(env, progress=seen.append)
    assert seen and all(a.evaluations <= b.evaluations for a, b in itertools.pairwise(seen))
    assert all(a.reward <= b.reward for a, b in itertools.pairwise(seen))
    assert seen[-1].actions == result.actions[: len(seen[-1].actions)]


async def test_an_environment_without_a_reward_is_refused(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    env.reward_space = None
    with pytest.raises(ValueError, match="reward space"):
        await greedy(env)
    with pytest.raises(UnknownName):
        env.reward_space = "nonsense"


async def test_a_cancelled_search_leaves_nothing_and_the_environment_usable(calm, sessions, start_and_cancel) -> None:  # type: ignore[no-untyped-def]
    env = await calm(0, 2**60)
    env.action_space = DiscreteActions.of_texts("slow", ["nothing", "increment"], env.action_space.language)
    await start_and_cancel(greedy(env, lanes=3))
    assert (await env.reset())[0] == 0
    assert (await env.step("increment"))[:2] == (1, 1.0)
    await asyncio.sleep(0.05)
    assert await sessions() == 1


async def test_a_search_that_cannot_go_on_leaves_no_lanes(calm, sessions) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    calls = 0

    def fail(progress: Progress) -> None:
        raise RuntimeError("the caller's own")

    with pytest.raises(RuntimeError, match="the caller's own"):
        await greedy(env, progress=fail, lanes=4)
    assert calls == 0
    await asyncio.sleep(0.05)
    assert await sessions() == 1


class FirstImpression(Reward):
    """Is worth something the first time that it is measured."""

    deterministic = False

    def __init__(self) -> None:
        super().__init__("impression", "1 for what was not seen yet, and -1 for what was")
        self.observation_spaces = ("value",)
        self._seen: set[tuple[int, int]] = set()

    def reward(self, before, after, baseline) -> float:  # type: ignore[no-untyped-def]
        """Return whether the step is new."""
        step = (before["value"], after["value"])
        new = step not in self._seen
        self._seen.add(step)
        return 1.0 if new else -1.0


async def test_what_was_measured_is_measured_again_before_it_is_taken(calm) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    env.reward_spaces["impression"] = FirstImpression()
    env.reward_space = "impression"
    result = await asyncio.wait_for(greedy(env, budget=Budget(evaluations=200), lanes=1), 60)
    assert (result.complete, list(result.actions), result.reward) == (True, [], 0.0)
