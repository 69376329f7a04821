"""Searches over GCC's options: reproducible however the work is shared, and right in what they say they found."""

import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
import pytest_asyncio

import aiocg
from aiocg.search import (
    Budget,
    Progress,
    SearchResult,
    SearchState,
    compare,
    genetic,
    greedy,
    hill_climb,
    pareto,
    random,
    screening,
)
from aiocg.search.baselines import baselines
from aiocg.search.command_lines import WINDOW, search_command_lines
from aiocg.search.tuner import FAILED
from aiocg.search.variation import HEADS, Choices, Variation

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.needs("gcc"),
]

Search = Callable[..., Awaitable[SearchResult]]
Make = Callable[..., Awaitable[aiocg.Env]]

SMALLEST = "programs-v0/gcd"
REWARD = "obj_image_size_Oz"
FEW = 40  # evaluations; more than the window
SEED = 5  # of most searches, so that each command line is compiled for the first of them, and known to the others


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def runtime() -> AsyncIterator[aiocg.Runtime]:
    async with aiocg.Runtime(workers=2) as runtime:
        yield runtime


@pytest_asyncio.fixture(loop_scope="module")
async def make(runtime: aiocg.Runtime) -> AsyncIterator[Make]:
    """Make an environment in which an action is a whole command line, unless another action space is named."""
    made = []

    async def make(action_space: str = "choices") -> aiocg.Env:
        env = await runtime.make("gcc-v0", benchmark=SMALLEST, reward_space=REWARD, action_space=action_space)
        made.append(env)
        return env

    yield make
    for env in made:
        await env.close()


@pytest.fixture(params=["random", "hill_climb", "genetic", "screening"])
def search(request: pytest.FixtureRequest) -> Search:
    if request.param == "genetic":
        pytest.importorskip("pymoo", reason="the genetic search needs pymoo, of the extra search")
    searches = {"random": random, "hill_climb": hill_climb, "genetic": genetic, "screening": screening}
    found: Search = searches[request.param]
    return found


def essence(result: SearchResult) -> tuple[Any, ...]:
    return result.actions, result.reward, result.evaluations, result.state.outcomes, result.state.round


@pytest.mark.sampled
@pytest.mark.slow
async def test_the_result_does_not_depend_on_the_number_of_lanes(make: Make, search: Search) -> None:
    results = [
        await search(await make(), budget=Budget(evaluations=FEW), seed=SEED, lanes=lanes) for lanes in (1, WINDOW + 3)
    ]
    assert essence(results[0]) == essence(results[1])
    assert results[0].evaluations == len(results[0].state.outcomes) == FEW


@pytest.mark.sampled
@pytest.mark.few(1)
async def test_another_seed_is_another_search(make: Make, search: Search) -> None:
    budget = Budget(evaluations={genetic: 60, screening: 90}.get(search, 30))  # the first ones have no chance in them
    results = {(await search(await make(), budget=budget, seed=seed)).state.outcomes for seed in (SEED, SEED + 1)}
    assert len(results) == 2


@pytest.mark.sampled
@pytest.mark.slow
async def test_a_search_that_is_resumed_again_and_again_gives_the_same(make: Make, search: Search) -> None:
    through = await search(await make(), budget=Budget(evaluations=FEW), seed=SEED)
    state = None
    for piece in (1, 0, 20, FEW - 21):
        result = await search(await make(), budget=Budget(evaluations=piece), seed=SEED, resume=state)
        state = SearchState.from_json(result.state.to_json())
    assert essence(result) == essence(through)
    assert not result.complete


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.sampled
@pytest.mark.parametrize("name", ["opentuner", "nevergrad"])
async def test_outside_tuners_choose_options(make: Make, name: str) -> None:
    pytest.importorskip(name, reason=f"this search needs the extra {name}")
    search = getattr(aiocg.search, name)
    results = [await search(await make(), budget=Budget(evaluations=FEW), seed=SEED, lanes=lanes) for lanes in (1, 2)]
    assert essence(results[0]) == essence(results[1])
    outcomes = results[0].state.outcomes
    assert len(outcomes) == FEW > 2 * outcomes.count(None)  # most of them compile
    assert len(results[0].actions) == 1 and results[0].reward >= max(results[0].baselines.values())


