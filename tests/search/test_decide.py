"""The search for decisions: what it knows of calls, what it finds for real programs, and what that is in the source."""

import random
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import aiocg
from aiocg.search import Budget, advice, decide
from aiocg.search._decisions import INLINE, KEEP, LEAVE, Decisions
from aiocg.search.baselines import baselines
from aiocg.states.behaviour import Behaviour

from ..machine import needs_headers

SITES = ["@main:@a:0", "@main:@a:1", "@a:@leaf:0", "@b:@leaf:0", "@c:@b:0", '@d:@"odd (name":0']
INLINED = [False, False, True, True, False, False]
COSTS = {"@main": 100.0, "@a": 60.0, "@b": 60.0, "@c": 50.0, "@d": 50.0, '@"odd (name"': 60.0}
SIZE = {"@leaf": 20.0, "@a": 40.0, "@b": 40.0, '@"odd (name"': 10.0}


def costs_of(marks: Mapping[int, str]) -> dict[str, float]:
    """A compiler in which an inlined call costs what the function has, and each kept call 8."""
    inlined = {place: mark == INLINE or (mark == LEAVE and INLINED[place]) for place, mark in marks.items()}
    found = dict(COSTS)
    for place, site in enumerate(SITES):
        caller, callee, _ = site.rsplit(":", 2) if '"' not in site else ("@d", '@"odd (name"', "0")
        found[caller] += SIZE[callee] - 30 if inlined.get(place, INLINED[place]) else 8
    for name in ("@a", "@b"):  # local functions
        places = [place for place, site in enumerate(SITES) if f":{name}:" in site]
        if all(inlined.get(place, INLINED[place]) for place in places):
            del found[name]
    return found


def started(seed: int = 0) -> Decisions:
    decisions = Decisions(SITES, INLINED, ["@a", "@b"], [seed])
    decisions.take(decisions.marks, costs_of(decisions.marks))
    return decisions


def test_it_begins_with_what_the_pipeline_does() -> None:
    decisions = started()
    assert decisions.marks == {place: KEEP for place, one in enumerate(INLINED) if not one}
    assert decisions.text(decisions.marks).startswith("@main:@a:0(mark<noinline>)@main:@a:1(mark<noinline>)@c:@b:0(")
    assert decisions.text({2: LEAVE}) == ""
    assert decisions.lighter()[0] == {}


@given(st.integers(0, 1 << 32))
def test_moves_that_are_tried_together_have_no_function_in_common_and_none_is_tried_twice(seed: int) -> None:
    decisions, seen = started(seed), set()
    while trials := decisions.propose(3):
        for trial in trials:
            areas = [area for _, area in trial.moves]
            assert sum(map(len, areas)) == len(frozenset().union(*areas))
            assert seen.isdisjoint(move for move, _ in trial.moves)
            seen.update(move for move, _ in trial.moves)
            assert all(trial.marks[place] == mark for move, _ in trial.moves for place, mark in move)
        if len(seen) > 40:
            break
    assert len(seen) > 20


@given(st.integers(0, 1 << 32))
def test_gains_add_up_and_the_best_marks_are_found(seed: int) -> None:
    decisions = started(seed)
    start = sum(decisions.costs.values())
    for _ in range(12):
        gains = [gain for trial in decisions.propose(2) for gain in decisions.gains(trial, costs_of(trial.marks))]
        if gains:
            marks = decisions.combined(gains)[0]
            costs = costs_of(marks)
            assert sum(costs.values()) < sum(decisions.costs.values())
            decisions.take(marks, costs)
    assert sum(decisions.costs.values()) < start
    assert "@a" not in decisions.costs and "@b" not in decisions.costs  # dead, as all calls of them are inlined
    assert decisions.marks[5] == INLINE


def test_what_is_inlined_in_a_function_is_marked_with_it() -> None:
    """LLVM inlines calls that are marked first, and would leave the calls inside of them."""
    moves = [move for trial in started().propose(8) for move, _ in trial.moves]
    assert ((0, INLINE), (1, INLINE), (2, INLINE)) in moves


def test_a_trial_that_gains_nothing_changes_nothing() -> None:
    decisions = started()
    (trial,) = decisions.propose(1)
    assert decisions.gains(trial, decisions.costs) == []
    assert decisions.gains(trial, {name: cost + 1 for name, cost in decisions.costs.items()}) == []


@pytest.mark.few(1)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("passes", [True, False])
async def test_what_is_found_is_smaller_than_every_level_and_does_the_same(
    runtime: aiocg.Runtime, passes: bool
) -> None:
    env = await runtime.make("llvm-v0", benchmark="programs-v0/qsort", reward_space="ObjectImageSizeOzMinsize")
    found = await decide(env, budget=Budget(evaluations=80), passes=passes)
    assert found.checks.behaviour is Behaviour.SAME
    assert found.reward > max(found.baselines.values())
    assert env.episode_reward == pytest.approx(found.reward)
    assert found.evaluations <= 81
    size = await env.observe("ObjectImageSizeMinsizeBytes")
    await env.reset()
    levels = await env.expand_texts(list(baselines(env).values()), observation_spaces=["ObjectImageSizeMinsizeBytes"])
    assert size < min(one.observation[0] for one in levels)


