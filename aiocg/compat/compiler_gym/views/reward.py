"""Rewards of the present state, on demand."""

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from aiocg.compat.compiler_gym.spaces.reward import Reward
from aiocg.compat.compiler_gym.views.observation import ObservationView

__all__ = ["RewardView"]


class RewardView:
    """Rewards since each was last computed: `env.reward["IrInstructionCount"]`, or `env.reward.IrInstructionCount()`.

    Args:
        spaces: the rewards.
        observation_view: whence they have observations.

    Attributes:
        spaces: the rewards, by name.
        previous_action: always None, as the original has it.
    """

    def __init__(self, spaces: Iterable[Reward], observation_view: ObservationView) -> None:
        self.spaces: dict[str, Reward] = {}
        self.previous_action: Any = None
        self._observation_view = observation_view
        for space in spaces:
            self._add_space(space)

    def __getitem__(self, reward_space: str) -> float:
        """Compute a reward.

        Raises:
            KeyError: when there is no such space.
            SessionNotFound: before the first reset.
            ValueError: when there are no rewards at all.
        """
        if not self.spaces:
            raise ValueError("No reward spaces")
        space = self.spaces[reward_space]
        observations = [self._observation_view[name] for name in space.observation_spaces]
        return space.update(self.previous_action, observations, self._observation_view)

    def reset(self, benchmark: Any, observation_view: ObservationView) -> None:
        """Tell all rewards that an episode begins.

        Args:
            benchmark: the program of the episode.
            observation_view: whence they have observations.
        """
        self.previous_action = None
        for space in self.spaces.values():
            space.reset(benchmark=benchmark, observation_view=observation_view)

    def add_space(self, space: Reward) -> None:
        """Add a reward of your own, in place of one of the same name."""
        if space.name in self.spaces:
            warnings.warn(f"Replacing existing reward space '{space.name}'", stacklevel=2)
        self._add_space(space)

    def _add_space(self, space: Reward) -> None:
        self.spaces[space.name] = space

    def __getattr__(self, name: str) -> Callable[[], float]:
        if name.startswith("_") or name == "spaces" or name not in self.spaces:
            raise AttributeError(f"there is no reward space {name!r}")
        return lambda: self[name]

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.spaces})

    def __repr__(self) -> str:
        return f"RewardView[{', '.join(sorted(self.spaces))}]"
