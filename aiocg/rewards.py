"""Rewards: what a step was worth, computed by the client from cost observations that come back with the step."""

from collections.abc import Mapping
from typing import Any

__all__ = ["CostReward", "Reward", "llvm_rewards"]


class Reward:
    """A reward space. Without state of its own: what it needs is observed, so forks and `expand` need no care.

    Attributes:
        name: of the space.
        observation_spaces: what must be observed after each step.
        baseline_spaces: what must be observed once per episode, at its start.
        deterministic, platform_dependent: as for observations.
        success_threshold: the return from which on an episode counts as a success, None if there is no such thing.
    """

    observation_spaces: tuple[str, ...] = ()
    baseline_spaces: tuple[str, ...] = ()
    deterministic = True
    platform_dependent = False
    success_threshold: float | None = None

    def __init__(self, name: str, description: str = "") -> None:
        self.name = name
        self.description = description

    def reward(self, before: Mapping[str, Any], after: Mapping[str, Any], baseline: Mapping[str, Any]) -> float:
        """Return what the step was worth.

        Args:
            before, after: the observations named in `observation_spaces`, at both ends of the step.
            baseline: those named in `baseline_spaces`.
        """
        raise NotImplementedError(f"reward {self.name} does not say what a step is worth")

    def reward_on_error(self, episode_reward: float) -> float:
        """Return the reward of a step that failed: by default it takes back what the episode had earned."""
        return -episode_reward


class CostReward(Reward):
    """The decrease of a cost, optionally scaled by what a baseline optimisation achieves.

    With C the cost before and C' the cost after the step, C(O0) the unoptimised cost and C(B) that of the baseline::

        no scale:            C - C'
        scaled by O0:       (C - C') / max(C(O0), 1)
        scaled by B:        (C - C') / max(C(O0) - C(B), 1)

    Where the baseline does not beat O0 by at least one unit, the denominator is 1: the reward then counts plain units.
    Summed over an episode, 1 is as good as the baseline. This is CompilerGym's definition (Cummins et al., CGO 2022).

    Args:
        name: of the reward.
        cost: the observation that is to decrease.
        unoptimised: the observation that gives C(O0); needed for both scaled forms.
        optimised: the observation that gives C(B).
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
        return float(before[self.cost] - after[self.cost]) / self._scale(baseline)

    def _scale(self, baseline: Mapping[str, Any]) -> float:
        if self.unoptimised is None:
            return 1.0
        scale = baseline[self.unoptimised]
        if self.optimised is not None:
            scale -= baseline[self.optimised]
        return float(max(scale, 1))


def llvm_rewards() -> list[Reward]:
    """Return the rewards of the LLVM environments."""
    count = "IrInstructionCount"
    return [
        CostReward(count, count, description="decrease of the number of IR instructions"),
        CostReward(
            f"{count}Norm",
            count,
            unoptimised=f"{count}O0",
            description="decrease of the number of IR instructions, as a fraction of the unoptimised number",
        ),
        *(
            CostReward(
                f"{count}{level}",
                count,
                unoptimised=f"{count}O0",
                optimised=f"{count}{level}",
                description=f"decrease of the number of IR instructions; 1 is what -{level} achieves",
            )
            for level in ("O3", "Oz")
        ),
    ]