@pytest.mark.slow
@pytest.mark.asyncio(loop_scope="session")
async def test_the_result_does_not_depend_on_the_number_of_lanes(runtime: aiocg.Runtime) -> None:
    results = []
    for lanes in (1, 2, 3):
        env = await runtime.make("llvm-v0", benchmark="programs-v0/crc32", reward_space="IrInstructionCountOzMinsize")
        results.append(await decide(env, budget=Budget(evaluations=40), seed=3, lanes=lanes, passes=False, run=False))
    assert len({(result.actions, result.reward, result.evaluations) for result in results}) == 1
    assert results[0].reward >= 1.0


@pytest.mark.asyncio(loop_scope="session")
async def test_a_program_without_a_call_that_may_be_decided_gets_its_best_level(
    runtime: aiocg.Runtime, tmp_path: Path
) -> None:
    (tmp_path / "alone.c").write_text("int f(int x) { return x + x; }\n")
    benchmark = await runtime.find_benchmark(tmp_path / "alone.c")
    env = await runtime.make("llvm-v0", benchmark=benchmark, reward_space="ObjectImageSizeOzMinsize")
    found = await decide(env, budget=Budget(evaluations=12), passes=False, run=False)
    assert found.complete
    assert found.reward >= max(found.baselines.values())


@pytest.mark.asyncio(loop_scope="session")
async def test_a_reward_that_functions_have_no_part_in_is_refused(runtime: aiocg.Runtime) -> None:
    env = await runtime.make("llvm-v0", benchmark="programs-v0/gcd", reward_space="ObjectImageSizeOsOptsize")
    with pytest.raises(ValueError, match="decide knows what each function costs"):
        await decide(env)


@pytest.mark.few(1)
@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize(
    "program", ["calc", "btree", *(pytest.param(name, marks=pytest.mark.slow) for name in ("json", "eventsim"))]
)
@pytest.mark.parametrize("pipeline", ["clang<Oz>", "default<O3>"])
async def test_whatever_is_decided_programs_do_the_same(runtime: aiocg.Runtime, program: str, pipeline: str) -> None:
    chance = random.Random(program)
    env = await runtime.make("llvm-v0", benchmark=f"programs-v0/{program}")
    for marks in (["alwaysinline"], ["noinline"], ["alwaysinline", "noinline", "none"]):
        await env.reset()
        sites, loops, branches = await env.observe("CallSites", "Loops", "Branches")
        text = "".join(f"{site}(mark<{chance.choice(marks)}>)" for site in sites)
        hints = ["unroll=4", "vectorize=4", "unroll=none", "distribute"]
        text += "".join(f"{loop}(mark<{chance.choice(hints)}>)" for loop in loops)
        ways = ["likely", "unlikely", "unpredictable"]
        text += "".join(f"{branch}(mark<{chance.choice(ways)}>)" for branch in branches)
        await env.step_texts([text, pipeline])
        assert (await env.validate(sanitizers=(), minimize=False)).behaviour is Behaviour.SAME


SOURCE = """\
#include <stdio.h>
static int half(int x) { return x / 2 + 1; }
int work(int *p, int n) {
  int sum = 0;
  for (int i = 0; i < n; i++)
    sum += half(p[i]);
  return sum;
}
int main(void) {
  int p[3] = {1, 2, 3};
  printf("%d\\n", work(p, 3));
}
"""


@needs_headers
@pytest.mark.asyncio(loop_scope="session")
async def test_decisions_are_told_by_lines_of_the_source(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(SOURCE)
    actions = [
        "mark<minsize>",
        "@work:@half:0(mark<noinline>)@work:0(mark<unroll=4>)@main:@work:0(mark<none>)",
        "clang<Oz>",
    ]
    for flags, call, loop in (((), "", ""), (("-g",), "sum.c:6:12", "sum.c:5:")):
        env = await runtime.make("llvm-v0", benchmark=await runtime.find_benchmark(tmp_path / "sum.c", flags))
        first, second = await advice(env, actions)
        assert (first.what, first.source) == ("call of half in work", "[[clang::noinline]]")
        assert (second.what, second.source) == ("loop 0 in work", "#pragma clang loop unroll_count(4)")
        assert first.where.endswith(call) and bool(first.where) == bool(flags)
        assert loop in second.where and bool(second.where) == bool(flags)
        assert str(first).endswith("call of half in work: [[clang::noinline]]")
    assert await advice(env, ["clang<Oz>", "@main(sroa)"]) == []


@needs_headers
@pytest.mark.asyncio(loop_scope="session")
async def test_clang_does_with_the_advice_what_was_decided(runtime: aiocg.Runtime, tmp_path: Path) -> None:
    (tmp_path / "sum.c").write_text(SOURCE)
    env = await runtime.make("llvm-v0", benchmark=await runtime.find_benchmark(tmp_path / "sum.c", ("-g",)))
    (one,) = await advice(env, ["@work:@half:0(mark<noinline>)"])
    line = int(one.where.split(":")[1])
    lines = SOURCE.splitlines()
    lines[line - 1] = f"{one.source} {lines[line - 1]}"
    for text, kept in ((SOURCE, False), ("\n".join(lines), True)):
        (tmp_path / "told.c").write_text(text)
        await env.reset(benchmark=await runtime.find_benchmark(tmp_path / "told.c"))
        await env.step_texts(["mark<minsize>", "clang<Oz>"])
        assert ("@half(" in await env.observe("Ir")) == kept
