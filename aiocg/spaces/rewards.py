"""Rewards, computed by the client from cost observations that come with each step, and the names of baseline costs.

A name is what is counted, then a level of optimisation if it is that of a baseline, then a mark where functions are
marked for size as clang marks them: `Minsize` as `clang -Oz` does, `Optsize` as `-Os`. Sizes of machine code are
compared with the same mark on both sides, so that the passes alone make the difference; instructions are counted as
they are.
"""

import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiocg.datasets.errors import BenchmarkInitError
from aiocg.spaces import ObservationSpace, Scalar

__all__ = [
    "CostReward",
    "ObservationReward",
    "Reward",
    "RuntimeReward",
    "baselines_of",
    "llvm_rewards",
    "rewards_of_observations",
]


USUAL = "Oz"
"""`default<Oz>` of the program as it came: what the literature compares with."""

STRONGER = "OzMinsize"
"""What `clang -Oz` makes, its passes on the program marked for size: what "better than -Oz" means here."""

LEVELS = {
    "O3": "-O3",
    USUAL: "-Oz",
    "OsOptsize": "-Os of functions marked optsize",
    STRONGER: "-Oz of functions marked minsize",
}
"""What there are baselines of, with a few words on each."""

_MARKS = {"OsOptsize": "Optsize", STRONGER: "Minsize"}


class Baseline(NamedTuple):
    """What a level of optimisation costs, and what is to be compared with that: names of observations.

    Attributes:
        level: one of `LEVELS`.
        cost: of the program at hand.
        unoptimised: of the program as it came.
        optimised: of what the level makes of it.
    """

    level: str
    cost: str
    unoptimised: str
    optimised: str


class Baselines(NamedTuple):
    """The two baselines that results are told against, of levels `USUAL` and `STRONGER`."""

    usual: Baseline
    stronger: Baseline


class Cost(NamedTuple):
    """Something that a program costs.

    Attributes:
        prefix: with which all its names begin.
        unit: with which the names of the program at hand end; empty where no code is generated.
    """

    prefix: str
    unit: str
    what: str

    def baseline(self, level: str) -> Baseline:
        """Return what the cost is compared with at one of `LEVELS`."""
        prefix, mark = self.prefix, _MARKS.get(level, "") if self.unit else ""
        return Baseline(level, f"{prefix}{mark}{self.unit}", f"{prefix}O0{mark}", f"{prefix}{level}")


COSTS = (
    Cost("IrInstructionCount", "", "the number of IR instructions"),
    Cost("ObjectImageSize", "Bytes", "the bytes that the object file brings into an image"),
    Cost("ObjectTextSize", "Bytes", "the bytes of code and read-only data in the object file, as in CompilerGym"),
    Cost("TextSize", "Bytes", "the bytes of code and read-only data in the linked program"),
)
"""The costs that have baselines."""


def assumed_mark(cost: str) -> str:
    """Return the mark that a cost's name says functions have before code is generated: "Minsize", "Optsize" or ""."""
    return next((mark for mark in _MARKS.values() if cost.endswith(f"{mark}Bytes")), "")


def cost_baselines(cost: str) -> Baselines | None:
    """Return the two baselines for a cost, None for what is no cost of an LLVM environment.

    Each says in its `cost` what to observe of the program found: for sizes of machine code these differ.

    Args:
        cost: the observation that a search lowers, such as `IrInstructionCount`, or `ObjectImageSizeBytes` and
            `ObjectImageSizeMinsizeBytes`, for which the answer is the same.
    """
    for one in COSTS:
        if cost in {one.baseline(level).cost for level in LEVELS}:
            return Baselines(one.baseline(USUAL), one.baseline(STRONGER))
    return None


_Estimator = Callable[[Sequence[float]], float]


