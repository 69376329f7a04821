"""What the driver does for every search: never worse than the baselines, nothing twice, and the same on any machine."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from aiocg.search import (
    Budget,
    Outcome,
    Pace,
    Progress,
    Proposal,
    SearchResult,
    SearchState,
    beam,
    evolve,
    greedy,
    mcts,
    nevergrad,
    opentuner,
    portfolio,
    random,
    tune,
)
from aiocg.search._driver import Alphabet
from aiocg.search._prefix_evaluation import Lane
from aiocg.search.baselines import baselines
from aiocg.spaces import DiscreteActions
from aiocg.spaces.rewards import Reward

pytestmark = pytest.mark.asyncio(loop_scope="session")  # one runtime for all searches

Search = Callable[..., Awaitable[SearchResult]]
SEARCHES: dict[str, Search] = {
    "greedy": greedy,
    "beam": beam,
    "random": random,
    "evolve": evolve,
    "mcts": mcts,
    "portfolio": portfolio,
}


OUTSIDE: dict[str, Search] = {
    "nevergrad": nevergrad,
    "opentuner": opentuner,
}


@pytest.fixture(params=OUTSIDE)
def outside(request: pytest.FixtureRequest) -> Search:
    pytest.importorskip(request.param, reason=f"this search needs the extra {request.param}")
    found: Search = OUTSIDE[request.param]
    return found


@pytest.fixture(params=SEARCHES)
def search(request: pytest.FixtureRequest) -> Search:
    found: Search = SEARCHES[request.param]
    return found


def essence(result: SearchResult) -> tuple[Any, ...]:
    state = result.state
    return result.actions, result.reward, result.evaluations, result.complete, state.outcomes, state.checksum


class Lists:
    """Proposes certain lists."""

    def __init__(self, lists: Sequence[Sequence[str]]) -> None:
        self.left = [Proposal(tuple(actions), number) for number, actions in enumerate(lists)]
        self.told: list[tuple[int, Outcome]] = []

    def ask(self, count: int) -> list[Proposal]:
        asked, self.left = self.left[:count], self.left[count:]
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        self.told.append((proposal.tag, outcome))


@pytest.mark.sampled
@pytest.mark.few(1)
async def test_the_result_does_not_depend_on_the_number_of_lanes(calm, search) -> None:  # type: ignore[no-untyped-def]
    results = [await search(await calm(2, 997), budget=Budget(evaluations=250), lanes=lanes) for lanes in (1, 2, 5)]
    assert essence(results[0]) == essence(results[1]) == essence(results[2])
    assert results[0].evaluations == 250 or results[0].complete


@pytest.mark.few(3)
async def test_a_search_that_is_resumed_gives_the_same(calm, search) -> None:  # type: ignore[no-untyped-def]
    through = await search(await calm(2, 997), budget=Budget(evaluations=200), lanes=1)
    state = None
    for piece in (1, 70, 129):
        result = await search(await calm(2, 997), budget=Budget(evaluations=piece), resume=state, lanes=2)
        state = SearchState.from_json(result.state.to_json())
    assert essence(result) == essence(through)


@pytest.mark.sampled
@pytest.mark.few(3)
async def test_workers_killed_at_random_do_not_change_the_result(calm, killer, search) -> None:  # type: ignore[no-untyped-def]
    budget = Budget(evaluations=250)
    undisturbed = await search(await calm(2, 997), budget=budget)
    async with killer() as killed:
        while len(killed) < 3:
            assert essence(await search(await calm(2, 997), budget=budget, lanes=3)) == essence(undisturbed)


@pytest.mark.few(3)
async def test_a_search_leaves_no_sessions_and_the_environment_at_the_best(calm, sessions, search) -> None:  # type: ignore[no-untyped-def]
    env = await calm(2, 997)
    result = await search(env, budget=Budget(evaluations=150), lanes=3)
    assert env.episode_reward == pytest.approx(result.reward) and env.action_texts == result.actions
    await asyncio.sleep(0.05)
    assert await sessions() == 1


@pytest.mark.few(3)
async def test_the_list_found_earns_what_the_search_says(world, search) -> None:  # type: ignore[no-untyped-def]
    env = await world(3, 200)
    env.action_space = "Places"
    result = (
        await search(env, budget=Budget(evaluations=60), seed=2)
        if search not in (greedy, beam)
        else await search(env, budget=Budget(evaluations=60))
    )
    await env.reset()
    assert result.reward > 0 and (await env.step_texts(result.actions))[1] == result.reward


# --------------------------------------------------------------------------------------------------- what is tried


async def test_outcomes_are_told_in_order_with_what_they_came_to(calm) -> None:  # type: ignore[no-untyped-def]
    lists = [[], ["double"], ["double", "nothing", "square"], ["square", "increment"], ["double", "double", "double"]]
    tuner = Lists(lists)
    result = await tune(await calm(3, 50), lambda alphabet: tuner, pace=Pace(2, 2), lanes=2)
    assert [number for number, _ in tuner.told] == [0, 1, 2, 3, 4]
    assert [outcome.state for _, outcome in tuner.told] == [3, 6, 36, 10, 24]
    assert [outcome.reward for _, outcome in tuner.told] == [0.0, 3.0, 33.0, 7.0, 21.0]
    assert tuner.told[2][1].actions == ("double", "square")
    assert (result.actions, result.reward, result.complete) == (("double", "square"), 33.0, True)


async def test_who_watches_is_told_what_the_tuner_is_told_and_may_end_the_search(calm) -> None:  # type: ignore[no-untyped-def]
    lists = [["increment"] * count for count in range(1, 21)]
    tuner, seen = Lists(lists), list[Outcome]()

    def watch(outcome: Outcome) -> bool:
        seen.append(outcome)
        return len(seen) < 6

    ended = await tune(await calm(3, 50), lambda alphabet: tuner, pace=Pace(2, 2), watch=watch)
    assert seen == [outcome for _, outcome in tuner.told] and 6 <= len(seen) < 20 and not ended.complete
    rest: list[Outcome] = []
    state = SearchState.from_json(ended.state.to_json())
    again = Lists(lists)
    found = await tune(
        await calm(3, 50), lambda alphabet: again, pace=Pace(2, 2), resume=state, watch=lambda one: rest.append(one)
    )
    assert found.complete and found.evaluations == 20
    assert [*seen, *rest] == [outcome for _, outcome in again.told]  # each once, and no outcome of before again


async def test_a_search_can_start_behind_any_actions(calm) -> None:  # type: ignore[no-untyped-def]
    tuner = Lists([[], ["square"], ["increment"]])
    found = await tune(await calm(3, 200), lambda alphabet: tuner, start=("double", "increment"))
    assert [outcome.state for _, outcome in tuner.told] == [7, 49, 8]
    assert found.actions == ("double", "increment", "square") and found.state.start == "double, increment"
    with pytest.raises(ValueError, match="is of another search"):
        await tune(await calm(3, 200), lambda alphabet: Lists([[]]), start=("double",), resume=found.state)
    with pytest.raises(ValueError, match="can start at O0"):
        await tune(await calm(3, 200), lambda alphabet: Lists([[]]), start="double")


async def test_a_list_that_leads_where_another_led_is_not_evaluated_again(calm) -> None:  # type: ignore[no-untyped-def]
    lists = [
        ["double"],
        ["double"],
        ["nothing"],
        ["nothing", "double"],
        ["increment"] * 3,
        ["increment"] * 3 + ["square"],
    ]
    tuner = Lists([*lists, ["double", "square"], ["nothing", "double", "square"]])
    result = await tune(await calm(3, 50), lambda alphabet: tuner, pace=Pace(1, 1))
    assert result.evaluations == 4  # double, nothing, three times increment, and the square of what that came to
    assert [outcome.state for _, outcome in tuner.told] == [6, 6, 3, 6, 6, 36, 36, 36]


async def test_lists_that_fail_are_worth_less_than_any_other_and_fail_once(world) -> None:  # type: ignore[no-untyped-def]
    tuner = Lists([["refuse"], ["double", "refuse"], ["crash"], ["refuse", "double"], ["crash", "double"], ["double"]])
    result = await tune(await world(3, 50), lambda alphabet: tuner, pace=Pace(2, 1), lanes=1)
    assert [outcome.failed for _, outcome in tuner.told] == [True] * 5 + [False]
    assert result.state.outcomes == (None, None, None, 3.0) and result.evaluations == 4


async def test_lists_with_a_common_beginning_that_fails_all_fail(world) -> None:  # type: ignore[no-untyped-def]
    trunk = ["double", "double", "refuse", "double"]
    tuner = Lists([[*trunk, "increment"], [*trunk, "double"], [*trunk, "square"], ["square", "double"]])
    await tune(await world(3, 50), lambda alphabet: tuner, lanes=1)
    assert [outcome.failed for _, outcome in tuner.told] == [True, True, True, False]


async def test_a_job_that_takes_far_too_long_is_begun_twice_and_the_first_answer_counts(  # type: ignore[no-untyped-def]
    calm, monkeypatch
) -> None:
    right = await greedy(await calm(2, 997), budget=Budget(evaluations=60), lanes=2)
    stuck: list[Lane] = []
    ended: list[Lane] = []

    class Stuck(Lane):
        """Does not answer the fifth time."""

        times = 0

        async def evaluate(self, lists: Sequence[tuple[str, ...]]) -> list[Outcome]:
            type(self).times += 1
            if self.times != 5:
                return await super().evaluate(lists)
            stuck.append(self)
            await self.env.snapshot()  # it has begun something
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(self)
            raise AssertionError

    monkeypatch.setattr("aiocg.search._driver.Lane", Stuck)
    monkeypatch.setattr("aiocg.search._dispatcher.LEAST", 0.05)
    async with asyncio.timeout(60):
        result = await greedy(await calm(2, 997), budget=Budget(evaluations=60), lanes=2)
    assert essence(result) == essence(right)
    assert stuck == ended and len(stuck) == 1
    assert Stuck.times > 6


async def test_what_lists_begin_with_is_executed_once(calm, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    env = await calm(3, 50)
    tried = 0
    expand = type(env).expand_texts

    async def counted(self: Any, lists: Any, **options: Any) -> Any:
        nonlocal tried
        tried += sum(map(len, lists))
        return await expand(self, lists, **options)

    monkeypatch.setattr(type(env), "expand_texts", counted)
    trunk = ["increment", "double"] * 10
    await tune(env, lambda alphabet: Lists([[*trunk, one, two] for one in trunk[:2] for two in trunk[:2]]), lanes=1)
    assert tried == len(trunk) + 4 * 2


async def test_a_lane_forgets_its_oldest_states_and_finds_them_again(calm, sessions) -> None:  # type: ignore[no-untyped-def]
    env = await calm(1, 50)
    await env.reset()
    lane = Lane(env, env.action_space)
    trunks = [("increment",) * count + ("double",) * 4 for count in range(1, 45)]
    for _ in range(2):
        for trunk in trunks:
            outcomes = await lane.evaluate([(*trunk, "increment"), (*trunk, "double")])
            value = len(trunk[:-4]) + 1
            assert [one.state for one in outcomes] == [16 * value + 1, 32 * value]
    lane.close()
    await asyncio.sleep(0.05)
    assert await sessions() == 1


class Lucky(Reward):
    """Is worth a lot when a state is seen for the first time."""

    deterministic = False

    def __init__(self) -> None:
        super().__init__("lucky", "")
        self.observation_spaces = ("value",)
        self._seen: set[int] = set()

    def reward(self, before: Any, after: Any, baseline: Any) -> float:
        """Return much for what is new."""
        new = after["value"] not in self._seen
        self._seen.add(after["value"])
        return 100.0 if new else 1.0


@pytest.mark.few(3)
async def test_what_seems_to_be_best_is_measured_again(calm, search) -> None:  # type: ignore[no-untyped-def]
    env = await calm()
    env.reward_spaces["lucky"] = Lucky()
    env.reward_space = "lucky"
    result = await search(env, budget=Budget(evaluations=40), lanes=1)
    assert result.reward <= 60.0  # of luck there is none left


# ------------------------------------------------------------------------------------------------- never worse


@pytest.mark.few(3)
async def test_the_baselines_are_tried_whatever_the_budget(runtime, search) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/qsort")
    assert list(baselines(env)) == ["O0", "Oz", "Os", "O3", "O2", "OzMinsize"]
    for budget in (Budget(evaluations=1), Budget(seconds=0.001)):
        result = await search(env, budget=budget)
        assert result.reward == max(result.baselines.values()) == 1.0 == result.baselines["Oz"]
        assert set(result.baselines) == set(baselines(env))
        assert (result.actions, result.start, result.improved) == (("default<Oz>",), "Oz", False)
        assert result.baselines["O0"] == 0.0 and result.baselines["O3"] < 1.0
    await env.close()


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("start", ["Oz", "O3"])
async def test_a_search_begins_where_it_is_told(runtime, search, start) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/crc32")
    seen: list[tuple[str, ...]] = []
    result = await search(
        env, start=start, budget=Budget(evaluations=150), progress=lambda now: seen.append(now.actions), lanes=1
    )
    assert result.reward >= result.baselines["Oz"] and result.state.start == start
    level = (f"default<{start}>",)
    others = baselines(env).values()
    assert all(actions[:1] == level for actions in seen if actions not in others)
    assert await env.observe("IrInstructionCount") <= min(
        await env.observe("IrInstructionCountOz", "IrInstructionCountOzMinsize")
    )
    await env.close()


async def test_a_start_that_there_is_not_is_refused(runtime, calm) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ValueError, match="can start at O0, not at 'Oz'"):
        await greedy(await calm(), start="Oz")


async def test_minimizing_leaves_what_earns_its_place_within_its_share(calm) -> None:  # type: ignore[no-untyped-def]
    actions = ["increment", "increment", "nothing", "square", "double", "increment"]
    env = await calm(3, 50)
    result = await tune(env, lambda alphabet: Lists([actions]), minimize=True, lanes=2)
    assert (result.actions, result.reward) == (("increment", "increment", "square", "double"), 47.0)
    assert result.state.actions == result.actions and env.action_texts == result.actions
    limited = await tune(env, lambda alphabet: Lists([actions]), minimize=True, budget=Budget(evaluations=2))
    assert limited.evaluations <= 2 and limited.reward >= 45.0


# ------------------------------------------------------------------------------------------------------ a user's own


async def test_a_tuner_of_ones_own_is_a_class_with_two_methods(calm) -> None:  # type: ignore[no-untyped-def]
    class Doubler:
        def __init__(self, alphabet: Alphabet) -> None:
            self.best: tuple[float, tuple[str, ...]] = (0.0, ())
            self.texts = list(alphabet.texts(Outcome(0.0)))

        def ask(self, count: int) -> list[Proposal]:
            return [Proposal((*self.best[1], text)) for text in self.texts]

        def tell(self, proposal: Proposal, outcome: Outcome) -> None:
            self.best = max(self.best, (outcome.reward, outcome.actions))

    seen: list[Progress] = []
    result = await tune(await calm(3, 96), Doubler, name="mine", budget=Budget(evaluations=100), progress=seen.append)
    assert (result.reward, result.state.algorithm) == (93.0, "mine") and seen[-1].reward == 93.0


# -------------------------------------------------------------------------------------------------- outside tuners


@pytest.mark.sampled
@pytest.mark.slow
async def test_an_outside_tuner_gives_the_same_on_any_number_of_lanes_and_when_resumed(world, outside) -> None:  # type: ignore[no-untyped-def]
    results = []
    for lanes, pieces in ((1, [50]), (2, [50]), (2, [20, 30])):
        env, state = await world(2, 997), None
        env.action_space = "Arithmetic"
        for piece in pieces:
            result = await outside(env, seed=1, length=6, budget=Budget(evaluations=piece), lanes=lanes, resume=state)
            state = SearchState.from_json(result.state.to_json())
        results.append(essence(result))
    assert results[0] == results[1] and results[0][1] > 0
    assert results[2][:3] == results[1][:3]
    env.action_space = "Places"
    with pytest.raises(ValueError, match="depend on the state"):
        await outside(env)


@pytest.mark.sampled
@pytest.mark.slow
async def test_an_outside_tuner_searches_a_real_program_and_leaves_no_files(
    runtime, outside, tmp_path, monkeypatch
) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.chdir(tmp_path)
    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd")
    result = await outside(env, budget=Budget(evaluations=60), start="O3", minimize=True)
    assert result.reward >= max(result.baselines.values()) and 0 < result.evaluations <= 60
    await env.reset()
    assert (await env.step_texts(result.actions))[1] == pytest.approx(result.reward)
    await env.close()
    assert not list(tmp_path.iterdir())


async def test_a_job_is_no_longer_than_there_is_time_for() -> None:
    meter = Budget(seconds=1000.0).start()
    assert [meter.fitting(seconds) for seconds in (300.0, 1001.0, 1e9)] == [3, 1, 1]
    assert Budget(seconds=0.0).start().fitting(1.0) == 1 and Budget(evaluations=1).start().fitting(1.0) > 10**6


@pytest.mark.slow
async def test_an_evaluation_that_never_ends_is_cut_off_with_the_budget(world) -> None:  # type: ignore[no-untyped-def]
    env = await world(3, 50)
    env.timeout = 600
    names = ["increment", "hang", "double"]
    env.action_space = DiscreteActions.of_texts("some hang", names, env.action_space.language)
    result = await asyncio.wait_for(greedy(env, budget=Budget(seconds=5)), 60)
    assert not result.complete and result.reward > 0
    assert await env.observe("value") == 50 - (47 - result.reward)  # left at what was found


async def test_how_long_the_levels_took_is_part_of_the_result(calm) -> None:  # type: ignore[no-untyped-def]
    result = await greedy(await calm(), budget=Budget(evaluations=4))
    assert 0 < result.levels <= result.elapsed
