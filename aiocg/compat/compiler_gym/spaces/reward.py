"""Rewards: what a step was worth, computed from observations."""

import warnings
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces.scalar import Scalar
from aiocg.compat.deprecation import outside

__all__ = ["DefaultRewardFromObservation", "Reward"]


class Reward(Scalar):
    """A reward space. To have one of your own, define `update` in a class of it, and `reset` if it keeps anything.

    Args:
        name: of the space.
        observation_spaces: names of what `update` is to be given.
        default_value: what a step is worth that fails.
        min, max: bounds, inclusive; None is unbounded.
        default_negates_returns: a failed step takes back what the episode had earned before, besides.
        success_threshold: the sum of rewards from which on an episode counts as a success.
        deterministic, platform_dependent: as for observations.
        id: what `name` was called before CompilerGym 0.2.1.

    Raises:
        TypeError: when it has no name.
    """

    def __init__(
        self,
        name: str | None = None,
        observation_spaces: list[str] | None = None,
        default_value: float = 0,
        min: float | None = None,
        max: float | None = None,
        default_negates_returns: bool = False,
        success_threshold: float | None = None,
        deterministic: bool = False,
        platform_dependent: bool = True,
        id: str | None = None,
    ) -> None:
        if id is not None:
            warnings.warn("Argument `id` of Reward has been renamed `name`", DeprecationWarning, stacklevel=outside())
            name = name or id
        if not name:
            raise TypeError("No name given: a reward space needs one")
        super().__init__(
            name=name, min=-np.inf if min is None else min, max=np.inf if max is None else max, dtype=np.float64
        )
        self.observation_spaces = list(observation_spaces or [])
        self.default_value = default_value
        self.default_negates_returns = default_negates_returns
        self.success_threshold = success_threshold
        self.deterministic = deterministic
        self.platform_dependent = platform_dependent

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode.

        Args:
            benchmark: the program of the episode.
            observation_view: whence observations can be had.
        """

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return what a step was worth.

        Args:
            actions: of the step.
            observations: those named in `observation_spaces`, after the step.
            observation_view: whence others can be had.
        """
        raise NotImplementedError(f"the reward {self.name} does not say what a step is worth")

    def reward_on_error(self, episode_reward: float | None) -> float:
        """Return what a step is worth that failed.

        Args:
            episode_reward: sum of the rewards of the episode before.
        """
        if self.default_negates_returns:
            return self.default_value - (episode_reward or 0)
        return self.default_value

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest reward."""
        return (self.min, self.max)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str):
            return bool(self.name == other)
        return isinstance(other, Reward) and bool(self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return str(self.name)


class DefaultRewardFromObservation(Reward):
    """The increase of an observation that is a number.

    Args:
        observation_name: of the observation.
        kwargs: see `Reward`.
    """

    def __init__(self, observation_name: str, **kwargs: Any) -> None:
        super().__init__(name=observation_name, observation_spaces=[observation_name], **kwargs)
        self.previous_value: Any = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode."""
        self.previous_value = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the increase; the first one of an episode is from 0, as the original has it."""
        value = observations[0]
        before, self.previous_value = self.previous_value, value
        return float(value - (0 if before is None else before))