@pytest.mark.slow
async def test_a_front_of_command_lines(make: Make) -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")
    env, costs = await make(), ("obj_image_size", "asm_size")
    found = await pareto(env, costs, budget=Budget(evaluations=FEW), seed=SEED)
    assert found.search.evaluations == FEW and set(found.baselines) == set(baselines(env))
    for point in found.points:
        await env.reset()
        await env.step_texts(point.actions)
        assert tuple(await env.observe(*costs)) == point.costs
    assert env.reward_space == REWARD


@pytest.mark.few(1)
async def test_the_command_line_found_earns_what_the_search_says(make: Make, search: Search) -> None:
    env = await make()
    result = await search(env, budget=Budget(evaluations=FEW), seed=SEED)
    (line,) = result.actions
    assert await env.observe("command_line") == line
    await env.reset()
    _, reward, terminated, _, _ = await env.step(line)
    assert not terminated and reward == pytest.approx(result.reward)
    assert await env.observe("command_line") == line
    known = [outcome for outcome in result.state.outcomes if outcome is not None]
    assert result.reward == max(*known, *result.baselines.values())
    comparison = await compare(env)
    assert comparison is not None and comparison.found == await env.observe("obj_image_size")
    assert set(comparison.baselines) == {"O2", "O3", "Os", "Oz"}
    assert comparison.unoptimised == await env.observe("obj_image_size_O0")


async def test_command_lines_that_do_not_compile_count_and_end_nothing(make: Make) -> None:
    env = await make()
    env.timeout = 0.25  # seconds: none is left for a compile, as a worker ends it a little before
    result = await random(env, budget=Budget(evaluations=12), seed=987)  # a seed of its own: others are remembered
    assert set(result.state.outcomes) == {None} and result.evaluations == 12
    assert not result.improved and result.reward == max(result.baselines.values())
    rest = await random(await make(), budget=Budget(evaluations=20), seed=987, resume=result.state)
    assert rest.evaluations == 32 and rest.state.outcomes[:12] == result.state.outcomes


async def test_hill_climbing_begins_with_what_is_known_to_help_and_goes_on_with_the_levels(make: Make) -> None:
    env = await make()
    result = await hill_climb(env, budget=Budget(evaluations=len(HEADS) + 1))
    assert result.reward > 1.0 and result.actions[0].startswith("gcc -Oz -fno-")
    assert set(result.baselines) == set(baselines(env)) >= {"O0", "O2", "O3", "Os", "Oz"}
    assert max(result.state.outcomes[:-1]) == result.reward and result.state.outcomes[-1] == 0.0  # nothing given


async def test_searches_of_whole_lines_choose_the_space_for_it(make: Make) -> None:
    env = await make("edits")
    result = await hill_climb(env, budget=Budget(evaluations=5))
    assert env.action_space.name == "edits" and result.state.action_space == "choices"
    with pytest.raises(ValueError, match="action_space"):
        await hill_climb(await make("command_line"), resume=result.state)


@pytest.mark.few(1)
@pytest.mark.parametrize("space", ["options", "command_line"])
async def test_all_spaces_of_whole_lines_are_searched_alike(make: Make, space: str) -> None:
    budget = Budget(evaluations=25)
    other, usual = [await random(await make(name), budget=budget, seed=SEED) for name in (space, "choices")]
    assert essence(other) == essence(usual)


async def test_among_edits_random_walks(make: Make) -> None:
    env = await make("edits")
    result = await random(env, budget=Budget(evaluations=40), patience=10, seed=1)
    assert result.state.action_space == "edits"
    assert not result.improved or set(result.actions) <= set(env.action_space.names)


async def test_every_new_best_is_told(make: Make) -> None:
    seen: list[Progress] = []
    result = await hill_climb(await make(), budget=Budget(evaluations=FEW), lanes=1, progress=seen.append, seed=SEED)
    best = max(result.baselines.values())
    bests = {best}
    for reward in result.state.outcomes:
        if reward is not None and reward > best:
            best = reward
            bests.add(best)
    assert bests == {progress.reward for progress in seen if progress.actions}
    assert all(a.reward <= b.reward for a, b in itertools.pairwise(seen))


