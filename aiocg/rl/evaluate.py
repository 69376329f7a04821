"""What a policy does on programs that it has not seen, without any search."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from aiocg.policies.policy import Policy
from aiocg.rl.programs import Program
from aiocg.rl.vector import PhaseOrdering, Plan, collect
from aiocg.search.metrics import Mean, mean_of_ratios, reward_units

__all__ = ["BASELINES", "TEMPERATURE", "Result", "Scores", "evaluate", "score"]

BASELINES = ("oz", "oz_minsize")
TEMPERATURE = 0.5  # of choices, unless another one is given


@dataclass(frozen=True, slots=True)
class Result:
    """What a policy has made of a program.

    Attributes:
        uri: the program.
        unoptimised, oz, oz_minsize: its instructions before, and after the two baselines.
        best: the fewest instructions on the way, by start.
        last: the instructions at the end of the episode, by start.
        actions: texts of the actions that lead to the best, without those of the start, by start.
    """

    uri: str
    unoptimised: float
    oz: float
    oz_minsize: float
    best: dict[str, float]
    last: dict[str, float]
    actions: dict[str, tuple[str, ...]]

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
        ratio: geometric mean of how many times smaller, with a 95 % interval by 2,000 bootstrap samples of programs.
        units: mean of what was saved, where 1 is what the baseline saves.
        worse: share of the programs that are larger than after the baseline.
    """

    what: str
    baseline: str
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
            against = [getattr(one, baseline) for one in results]
            logs = [math.log(max(base, 1) / max(value, 1)) for base, value in zip(against, values, strict=True)]
            units = [
                reward_units(one.unoptimised, base, value)
                for one, base, value in zip(results, against, values, strict=True)
            ]
            worse = np.mean([value > base for base, value in zip(against, values, strict=True)])
            found.append(Scores(what, baseline, mean_of_ratios(logs), float(np.mean(units)), float(worse)))
    return found
