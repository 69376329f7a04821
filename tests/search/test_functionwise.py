"""The search of each function by itself: what it knows of functions, and what it finds for real programs."""

import gc
from collections.abc import Awaitable, Callable, Sequence
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.search import Budget, Outcome, Progress, functionwise
from aiocg.search._functionwise import go_on
from aiocg.search._population import (
    ELITES,
    LONGEST,
    MARKS,
    PASSES,
    CallGraph,
    Function,
    Population,
    inlined_by,
    text_of,
)
from aiocg.search.baselines import baselines

COSTS = {"@a": 100.0, "@b": 50.0, "@tiny": 2.0}


def worth(passes: tuple[str, ...], cost: float) -> float:
    """Return a cost that falls with each different pass among the first six of all, and rises with length."""
    return cost - 5 * len(set(passes) & set(PASSES[:6])) + len(passes) // 10


@given(st.integers(0, 1 << 32))
def test_every_function_gets_cheaper_and_nothing_is_tried_twice(seed: int) -> None:
    population = Population(COSTS, [seed], core=[PASSES[:2]], marks=MARKS if seed % 2 else ())
    seen: set[tuple[str, tuple[str, ...]]] = set()
    for _ in range(150):
        proposal = population.propose()
        assert seen.isdisjoint(proposal.items())
        seen.update(proposal.items())
        assert all(0 < len(passes) <= LONGEST + 1 for passes in proposal.values())
        assert all(MARKS[0] not in passes[:-1] and MARKS[1] not in passes[:-1] for passes in proposal.values())
        population.learn(proposal, {name: worth(passes, COSTS[name]) for name, passes in proposal.items()})
    best = population.best
    assert population.functions["@a"].cost == worth(best["@a"], 100.0) <= 90.0
    assert population.cost == sum(worth(best.get(name, ()), cost) for name, cost in COSTS.items())
    assert all(len(function.elites) <= ELITES for function in population.functions.values())


def test_core_sequences_are_tried_first_on_all_functions() -> None:
    population = Population(COSTS, [0], core=[("sroa",), ("gvn", "dse")])
    assert population.propose() == {"@a": ("sroa",), "@b": ("sroa",)}
    assert population.propose() == {"@a": ("gvn", "dse"), "@b": ("gvn", "dse")}


def test_the_best_passes_of_a_function_are_tried_with_a_mark() -> None:
    population = Population(COSTS, [0], core=[("sroa",)], marks=MARKS[:1])
    population.learn(population.propose(), {"@a": 90.0, "@b": 50.0})
    marked = {"@a": ("sroa", MARKS[0]), "@b": (MARKS[0],)}
    assert population.propose() == marked
    population.learn(marked, {"@a": 95.0, "@b": 40.0})
    assert population.best == {"@a": ("sroa",), "@b": (MARKS[0],)}


def test_a_function_whose_passes_failed_keeps_what_it_had() -> None:
    population = Population(COSTS, [0])
    population.learn({"@a": ("sroa",)}, {"@a": 90.0})
    population.learn({}, {})
    assert population.best == {"@a": ("sroa",)}
    assert text_of({"@a": ("sroa", "gvn"), "@b": ("dse",)}) == "@a(sroa,gvn)@b(dse)"


CALLS = [("@main", "@big"), ("@main", "@part"), ("@big", "@part"), ("@part", "@leaf"), ("@leaf", "@part")]


def test_callers_come_first_and_recursion_is_not_inlined() -> None:
    graph = CallGraph(["@leaf", "@part", "@big", "@main"], CALLS, ["@leaf", "@part", "@big"])
    assert graph.order == ["@main", "@big", "@part", "@leaf"]
    assert [graph.below(name) for name in graph.order] == [("@big", "@part"), ("@part",), ("@leaf",), ()]


@pytest.mark.parametrize(
    ("inlined", "alive"),
    [
        ({}, {"@main", "@big", "@part", "@leaf"}),
        ({"@main": {"@big"}}, {"@main", "@part", "@leaf"}),
        ({"@main": {"@part"}, "@big": {"@part"}}, {"@main", "@big", "@leaf", "@part"}),  # the copied @leaf calls it
        ({"@main": {"@big", "@part"}}, {"@main", "@part", "@leaf"}),  # what was copied from @big calls @part
    ],
)
def test_functions_are_dead_when_all_that_call_them_have_inlined_them(
    inlined: dict[str, set[str]], alive: set[str]
) -> None:
    graph = CallGraph(["@main", "@big", "@part", "@leaf"], CALLS, ["@leaf", "@part", "@big"])
    functions = {name: Function((), {}, [], frozenset(inlined.get(name, ()))) for name in graph.order}
    assert graph.alive(functions) == alive


