"""Evaluates a policy on unseen programs, without search."""

import contextlib
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from aiocg.policies import Policy
from aiocg.rl.programs import STARTS, Program
from aiocg.rl.vector import PhaseOrdering, Plan, collect
from aiocg.search.metrics import Mean, mean_of_ratios, reward_units
from aiocg.states.behaviour import Behaviour
from aiocg.states.state import CompilerEnvState
from aiocg.validation import validate_states

if TYPE_CHECKING:
    from aiocg.runtime import Runtime

__all__ = ["BASELINES", "TEMPERATURE", "Outlier", "Result", "Scores", "evaluate", "outliers", "score", "validated"]

BASELINES = ("oz", "oz_minsize")
TEMPERATURE = 0.5  # of choices, unless another one is given
UNLIKELY = 4.0  # times as small as the stronger baseline
PATIENCE = 30.0  # seconds for building a program and running it


@dataclass(frozen=True, slots=True)
class Result:
    """What a policy has made of a program.

    Attributes:
        uri: the program.
        unoptimised, oz, oz_minsize: its instructions before, and after the two baselines.
        best: the fewest instructions on the way, by start.
        last: the instructions at the end of the episode, by start.
        actions: texts of the actions that lead to the best, without those of the start, by start.
        behaviour: how the best behaves beside the original, by start; nothing before they were `validated`.
    """

    uri: str
    unoptimised: float
    oz: float
    oz_minsize: float
    best: dict[str, float]
    last: dict[str, float]
    actions: dict[str, tuple[str, ...]]
    behaviour: dict[str, Behaviour] = field(default_factory=dict)

    @property
    def with_fallback(self) -> float:
        """The fewest instructions of all starts and both baselines: what a search that falls back returns."""
        return min(*self.best.values(), self.oz, self.oz_minsize, self.unoptimised)


@dataclass(frozen=True, slots=True)
class Scores:
    """A figure over programs, relative to one baseline.

    Attributes:
        what: what is compared with the baseline: "from O0", "from O0, last state", "with fallback", ...
        baseline: "oz" or "oz_minsize", the stronger one.
        median: of how many times smaller; a few programs do not move it.
        ratio: geometric mean of the same, with a 95 % interval by 2,000 bootstrap samples of programs.
        units: mean of what was saved, where 1 is what the baseline saves.
        worse: share of the programs that are larger than after the baseline.
    """

    what: str
    baseline: str
    median: float
    ratio: Mean
    units: float
    worse: float

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON can say it."""
        ratio = {name: value if math.isfinite(value) else None for name, value in self.ratio._asdict().items()}
        return {**asdict(self), "ratio": ratio}


def evaluate(
    envs: PhaseOrdering,
    policy: Policy,
    programs: Sequence[Program],
    starts: Sequence[str],
    *,
    temperature: float = TEMPERATURE,
    seed: int = 0,
) -> list[Result]:
    """Run one episode from each start on each program.

    Args:
        envs: with the policy's actions.
        policy: to follow.
        programs: prepared for the starts.
        starts: their names.
        temperature: of the choices; 0 to take what the policy prefers, which comes less far, as the best program on
            the way counts and chance sees more of them.
        seed: of the choices.
    """
    plans = [
        Plan(program, start, (seed, place), temperature=temperature) if temperature else Plan(program, start)
        for place, program in enumerate(programs)
        for start in starts
    ]
    largest = sorted(range(len(plans)), key=lambda place: -plans[place].program.unoptimised)
    done = dict(zip(largest, collect(envs, policy, [plans[place] for place in largest]), strict=True))
    found = []
    for number, program in enumerate(programs):
        own = [done[number * len(starts) + place] for place in range(len(starts))]
        found.append(
            Result(
                program.uri,
                program.unoptimised,
                program.oz,
                program.oz_minsize,
                {one.plan.start: one.best for one in own},
                {one.plan.start: one.last for one in own},
                {one.plan.start: tuple(envs.actions[action] for action in one.taken) for one in own},
            )
        )
    return found


async def validated(runtime: "Runtime", results: Sequence[Result]) -> list[Result]:
    """Run the best programs, where they can be run, and return the results with what was seen.

    A program that does something else than the original counts as what its episode began with.
    """
    places = [(number, start) for number, one in enumerate(results) for start in one.best]
    states = []
    for number, start in places:
        actions = (*STARTS[start], *results[number].actions[start])
        states.append(CompilerEnvState(environment="llvm-v0", benchmark=results[number].uri, actions=actions))
    found = list(results)
    options: dict[str, Any] = {"sanitizers": (), "flakiness": 1, "timeout": PATIENCE, "minimize": False}
    checks = validate_states(runtime, states, ordered=True, **options)
    async with contextlib.aclosing(checks):
        for number, start in places:
            checked, one = await anext(checks), found[number]
            if checked.behaviour is Behaviour.DIFFERS:
                begun = one.oz_minsize if STARTS[start] else one.unoptimised
                one = replace(one, best={**one.best, start: begun}, last={**one.last, start: begun})
            found[number] = replace(one, behaviour={**one.behaviour, start: checked.behaviour})
    return found


class Outlier(NamedTuple):
    """A result that is too good or too bad to be believed unseen.

    Attributes:
        uri, start: which one.
        ratio: how many times smaller than the stronger baseline.
        behaviour: what was seen of it, see `Result`.
    """

    uri: str
    start: str
    ratio: float
    behaviour: Behaviour


def outliers(results: Sequence[Result]) -> list[Outlier]:
    """Return the results that are more than four times as small or as large as the stronger baseline."""
    found = [
        Outlier(one.uri, start, max(one.oz_minsize, 1) / max(cost, 1), one.behaviour.get(start, Behaviour.NOT_RUN))
        for one in results
        for start, cost in one.best.items()
    ]
    return [one for one in found if not 1 / UNLIKELY <= one.ratio <= UNLIKELY]


def score(results: Sequence[Result]) -> list[Scores]:
    """Return figures over programs against both baselines: of each start as it is, and with the fallback.

    Args:
        results: of at least one program.
    """
    costs: dict[str, list[float]] = {}
    for start in results[0].best:
        costs[f"from {start}"] = [one.best[start] for one in results]
        costs[f"from {start}, last state"] = [one.last[start] for one in results]
    costs["with fallback"] = [one.with_fallback for one in results]
    found = []
    for what, values in costs.items():
        for baseline in BASELINES:
            pairs = [(one.unoptimised, getattr(one, baseline), cost) for one, cost in zip(results, values, strict=True)]
            logs = [math.log(max(base, 1) / max(cost, 1)) for _, base, cost in pairs]
            units = [reward_units(*costs) for costs in pairs]
            worse = np.mean([cost > base for _, base, cost in pairs])
            median = math.exp(float(np.median(logs)))
            found.append(Scores(what, baseline, median, mean_of_ratios(logs), float(np.mean(units)), float(worse)))
    return found