class Reward:
    """A reward space. It is stateless, because it is computed from observations; so forks and `expand` are simple.

    To make your own, subclass this, name the observations, and define `reward`. Then add it with
    `Env.add_reward_space`. Costs may be observations of the worker or derived ones.

    Attributes:
        name: of the space.
        observation_spaces: to be observed after each step.
        baseline_spaces: to be observed once at the start of each episode.
        deterministic, platform_dependent: as for observations.
        success_threshold: the least return of a successful episode, None if undefined.
        default_value: the reward of a failed step; with `default_negates_returns`, the return of the episode that it
            ends.
        default_negates_returns: whether a failure takes back the rewards of the episode.
    """

    observation_spaces: tuple[str, ...] = ()
    baseline_spaces: tuple[str, ...] = ()
    deterministic = True
    platform_dependent = False
    success_threshold: float | None = None
    default_value: float = 0.0
    default_negates_returns: bool = True

    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description

    @property
    def needs(self) -> tuple[str, ...]:
        """The observations that it is computed from; a compiler without one of them does not have the reward."""
        return (*self.observation_spaces, *self.baseline_spaces)

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the reward of a step.

        Args:
            before, after: the observations named in `observation_spaces`, at both ends of the step.
            baseline: those named in `baseline_spaces`.
        """
        raise NotImplementedError(f"reward {self.name} does not say what a step is worth")

    def reward_on_error(self, episode_reward: float) -> float:
        """Return the reward of a step that failed.

        Args:
            episode_reward: sum of the rewards of the episode before.
        """
        return self.default_value - episode_reward if self.default_negates_returns else self.default_value

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


class CostReward(Reward):
    """The decrease of a cost, optionally scaled by what a baseline optimisation achieves.

    With C the cost before and C' the cost after the step, C(O0) the unoptimised cost and C(B) that of the baseline::

        no scale:            C - C'
        scaled by O0:       (C - C') / max(C(O0), 1)
        scaled by B:        (C - C') / max(C(O0) - C(B), 1)

    Where the baseline does not beat O0 by at least one unit, the denominator is 1: the reward then counts plain units.
    Summed over an episode, 1 is as good as the baseline. This is CompilerGym's definition (Cummins et al., CGO 2022).
    What other papers report instead is in `aiocg.search.metrics`.

    Args:
        name: of the reward.
        cost: the observation that is to decrease.
        unoptimised: the observation that gives C(O0); needed for both scaled forms.
        optimised: the observation that gives C(B).
        platform_dependent: as for observations.
        description: one line.
    """

    def __init__(
        self,
        name: str,
        cost: str,
        *,
        unoptimised: str | None = None,
        optimised: str | None = None,
        platform_dependent: bool = False,
        description: str = "",
    ) -> None:
        super().__init__(name, description)
        self.cost = cost
        self.unoptimised = unoptimised
        self.optimised = optimised
        self.observation_spaces = (cost,)
        self.baseline_spaces = tuple(space for space in (unoptimised, optimised) if space is not None)
        self.platform_dependent = platform_dependent
        self.success_threshold = 1.0 if optimised is not None else None

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the decrease of the cost, scaled."""
        decrease = float(before[self.cost] - after[self.cost])
        if self.unoptimised is None:
            return decrease
        scale = baseline[self.unoptimised]
        if self.optimised is not None:
            scale -= baseline[self.optimised]
        return decrease / float(max(scale, 1))


class RuntimeReward(Reward):
    """The decrease of the program's running time, in seconds, as a point estimate of those that are observed.

    Every state is measured, including the first one of an episode. The number of runs and the input are parameters of
    the environment: see `aiocg.llvm.measurement`. A step fails if the program's output becomes wrong.

    Args:
        estimator: combines the measured times: "median", "min" or "mean", or a function.
        name: of the reward.
        space: the observation.
    """

    deterministic = False
    platform_dependent = True

    ESTIMATORS: Mapping[str, _Estimator] = {"median": statistics.median, "min": min, "mean": statistics.fmean}

    def __init__(self, estimator: str | _Estimator = "median", name: str = "runtime", space: str = "Runtime") -> None:
        if isinstance(estimator, str) and estimator not in self.ESTIMATORS:
            raise ValueError(f"an estimator is a function or one of {', '.join(self.ESTIMATORS)}, not {estimator!r}")
        label = estimator if isinstance(estimator, str) else getattr(estimator, "__name__", "estimate")
        super().__init__(name, f"decrease of the running time in seconds, the {label} of several runs")
        self.observation_spaces = (space,)
        self.estimator = self.ESTIMATORS[estimator] if isinstance(estimator, str) else estimator

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the decrease of the running time in seconds.

        Raises:
            BenchmarkInitError: when the benchmark cannot be run.
        """
        (space,) = self.observation_spaces
        return self._estimate(before[space]) - self._estimate(after[space])

    def _estimate(self, times: Sequence[float]) -> float:
        if len(times) == 0:
            raise BenchmarkInitError("program", f"the benchmark cannot be run, so there is no reward {self.name}")
        return float(self.estimator([float(time) for time in times]))


class ObservationReward(Reward):
    """The increase of a numeric observation, for observations without a reward of their own.

    Args:
        space: the observation, one number.
    """

    default_negates_returns = False  # as in CompilerGym's DefaultRewardFromObservation

    def __init__(self, space: ObservationSpace) -> None:
        super().__init__(space.name, f"increase of the observation {space.name}")
        self.observation_spaces = (space.name,)
        self.deterministic = space.deterministic
        self.platform_dependent = space.platform_dependent

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the increase of the observation."""
        return float(after[self.name] - before[self.name])


class GainReward(Reward):
    """The increase of a measured speed since the last state; an error takes back the whole gain of the episode.

    Has the noise of two measurements, since both states are measured. An action without effect is worth 0.

    Args:
        space: the observation, one number.
        description: one line.
    """

    deterministic = False
    platform_dependent = True

    def __init__(self, space: str, description: str) -> None:
        super().__init__(space, description)
        self.observation_spaces = (space,)

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return the increase."""
        return float(after[self.name] - before[self.name])


def rewards_of_observations(
    spaces: Mapping[str, ObservationSpace], rewards: Mapping[str, Reward] | None = None
) -> dict[str, Reward]:
    """Return a reward for every numeric observation without one, by name.

    Args:
        spaces: observation spaces by name.
        rewards: the existing ones, by name.
    """
    numbers = [space for space in spaces.values() if isinstance(space.space, Scalar)]
    return {space.name: ObservationReward(space) for space in numbers if space.name not in (rewards or {})}


def baselines_of(reward: CostReward) -> dict[str, str]:
    """Return the observations that give the cost of a reward in other programs: "O0", and levels of optimisation."""
    known: dict[str, str] = {}
    for baseline in (cost.baseline(level) for cost in COSTS for level in ("O3", USUAL, STRONGER)):
        if baseline.cost == reward.cost:
            known |= {"O0": baseline.unoptimised, baseline.level: baseline.optimised}
    named = {"O0": reward.unoptimised, "baseline": reward.optimised}
    return known or {level: name for level, name in named.items() if name is not None}


def llvm_rewards() -> list[Reward]:
    """Return the rewards of the LLVM environments."""
    return [*(reward for cost in COSTS for reward in _rewards_of(cost)), RuntimeReward()]


def _rewards_of(cost: Cost) -> Iterator[Reward]:
    baselines = [cost.baseline(level) for level in LEVELS]
    usual, machine, what = baselines[0], bool(cost.unit), f"decrease of {cost.what}"
    for name in dict.fromkeys(baseline.cost for baseline in baselines):
        mark = name.removeprefix(cost.prefix).removesuffix(cost.unit)
        text = f"{what}, with functions marked {mark.lower()}" if mark else what
        yield CostReward(name, name, platform_dependent=machine, description=text)
    yield CostReward(
        f"{cost.prefix}Norm",
        usual.cost,
        unoptimised=usual.unoptimised,
        platform_dependent=machine,
        description=f"{what}, as a fraction of what it was unoptimised",
    )
    for level, lowered, unoptimised, optimised in baselines:
        yield CostReward(
            optimised,
            lowered,
            unoptimised=unoptimised,
            optimised=optimised,
            platform_dependent=machine,
            description=f"{what}; 1 is what {LEVELS[level]} saves, or one unit where it saves none",
        )
