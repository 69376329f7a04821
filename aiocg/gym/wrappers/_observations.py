"""Other observations: normalised features of Autophase, and a histogram of the episode's actions."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, Unpack

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from aiocg.env.plan import StepSettings
from aiocg.env.step import Candidate
from aiocg.gym.wrappers._transformation import ObservationWrapper
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper
from aiocg.spaces import DiscreteActions


class ActionsHistogram:
    """How often each action was taken, to be put behind observations.

    Args:
        observations: the space of observations, a Box of one dimension.
        norm_to_episode_len: each action counts 1 / this; if it is 0, each counts 1.

    Attributes:
        space: of observations with the histogram behind them; of float32, where counts are fractions and observations
            integers.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(
        self, observations: "gymnasium.Space[Any]", actions: "gymnasium.Space[Any]", norm_to_episode_len: int
    ) -> None:
        if not isinstance(observations, gymnasium.spaces.Box) or len(observations.shape) != 1:
            raise TypeError(f"a histogram of actions goes behind a Box of one dimension, not behind {observations}")
        if not isinstance(actions, gymnasium.spaces.Discrete):
            raise TypeError(f"there is a histogram of the actions of a discrete space, not of {actions}")
        if norm_to_episode_len < 0:
            raise ValueError(f"norm_to_episode_len is a number of actions, or 0, not {norm_to_episode_len}")
        self.count = int(actions.n)
        self.start = int(actions.start)
        self.increment = 1 / norm_to_episode_len if norm_to_episode_len else 1
        exact = np.issubdtype(observations.dtype, np.integer)
        dtype = np.dtype(np.float32) if exact and norm_to_episode_len else np.dtype(observations.dtype)
        most = 1 if norm_to_episode_len else _most(dtype)
        self.space = gymnasium.spaces.Box(
            np.concatenate((observations.low.astype(dtype), np.zeros(self.count, dtype))),
            np.concatenate((observations.high.astype(dtype), np.full(self.count, most, dtype))),
            dtype=dtype.type,
        )

    def of(self, actions: Sequence[Any]) -> NDArray[Any]:
        """Return the histogram of some actions, shape (number of actions,); texts are skipped."""
        indices = [action - self.start for action in actions if not isinstance(action, str)]
        return self.scaled(np.bincount(np.asarray(indices, dtype=np.int64), minlength=self.count))

    def scaled(self, counts: NDArray[np.int64]) -> NDArray[Any]:
        """Return counts in the unit and the type of the histogram; a normalised one is at most 1."""
        values = counts * self.increment
        return (np.minimum(values, 1) if self.increment != 1 else values).astype(self.space.dtype)

    def behind(self, observation: NDArray[Any], histogram: NDArray[Any]) -> NDArray[Any]:
        """Return one observation, or a batch of them in rows, with the histogram behind."""
        return np.concatenate((observation.astype(self.space.dtype), histogram), axis=-1)


def _most(dtype: "np.dtype[Any]") -> float:
    return np.iinfo(dtype.name).max if np.issubdtype(dtype, np.integer) else np.inf


class ConcatActionsHistogram(ObservationWrapper, RecordConstructorArgs):
    """Puts a histogram of the episode's actions behind each observation.

    Args:
        env: an environment with a discrete action space that observes a Box of one dimension.
        norm_to_episode_len: length of an episode; each action then counts 1 / this, so that the histogram sums to 1 at
            the end. 0 for plain counts.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]", norm_to_episode_len: int = 0) -> None:
        RecordConstructorArgs.__init__(self, norm_to_episode_len=norm_to_episode_len)
        ObservationWrapper.__init__(self, env)
        self.norm_to_episode_len = norm_to_episode_len
        self._made_of: tuple[Any, Any] = (None, None)
        self._current()

    def _current(self) -> ActionsHistogram:
        """Return the histogram for the present spaces."""
        spaces = self.env.observation_space, self.action_space
        if self._made_of[0] is not spaces[0] or self._made_of[1] is not spaces[1]:
            self._histogram = ActionsHistogram(*spaces, self.norm_to_episode_len)
            self._made_of = spaces
        return self._histogram

    @property
    def observation_space(self) -> Any:
        """The space of observations with the histogram behind them; set it to a name to observe something else."""
        return self._current().space

    @observation_space.setter
    def observation_space(self, choice: Any) -> None:
        self.unwrapped.observation_space = choice

    def convert_observation(self, observation: Any) -> Any:
        return self._behind(observation, self.actions)

    def _behind(self, observation: Any, actions: Sequence[Any]) -> Any:
        histogram = self._current()
        return histogram.behind(observation, histogram.of(actions))

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        """Evaluate many candidates, whose actions are in the histogram; see `CompilerEnv.expand`."""
        results = CompilerEnvWrapper.expand(self, candidates, **settings)
        if settings.get("observation_spaces") is not None:
            return results
        space, taken = self.action_space, self.actions
        index = space.index if isinstance(space, DiscreteActions) else int
        return [
            result
            if result.observation is None
            else dataclasses.replace(
                result, observation=self._behind(result.observation, [*taken, *map(index, result.actions)])
            )
            for result in results
        ]

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_made_of": (None, None), "_histogram": None}


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

    Other default observations are passed through unchanged.

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
        return normalised_space(space.shape or ()) if self._observes_autophase else space

    def convert_observation(self, observation: Any) -> Any:
        return normalised(observation) if self._observes_autophase else observation
