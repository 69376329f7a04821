"""Wrappers with other rewards: clamped to a range, or measured run times."""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers._transformation import RewardWrapper
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper
from aiocg.spaces.rewards import RuntimeReward

Number = TypeVar("Number", bound=Any)  # a float, or an array of them


def clamp(reward: Number, low: float, high: float, leakiness_factor: float) -> Number:
    """Clamp a reward, or an array of them; the excess is scaled by a factor."""
    within = np.clip(reward, low, high)
    return within + leakiness_factor * (reward - within)  # type: ignore[no-any-return]


def check_bounds(low: float, high: float, leakiness_factor: float) -> None:
    """Raise ValueError for an empty range, or a factor that would enlarge the excess."""
    if not low <= high or not 0 <= leakiness_factor <= 1:
        raise ValueError(f"expected min <= max and a leakiness_factor of 0 to 1, got {low}, {high}, {leakiness_factor}")


class ClampedReward(RewardWrapper, RecordConstructorArgs):
    """Clamps rewards to a range, keeping a small part of the excess.

    Args:
        env: what to wrap.
        min, max: the range.
        leakiness_factor: the part of the excess that is kept; 0 for none.
    """

    def __init__(
        self, env: "gymnasium.Env[Any, Any]", min: float = -1, max: float = 1, leakiness_factor: float = 0.001
    ) -> None:
        RecordConstructorArgs.__init__(self, min=min, max=max, leakiness_factor=leakiness_factor)
        check_bounds(min, max, leakiness_factor)
        self._bounds = (min, max, leakiness_factor)
        RewardWrapper.__init__(self, env)

    def convert_reward(self, reward: float) -> float:
        return float(clamp(reward, *self._bounds))

    @property
    def reward_range(self) -> tuple[float, float]:
        """The least and the greatest reward of a step, as far as they are known."""
        low, high = self.env.get_wrapper_attr("reward_range")
        least, greatest, leakiness_factor = self._bounds
        if leakiness_factor == 0:  # nothing of infinity
            low, high = np.clip((low, high), least, greatest)
        return self.convert_reward(low), self.convert_reward(high)


class RuntimePointEstimateReward(CompilerEnvWrapper, RecordConstructorArgs):
    """Makes the decrease of the program's running time, in seconds, the default reward, under the name `runtime`.

    Args:
        env: an LLVM environment.
        runtime_count: how often the program is run and timed after each step.
        warmup_count: how often it is run before.
        estimator: combines the measured times: a function, or "median", "min" or "mean".
    """

    def __init__(
        self,
        env: "gymnasium.Env[Any, Any]",
        runtime_count: int = 30,
        warmup_count: int = 0,
        estimator: str | Callable[[Sequence[float]], float] = statistics.median,
    ) -> None:
        RecordConstructorArgs.__init__(
            self, runtime_count=runtime_count, warmup_count=warmup_count, estimator=estimator
        )
        CompilerEnvWrapper.__init__(self, env)
        self.runtime_observation_count = runtime_count
        self.runtime_warmup_runs_count = warmup_count
        self.add_reward_space(RuntimeReward(estimator))
        self.reward_space = "runtime"
