"""Observations and rewards that a function is applied to."""

from collections.abc import Callable
from typing import Any

from aiocg.compat.gym.core import ObservationWrapper, RewardWrapper
from aiocg.compat.gym.spaces.utils import flatten, flatten_space

__all__ = ["FlattenObservation", "TransformObservation", "TransformReward"]


class TransformObservation(ObservationWrapper):
    """Applies a function to every observation.

    Args:
        env: the environment.
        f: the function.
    """

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def observation(self, observation: Any) -> Any:
        """Return what the function makes of an observation."""
        return self.f(observation)


class TransformReward(RewardWrapper):
    """Applies a function to every reward.

    Args:
        env: the environment.
        f: the function.
    """

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def reward(self, reward: Any) -> Any:
        """Return what the function makes of a reward."""
        return self.f(reward)


class FlattenObservation(ObservationWrapper):
    """Makes every observation an array of one dimension."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        """Return an observation as an array of one dimension."""
        return flatten(self.env.observation_space, observation)
