"""Rewards of LLVM: how much a cost has decreased, on one of three scales."""

from typing import Any

from aiocg.compat.compiler_gym.spaces import Reward

__all__ = ["BaselineImprovementNormalizedReward", "CostFunctionReward", "NormalizedReward", "llvm_rewards"]


class CostFunctionReward(Reward):
    """The decrease of an observation that is a cost.

    Args:
        cost_function: the observation.
        init_cost_function: the observation that is the cost before the first action.
        kwargs: see `Reward`.
    """

    def __init__(self, cost_function: str, init_cost_function: str, **kwargs: Any) -> None:
        super().__init__(observation_spaces=[cost_function], **kwargs)
        self.cost_function = cost_function
        self.init_cost_function = init_cost_function
        self.previous_cost: float | None = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode."""
        self.previous_cost = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the decrease."""
        before = observation_view[self.init_cost_function] if self.previous_cost is None else self.previous_cost
        self.previous_cost = observations[0]
        return float(before - observations[0])


class NormalizedReward(CostFunctionReward):
    """The decrease, as a fraction of the cost before the first action."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cost_norm: float | None = None
        self.benchmark: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode; what scales the reward is computed once for a program."""
        super().reset(benchmark, observation_view)
        if self.benchmark is not benchmark and (self.benchmark is None or self.benchmark != benchmark):
            self.benchmark = benchmark
            self.cost_norm = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the decrease, scaled."""
        if self.cost_norm is None:
            self.cost_norm = self.get_cost_norm(observation_view)
        return super().update(actions, observations, observation_view) / self.cost_norm

    def get_cost_norm(self, observation_view: Any) -> float:
        """Return what the decrease is divided by."""
        return float(max(observation_view[self.init_cost_function], 1))


class BaselineImprovementNormalizedReward(NormalizedReward):
    """The decrease, as a fraction of what a level of the compiler achieves, or of one unit if that achieves nothing.

    Args:
        baseline_cost_function: the observation that is the cost at that level.
        kwargs: see `CostFunctionReward`.
    """

    def __init__(self, baseline_cost_function: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.baseline_cost_function = baseline_cost_function

    def get_cost_norm(self, observation_view: Any) -> float:
        """Return what the decrease is divided by."""
        saved = observation_view[self.init_cost_function] - observation_view[self.baseline_cost_function]
        return float(max(saved, 1))


_COSTS = (
    ("IrInstructionCount", "IrInstructionCount", False),
    ("ObjectTextSizeBytes", "ObjectTextSize", True),
    ("TextSizeBytes", "TextSize", True),
)


def llvm_rewards() -> list[Reward]:
    """Return the rewards of an LLVM environment, which keep what they know of its episode."""
    rewards: list[Reward] = []
    for cost, prefix, platform_dependent in _COSTS:
        common: dict[str, Any] = {
            "cost_function": cost,
            "init_cost_function": f"{prefix}O0",
            "default_negates_returns": True,
            "deterministic": True,
            "platform_dependent": platform_dependent,
        }
        rewards += [
            CostFunctionReward(name=cost, **common),
            NormalizedReward(name=f"{prefix}Norm", max=1, **common),
        ]
        rewards += [
            BaselineImprovementNormalizedReward(
                name=f"{prefix}{level}", baseline_cost_function=f"{prefix}{level}", success_threshold=1, **common
            )
            for level in ("O3", "Oz")
        ]
    return rewards
