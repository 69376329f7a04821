"""Rewards within bounds."""

from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers.transformation import RewardWrapper

__all__ = ["ClampedReward", "clamp"]

Number = TypeVar("Number", bound=Any)  # a float, or an array of them


def clamp(reward: Number, low: float, high: float, leakiness_factor: float) -> Number:
    """Return a reward, or an array of them, within bounds; what is beyond is scaled by a factor."""
    within = np.clip(reward, low, high)
    return within + leakiness_factor * (reward - within)  # type: ignore[no-any-return]


def check_bounds(low: float, high: float, leakiness_factor: float) -> None:
    """Raise ValueError when there is nothing between the bounds, or what is beyond them would grow."""
    if not low <= high or not 0 <= leakiness_factor <= 1:
        raise ValueError(f"expected min <= max and a leakiness_factor of 0 to 1, got {low}, {high}, {leakiness_factor}")


class ClampedReward(RewardWrapper, RecordConstructorArgs):
    """Clamps rewards to a range, and lets a little of what is beyond it leak through.

    Args:
        env: what to wrap.
        min, max: the range.
        leakiness_factor: what part of the distance to the range is kept outside it; 0 for none.
    """

    def __init__(
        self, env: "gymnasium.Env[Any, Any]", min: float = -1, max: float = 1, leakiness_factor: float = 0.001
    ) -> None:
        RecordConstructorArgs.__init__(self, min=min, max=max, leakiness_factor=leakiness_factor)
        check_bounds(min, max, leakiness_factor)
        self._bounds = (min, max, leakiness_factor)
        RewardWrapper.__init__(self, env)

    def convert_reward(self, reward: float) -> float:
        """Return the reward, clamped."""
        return float(clamp(reward, *self._bounds))

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward of a step, as far as they are known."""
        low, high = self.env.get_wrapper_attr("reward_range")
        least, greatest, leakiness_factor = self._bounds
        if leakiness_factor == 0:  # nothing of infinity
            low, high = np.clip((low, high), least, greatest)
        return self.convert_reward(low), self.convert_reward(high)
