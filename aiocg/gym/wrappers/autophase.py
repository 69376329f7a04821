"""Autophase's features as fractions of the program's size."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from aiocg.gym.wrappers.transformation import ObservationWrapper

__all__ = ["AUTOPHASE", "AutophaseNormalizedFeatures", "normalised", "normalised_space"]

AUTOPHASE = "Autophase"
TOTAL_INSTRUCTIONS = 51  # index of the feature that all are divided by


def normalised(features: NDArray[np.int64]) -> NDArray[np.float32]:
    """Divide features by the number of instructions, and clip them to the range from 0 to 1.

    Args:
        features: of one program, shape (56,), or of several, shape (..., 56).

    Returns:
        The same shape; zeros for a program without instructions.
    """
    total = features[..., TOTAL_INSTRUCTIONS, None].astype(np.float32)
    fractions = np.divide(features, total, out=np.zeros(features.shape, np.float32), where=total > 0)
    return np.clip(fractions, 0, 1)


def normalised_space(shape: tuple[int, ...]) -> gymnasium.spaces.Box:
    """Return the space of normalised features."""
    return gymnasium.spaces.Box(0, 1, shape, np.float32)


class AutophaseNormalizedFeatures(ObservationWrapper, RecordConstructorArgs):
    """Observes `Autophase`, each feature divided by the number of instructions: float32, shape (56,), from 0 to 1.

    Should the environment be told to observe something else by default, that comes as it is.

    Args:
        env: an LLVM environment; its default observation becomes `Autophase`.
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        RecordConstructorArgs.__init__(self)
        ObservationWrapper.__init__(self, env)
        self.observation_space = AUTOPHASE

    @property
    def _observes_autophase(self) -> bool:
        spec = self.observation_space_spec
        return spec is not None and spec.name == AUTOPHASE

    def convert_observation_space(self, space: "gymnasium.Space[Any]") -> "gymnasium.Space[Any]":
        """Return the space of fractions."""
        return normalised_space(space.shape or ()) if self._observes_autophase else space

    def convert_observation(self, observation: Any) -> Any:
        """Return the features as fractions."""
        return normalised(observation) if self._observes_autophase else observation
