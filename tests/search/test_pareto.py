"""Fronts: of what was found and the compiler's own levels, nothing is better than a point, and its costs are true."""

import sys
from typing import Any

import numpy as np
import pytest

from aiocg.search import Budget, ParetoPoint, ParetoResult, SearchState, pareto
from aiocg.search.fronts import _FrontBreeder, front_of
from aiocg.search.tuner import FAILED, Outcome, Proposal
from aiocg.search.vectors import encode_lists

from .toy import ALPHABET, outcome_of

COSTS = ("IrInstructionCount", "ObjectImageSizeBytes")
PROGRAM = "programs-v0/gcd"
FEW = Budget(evaluations=80)  # some generations


@pytest.fixture(autouse=True)
def _pymoo() -> None:
    pytest.importorskip("pymoo", reason="a front needs pymoo, of the extra search")


def essence(found: ParetoResult) -> tuple[Any, ...]:
    return found.points, found.search.evaluations, found.search.state.outcomes, found.search.state.checksum


# ------------------------------------------------------------------------------------------------ without a compiler


def test_a_front_has_what_nothing_is_better_than_and_of_equal_points_the_first() -> None:
    def point(*costs: float, name: str = "") -> ParetoPoint:
        return ParetoPoint((), costs, name)

    points = [point(3, 1), point(1, 3), point(2, 2, name="O2"), point(2, 2), point(2, 3), point(3, 3)]
    assert front_of(points) == [point(1, 3), point(2, 2, name="O2"), point(3, 1)]
    assert front_of([point(1, np.inf), point(np.inf, 0)]) == []
    assert front_of([point(1, 2, 3), point(1, 3, 2), point(1, 3, 3)]) == [point(1, 2, 3), point(1, 3, 2)]


@pytest.mark.slow
def test_a_breeder_trades_length_for_reward_and_learns_from_failures() -> None:
    def costs(proposal: Proposal) -> Outcome:
        outcome = outcome_of(proposal.actions)
        return outcome if outcome.failed else Outcome(0.0, proposal.actions, 0, None, both(proposal.actions))

    def both(actions: tuple[str, ...]) -> tuple[float, ...]:
        return 1000.0 - outcome_of(actions).reward, float(len(actions))

    made = [_FrontBreeder(encode_lists(ALPHABET, 12), 2, 1) for _ in range(2)]
    asked: list[list[Proposal]] = [[], []]
    for breeder, all_of_them in zip(made, asked, strict=True):
        for _ in range(20):
            generation = breeder.ask(100)
            all_of_them += generation
            assert generation and breeder.ask(100) == []
            for proposal in reversed(generation):
                breeder.tell(proposal, costs(proposal))
    assert [one.actions for one in asked[0]] == [one.actions for one in asked[1]]
    front = made[0].points
    assert len(front) > 2 and front[-1].costs == (1000.0, 0.0)  # nothing done costs nothing
    assert all(one.costs == both(one.actions) for one in front)
    known = [both(one.actions) for one in asked[0] if outcome_of(one.actions).reward != FAILED]
    assert not any(low < one.costs[0] and short <= one.costs[1] for one in front for low, short in known)


# --------------------------------------------------------------------------------------------------- real programs


@pytest.mark.slow
async def test_points_cost_what_the_front_says_and_no_level_is_better(runtime) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-v0", benchmark="programs-v0/qsort")
    found = await pareto(env, COSTS, start="Oz", budget=FEW, seed=1)
    assert (found.costs, env.reward_space) == (COSTS, None)
    assert env.action_texts == found.points[0].actions
    assert any(not one.baseline for one in found.points), "a front of levels alone shows nothing"
    for point in found.points:
        await env.reset()
        await env.step_texts(point.actions)
        assert tuple(await env.observe(*COSTS)) == point.costs
        assert point.baseline or point.actions[0] == "default<Oz>"
    for level, costs in found.baselines.items():
        assert any(all(np.array(one.costs) <= costs) for one in found.points), level
    await env.close()


@pytest.mark.slow
async def test_a_front_does_not_depend_on_the_number_of_lanes_nor_on_being_resumed(runtime) -> None:  # type: ignore[no-untyped-def]
    results = []
    for lanes, pieces in ((1, [40]), (2, [40]), (2, [15, 0, 25])):
        env, state = await runtime.make("llvm-v0", benchmark=PROGRAM), None
        for piece in pieces:
            found = await pareto(env, COSTS, start="O3", budget=Budget(evaluations=piece), lanes=lanes, resume=state)
            state = SearchState.from_json(found.search.state.to_json())
        results.append(essence(found))
        await env.close()
    assert results[0] == results[1] == results[2]
    assert state is not None and len(state.costs) == 40


@pytest.mark.slow
async def test_what_was_measured_is_measured_again(runtime) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-v0", benchmark=PROGRAM)
    found = await pareto(env, ("IrInstructionCount", "runtime"), budget=Budget(evaluations=4), start="Oz", lanes=1)
    assert found.costs == ("IrInstructionCount", "Runtime")
    assert all(0 < cost < 60 for _, cost in [*found.baselines.values(), *[one.costs for one in found.points]])
    await env.close()


@pytest.mark.parametrize(
    ("costs", "says"),
    [
        (("IrInstructionCount", "IrInstructionCountOz"), "two costs or more, not of IrInstructionCount"),
        (("IrInstructionCount", "IsRunnable"), "'IsRunnable' is no cost of llvm-v0; these are: IrInstructionCount, "),
    ],
)
async def test_what_is_no_front_is_refused(runtime, costs, says) -> None:  # type: ignore[no-untyped-def]
    env = await runtime.make("llvm-v0", benchmark=PROGRAM)
    with pytest.raises(ValueError, match=says):
        await pareto(env, costs)
    await env.close()


async def test_without_pymoo_the_extra_is_named(runtime, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    for name in [name for name in sys.modules if name.split(".")[0] == "pymoo" or name == "aiocg.search._breeding"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pymoo", None)
    env = await runtime.make("llvm-v0", benchmark=PROGRAM)
    with pytest.raises(ImportError, match=r"pip install 'aiocg\[search\]'"):
        await pareto(env, COSTS, budget=FEW)
    assert env.reward_space is None
    await env.close()
