"""Rewards of GCC: how many bytes were saved."""

from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces import Reward, Scalar
from aiocg.compat.compiler_gym.views.observation_space_spec import ObservationSpaceSpec

__all__ = ["AsmSizeReward", "ObjSizeReward"]


class _SizeReward(Reward):
    """The decrease of a size since the last step, which for the first step is since the reset."""

    size = ""
    at_reset = 0  # the index of the observation that is the size when no option is given

    def __init__(self) -> None:
        super().__init__(
            name=self.size,
            observation_spaces=[self.size],
            default_value=0,
            default_negates_returns=True,
            deterministic=False,
            platform_dependent=True,
        )
        self.previous: float | None = None

    def reset(self, benchmark: Any, observation_view: Any) -> None:
        """Start an episode."""
        self.previous = None

    def update(self, actions: list[Any], observations: list[Any], observation_view: Any) -> float:
        """Return the decrease."""
        if self.previous is None:
            self.previous = observation_view.compute(self._baseline())
        reward = float(self.previous - observations[0])
        self.previous = observations[0]
        return reward

    def _baseline(self) -> ObservationSpaceSpec:
        """Return what the size is without options: an observation that is not among those that are listed."""
        return ObservationSpaceSpec(
            id=f"{self.size}_O0",
            index=self.at_reset,
            space=Scalar(name=self.size, min=0, max=None, dtype=np.int64),
            translate=int,
            to_string=str,
            deterministic=True,
            platform_dependent=True,
            default_value=0,
        )


class AsmSizeReward(_SizeReward):
    """The bytes of assembly saved."""

    size = "asm_size"
    at_reset = 11


class ObjSizeReward(_SizeReward):
    """The bytes of the object file saved."""

    size = "obj_size"
    at_reset = 12