@given(st.integers(0, 1 << 32))
def test_it_is_inlined_when_that_makes_the_program_cheaper_with_what_is_dead_then(seed: int) -> None:
    """Two callers that each grow by 4 when they inline a function of 10: worth it for both together only."""
    costs = {"@main": 30.0, "@one": 20.0, "@two": 20.0, "@small": 10.0}
    calls = [("@main", "@one"), ("@main", "@two"), ("@one", "@small"), ("@two", "@small")]
    population = Population(costs, [seed], passes=("nothing",), calls=calls, removable=["@small"])
    for _ in range(60):
        proposal = population.propose()
        costs_now = {}
        for name, passes in proposal.items():
            grown = {"@main": 100.0, "@one": 4.0, "@two": 4.0}.get(name, 0.0)
            costs_now[name] = costs[name] + grown * len(inlined_by(passes))
        population.learn(proposal, costs_now)
    assert population.cost == 78.0
    assert population.some_dead
    assert population.best == {"@one": ("inline<@small>",), "@two": ("inline<@small>",)}


async def made(runtime: aiocg.Runtime, program: str, reward: str = "IrInstructionCountOz") -> aiocg.Env:
    return await runtime.make("llvm-v0", benchmark=f"programs-v0/{program}", reward_space=reward)


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.few(1)
@pytest.mark.parametrize("program", ["huffman", "json"])
async def test_what_is_found_is_better_than_every_level_and_is_what_it_is_said_to_be(
    runtime: aiocg.Runtime, program: str
) -> None:
    env = await made(runtime, program)
    found = await functionwise(env, budget=Budget(evaluations=60))
    await env.reset()
    levels = await env.expand_texts(list(baselines(env).values()), observation_spaces=["IrInstructionCount"])
    await env.step_texts(found.actions)
    count = await env.observe("IrInstructionCount")
    assert count < min(one.observation[0] for one in levels)
    assert env.episode_reward == pytest.approx(found.reward)
    assert found.evaluations <= 61


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_few_evaluations_are_spent_on_the_raw_program_too(runtime: aiocg.Runtime) -> None:
    env = await made(runtime, "calc")
    await functionwise(env, budget=Budget(evaluations=60), run=False)
    assert await env.observe("IrInstructionCount") < 0.97 * await env.observe("IrInstructionCountOzMinsize")


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_functions_are_marked_for_the_code_generator_where_that_makes_them_smaller(
    runtime: aiocg.Runtime,
) -> None:
    env = await made(runtime, "stencil", "ObjectImageSizeOzMinsize")
    found = await functionwise(env, budget=Budget(evaluations=40), run=False, codegen=False)
    assert any(MARKS[0] in action for action in found.actions)
    await env.reset()
    await env.step_texts(found.actions)
    chosen = await env.observe("ObjectImageSizeBytes")
    assert env.episode_reward == pytest.approx(found.reward)
    await env.reset()
    await env.step_texts([action.replace(MARKS[0], MARKS[1]) for action in found.actions])
    assert chosen < await env.observe("ObjectImageSizeBytes")


@pytest.mark.asyncio(loop_scope="session")
async def test_the_result_does_not_depend_on_the_number_of_lanes(runtime: aiocg.Runtime) -> None:
    results = [
        await functionwise(await made(runtime, "gcd"), budget=Budget(evaluations=60), seed=3, lanes=lanes)
        for lanes in (1, 2, 3)
    ]
    assert len({(result.actions, result.reward, result.evaluations) for result in results}) == 1


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_without_a_budget_the_answer_is_the_best_level_and_one_evaluation_may_improve_it(
    runtime: aiocg.Runtime,
) -> None:
    env = await made(runtime, "json")
    nothing = await functionwise(env, budget=Budget(seconds=0.0))
    assert nothing.reward == max(nothing.baselines.values())
    assert nothing.actions in baselines(env).values() and not nothing.improved
    little = await functionwise(env, budget=Budget(evaluations=1))
    assert little.reward >= nothing.reward


TWICE = """
define i32 @{name}(i32 %a, i32 %b) {{
  %c = mul i32 %a, %b
  %d = xor i32 %c, %a
  %e = mul i32 %d, 77
  %f = udiv i32 %e, %b
  %g = xor i32 %f, %d
  ret i32 %g
}}
"""


class Merged(Exception):
    """Two functions were found to be the same."""