@pytest.mark.few(2)
async def test_a_cancelled_search_leaves_the_environment_usable(
    make: Make, search: Search, start_and_cancel: Callable[[Coroutine[Any, Any, Any]], Awaitable[None]]
) -> None:
    env = await make()
    await start_and_cancel(search(env, seed=6, budget=Budget()))
    await env.reset()
    assert (await env.step("gcc -Oz"))[1] == 1.0


# ------------------------------------------------------------------------------------------------ the order of things


class Recorder:
    """Proposes levels in turn, and notes how many results it knew each time."""

    def __init__(self, variation: Variation) -> None:
        self.starts = variation.starts
        self.told: list[float] = []
        self.known: list[int] = []

    def ask(self) -> Choices:
        self.known.append(len(self.told))
        return self.starts[len(self.known) % len(self.starts)]

    def tell(self, choices: Choices, reward: float) -> None:
        self.told.append(reward)


@pytest.mark.parametrize("lanes", [1, 3])
async def test_a_proposal_knows_all_results_but_the_last_window_s(make: Make, lanes: int) -> None:
    recorders: list[Recorder] = []

    def proposer(variation: Variation) -> Recorder:
        recorders.append(Recorder(variation))
        return recorders[0]

    result = await search_command_lines("levels", await make(), proposer, lanes=lanes)
    (recorder,) = recorders
    heads = len(result.state.outcomes) - 2  # of which it is not told
    assert result.complete and heads == len(HEADS)  # nothing given and -O0: the other levels are known
    assert recorder.known == [max(0, n - WINDOW + 1) for n in range(len(recorder.known))]
    assert FAILED not in recorder.told
    assert recorder.told[: len(recorder.starts)] == recorder.told[len(recorder.starts) : 2 * len(recorder.starts)]


@pytest.mark.slow
async def test_workers_killed_at_random_do_not_change_the_result(make: Make, killer: Callable[..., Any]) -> None:
    budget = Budget(evaluations=60)
    undisturbed = await random(await make(), budget=budget, seed=SEED)
    async with killer() as killed:
        while len(killed) < 2:
            assert essence(await random(await make(), budget=budget, seed=SEED, lanes=3)) == essence(undisturbed)


# -------------------------------------------------------------------------------------------------- what is refused


async def test_a_compiler_without_options_is_refused(runtime: aiocg.Runtime) -> None:
    async with await runtime.make("llvm-ic-v0", benchmark=SMALLEST) as env:
        with pytest.raises(ValueError, match=r"llvm-ic-v0 has no options .* gcc-v0"):
            await hill_climb(env)


async def test_a_small_population_is_refused(make: Make) -> None:
    with pytest.raises(ValueError, match="more than 16 command lines, not 16"):
        await genetic(await make(), population=WINDOW)


async def test_without_pymoo_the_extra_is_named(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == "pymoo"]:
        monkeypatch.setitem(sys.modules, name, None)  # what Python takes for a package that is not there
    monkeypatch.setitem(sys.modules, "pymoo", None)
    monkeypatch.delitem(sys.modules, "aiocg.search._breeding", raising=False)
    monkeypatch.delattr(aiocg.search, "breeding", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'aiocg\[search\]'"):
        await genetic(await make())


@pytest.mark.slow
async def test_a_state_of_another_search_is_refused(make: Make) -> None:
    env = await make()
    state = (await hill_climb(env, budget=Budget(evaluations=1))).state
    with pytest.raises(ValueError, match="algorithm"):
        await random(env, resume=state)


async def test_greedy_takes_edits(make: Make) -> None:
    env = await make("edits")
    few = ["-Os", "-O2", "-fno-asynchronous-unwind-tables", "-fgcse"]
    await env.choose_actions(few)
    result = await greedy(env)
    assert "-fno-asynchronous-unwind-tables" in result.actions and result.complete
