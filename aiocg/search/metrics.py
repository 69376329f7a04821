"""Figures of merit for optimised programs, each with its formula.

They are easily taken for one another. With C0 the cost of the unoptimised program, CB that of a baseline such as -Oz,
and C that of the program found, all of the same cost:

* `reward_units`, (C0 - C) / max(C0 - CB, 1): the return of an episode in the reward space of that baseline.
  CompilerGym's leaderboard has this and, by its text, Table VI of its paper (Cummins et al., CGO 2022).
* `ratio`, CB / C: how many times smaller than the baseline. The same paper reports this of autotuners (its Table IV),
  as a geometric mean over programs.
* `percent_over`, 100 (CB - C) / CB: POSET-RL (ISPASS 2022), Compiler-R1 (NeurIPS 2025) and GRACE (2025), as an
  arithmetic mean over programs.

As an example, with CB half of C0 a return of 1.07 is a ratio of 1.075 and 7 % over the baseline; where the baseline
saves less, the same return means less. All of them depend on what -Oz is: here, it is what the loaded LLVM's own
`default<Oz>` makes of the program, as `opt` does, and not what CompilerGym's pipeline of LLVM 10 did.
"""

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from aiocg.env.env import Env
from aiocg.errors import ObservationFailed, ServiceError
from aiocg.search.lanes import go_to
from aiocg.spaces.rewards import CostReward, baselines_of

__all__ = ["Comparison", "Mean", "compare", "geometric_mean", "mean_of_ratios", "percent_over", "ratio", "reward_units"]

SAMPLES = 2_000


def reward_units(unoptimised: float, baseline: float, found: float) -> float:
    """Return (C0 - C) / max(C0 - CB, 1): 0 is the unoptimised program, 1 is as good as the baseline.

    Where the baseline does not beat the unoptimised program by at least one unit, the denominator is 1, so that this
    counts plain units of cost.
    """
    return (unoptimised - found) / max(unoptimised - baseline, 1)


def ratio(baseline: float, found: float) -> float:
    """Return CB / C: 1 is as good as the baseline, more is better; infinite when only the program found is free."""
    if found == 0:
        return 1.0 if baseline == 0 else math.inf
    return baseline / found


def percent_over(baseline: float, found: float) -> float:
    """Return 100 (CB - C) / CB: 0 is as good as the baseline, 100 the most there is. 0 when both cost nothing."""
    if baseline == 0:
        return 0.0 if found == 0 else -math.inf
    return 100.0 * (baseline - found) / baseline


def geometric_mean(values: Iterable[float]) -> float:
    """Return the n-th root of the product of n positive numbers: the mean to use for ratios.

    Raises:
        ValueError: when there are none, or one is not positive.
    """
    numbers = list(values)
    if not numbers or min(numbers) <= 0:
        raise ValueError("a geometric mean is of one or more positive numbers")
    return math.exp(math.fsum(map(math.log, numbers)) / len(numbers))


class Mean(NamedTuple):
    """A geometric mean over programs, and its 95 % interval; NaN of a single program, which has none."""

    mean: float
    low: float
    high: float


def mean_of_ratios(logs: Sequence[float], seed: int = 0) -> Mean:
    """Return the mean of logarithms as a ratio, and the 2.5 % and 97.5 % points of its bootstrap distribution.

    Args:
        logs: one of each program, which is what is drawn: seeds of a program are not independent of one another.
        seed: of the 2,000 samples.
    """
    mean = float(np.exp(np.mean(logs)))
    if len(logs) < 2:
        return Mean(mean, math.nan, math.nan)
    samples = np.random.default_rng(seed).choice(logs, (SAMPLES, len(logs))).mean(axis=1)
    low, high = np.exp(np.quantile(samples, (0.025, 0.975)))
    return Mean(mean, float(low), float(high))


@dataclasses.dataclass(frozen=True, slots=True)
class Comparison:
    """A program found, compared with what it was and with baselines.

    Attributes:
        cost: the observation that says what a program costs.
        unoptimised: the cost of the program as it came.
        found: the cost of the program found.
        baselines: the costs of the baselines, by name, such as "O3" and "Oz".
        beside: the same comparison in bytes, of costs that bytes have no part in: fewer instructions can be more bytes.
    """

    cost: str
    unoptimised: float
    found: float
    baselines: Mapping[str, float]
    beside: "Comparison | None" = None

    def to_dict(self) -> dict[str, Any]:
        """Return the costs and all figures as JSON can say them; one that is not finite is None."""
        named = {"cost": self.cost, "unoptimised": self.unoptimised, "found": self.found}
        baselines = {name: self._compared_with(cost) for name, cost in self.baselines.items()}
        return named | {"baselines": baselines, "beside": self.beside.to_dict() if self.beside is not None else None}

    def _compared_with(self, cost: float) -> dict[str, float | None]:
        units, percent = reward_units(self.unoptimised, cost, self.found), percent_over(cost, self.found)
        shown = {"ratio": _finite(ratio(cost, self.found)), "percent_over": _finite(percent)}
        return {"cost": cost, "reward_units": units, **shown}


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


_INSTRUCTIONS, _BYTES = "IrInstructionCount", "ObjectImageSizeOzMinsize"


async def compare(env: Env, actions: Sequence[str] | None = None) -> Comparison | None:
    """Compare the program at hand with what it was, and with what the baselines make of it.

    The cost is that of the environment's reward space: a search for `ObjectImageSizeOz` is compared in bytes. Numbers
    of instructions have the bytes beside them: wide vectors are few instructions and many bytes.

    Args:
        env: an environment that was reset.
        actions: texts of actions, as in `SearchResult.actions`, to go to first; None to compare the present state.

    Returns:
        The costs, or None when the reward space is none that lowers a cost with baselines.

    Raises:
        ServiceError: when an action fails, or a cost cannot be observed.
    """
    reward = env.reward_spaces.get(env.reward_space or "")
    if not isinstance(reward, CostReward) or "O0" not in _baselines(env, reward):
        return None
    if actions is not None:
        await go_to(env, actions)
    comparison = await _compared(env, reward)
    weighed = env.reward_spaces.get(_BYTES)
    if reward.cost == _INSTRUCTIONS and isinstance(weighed, CostReward):
        with contextlib.suppress(ServiceError):  # LLVM may have no code generator for the program
            return dataclasses.replace(comparison, beside=await _compared(env, weighed))
    return comparison


async def _compared(env: Env, reward: CostReward) -> Comparison:
    names = _baselines(env, reward)
    costs = await _observable(env, reward.cost, *names.values())
    known = {level: costs[name] for level, name in names.items() if name in costs}
    return Comparison(reward.cost, known.pop("O0"), costs[reward.cost], known)


async def _observable(env: Env, first: str, *others: str) -> dict[str, Any]:
    """Return observations by name, without others that fail: what a level makes of a program may have no machine code.

    Raises:
        ServiceError: when the first cannot be observed, or the compiler dies.
    """
    with contextlib.suppress(ObservationFailed):
        return dict(zip((first, *others), await env.observe(first, *others), strict=True))
    found = {first: await env.observe(first)}
    for name in others:
        with contextlib.suppress(ObservationFailed):
            found[name] = await env.observe(name)
    return found


def _baselines(env: Env, reward: CostReward) -> dict[str, str]:
    """Return the observations that give the cost of a reward at levels of optimisation, by level."""
    levels = {level: f"{reward.cost}_{level}" for level in ("O0", "O2", "O3", "Os", "Oz")}
    for names in (levels, baselines_of(reward)):
        if known := {level: name for level, name in names.items() if name in env.observation_spaces}:
            return known
    return {}