@pytest.mark.asyncio(loop_scope="session")
async def test_the_module_is_cleaned_when_the_budget_counts_no_evaluations_and_errors_leave_no_lanes(
    runtime: aiocg.Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sessions: Callable[[], Awaitable[int]]
) -> None:
    def stop_when_merged(now: Progress) -> None:
        if "mergefunc" in now.actions:
            raise Merged

    monkeypatch.setattr(import_module("aiocg.search._functionwise"), "PATIENCE", 1)
    program = tmp_path / "twice.ll"
    program.write_text(TWICE.format(name="one") + TWICE.format(name="other"), encoding="utf-8")
    async with await runtime.make("llvm-v0", benchmark=program, reward_space="IrInstructionCountOz") as env:
        gc.disable()  # an error refers to the frames, and those to the lanes
        try:
            with pytest.raises(Merged):
                await functionwise(env, budget=Budget(), progress=stop_when_merged)
            assert await sessions() == 1
        finally:
            gc.enable()


@pytest.mark.asyncio(loop_scope="session")
async def test_who_watches_is_told_of_programs_and_may_end_the_search(runtime: aiocg.Runtime) -> None:
    seen: list[Outcome] = []

    def watch(outcome: Outcome) -> bool:
        seen.append(outcome)
        return len(seen) < 60

    env = await runtime.make("llvm-ic-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCount")
    found = await functionwise(env, budget=Budget(evaluations=100_000), watch=watch)
    assert 60 <= len(seen) < 2000 and found.evaluations < 2000 and not found.complete
    for outcome in seen[:: len(seen) // 8]:
        await env.reset()
        _, reward, *_ = await env.step_texts(outcome.actions)
        assert (env.state_hash, reward) == (outcome.state, outcome.reward)
    await env.close()


async def test_it_goes_on_from_what_was_found_and_never_falls_behind_that(runtime: aiocg.Runtime) -> None:
    results = []
    for _ in range(2):
        env, state, found = await made(runtime, "gcd"), None, []
        for _ in range(3):
            found.append(await functionwise(env, budget=Budget(evaluations=60), resume=state))
            state = found[-1].state
            assert await reward_of(env, found[-1].actions) == found[-1].reward
        await env.close()
        rewards = [one.reward for one in found]
        assert rewards == sorted(rewards)
        assert all(60 * number <= one.evaluations < 70 * number for number, one in enumerate(found, 1))
        results.append([(one.actions, one.reward) for one in found])
    assert results[0] == results[1]
    other = await made(runtime, "qsort")
    with pytest.raises(ValueError, match="another search: its benchmark"):
        await functionwise(other, resume=state)
    await other.close()


async def reward_of(env: aiocg.Env, actions: Sequence[str]) -> float:
    """Return what a list of actions earns."""
    await env.reset()
    _, reward, *_ = await env.step_texts(actions)
    return float(reward)


async def test_levels_that_take_too_long_for_the_time_are_left_out(
    runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("aiocg.search._functionwise"), "LONGEST_BEGINNING", 0.0)
    async with await runtime.make(
        "llvm-v0", benchmark="programs-v0/gcd", reward_space="ObjectImageSizeOzMinsize"
    ) as env:
        await env.reset()
        found = await functionwise(env, budget=Budget(seconds=1e-3))
        assert (found.actions, dict(found.baselines), found.complete) == (("mark<minsize>",), {}, False)
        await env.step_texts(["mem2reg"])


async def test_a_reward_that_functions_have_no_part_in_is_refused(runtime: aiocg.Runtime) -> None:
    env = await made(runtime, "gcd", "TextSizeOz")
    with pytest.raises(ValueError, match="functionwise knows what each function costs for rewards of"):
        await functionwise(env)


@pytest.mark.asyncio
async def test_lanes_that_come_to_another_program_are_left_behind() -> None:
    async with aiocg.Runtime(workers=1) as runtime:
        lanes = [await runtime.make("llvm-v0", benchmark="programs-v0/gcd") for _ in range(3)]
        for lane in lanes:
            await lane.reset()
        await lanes[1].step_texts(["reg2mem", "function-attrs"])
        left = await go_on(lanes, ("sroa", "gvn"))
        assert left == [lanes[0], lanes[2]] and left[0].state_hash == left[1].state_hash
        with pytest.raises(aiocg.errors.EnvClosed):
            await lanes[1].observe("IrInstructionCount")
        assert await go_on(left, ("@nobody(gvn)",)) == []


async def test_what_cannot_be_made_again_is_passed_over(
    runtime: aiocg.Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, ...]] = []

    async def arrives(lane: aiocg.Env, actions: tuple[str, ...]) -> bool:
        asked.append(actions)
        return len(asked) == 3

    monkeypatch.setattr(import_module("aiocg.search._functionwise"), "arrives", arrives)
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", reward_space="IrInstructionCountOz")
    result = await functionwise(env, budget=Budget(evaluations=80))
    assert result.actions == asked[2] and len(set(asked)) == 3
    assert result.reward == pytest.approx(env.episode_reward) and result.reward >= max(result.baselines.values())
