"""Wrappers that change the observations and rewards of vectors, by the formulas of those for one environment."""

from typing import Any

import gymnasium
import numpy as np

from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.observations import ActionsHistogram, normalised, normalised_space
from aiocg.gym.wrappers.rewards import check_bounds, clamp
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper, Ids, begun, convert_final
from aiocg.spaces import DiscreteActions


class ClampedReward(CompilerVectorWrapper):
    """Clamps rewards to a range; see `aiocg.gym.wrappers.ClampedReward`.

    Args:
        env: a vector.
        min, max: the range.
        leakiness_factor: what part of the distance to the range is kept outside it; 0 for none.
    """

    def __init__(
        self,
        env: "gymnasium.vector.VectorEnv[Any, Any, Any]",
        min: float = -1,
        max: float = 1,
        leakiness_factor: float = 0.001,
    ) -> None:
        check_bounds(min, max, leakiness_factor)
        super().__init__(env)
        self._bounds = (min, max, leakiness_factor)

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with rewards clamped."""
        observations, rewards, terminations, truncations, infos = results
        return observations, clamp(rewards, *self._bounds), terminations, truncations, infos


class AutophaseNormalizedFeatures(CompilerVectorWrapper):
    """Divides the features of Autophase by the number of instructions: float32, shape (num_envs, 56), from 0 to 1.

    Args:
        env: a vector that observes `Autophase`.

    Raises:
        TypeError: when it observes something else.
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        super().__init__(env)
        space = env.single_observation_space
        if not isinstance(space, gymnasium.spaces.Box) or space.shape != (56,) or space.dtype != np.int64:
            raise TypeError(f"the vector observes {space}; make it with observation_space='Autophase'")
        self._observe(normalised_space(space.shape))

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with features as fractions."""
        observations, rewards, terminations, truncations, infos = results
        convert_final(infos, lambda features, _: normalised(features))
        return normalised(observations), rewards, terminations, truncations, infos


class ConcatActionsHistogram(CompilerVectorWrapper):
    """Puts a histogram of the episode's actions behind each observation; see `aiocg.gym.wrappers`.

    Args:
        env: a vector with a discrete action space that observes a Box of one dimension.
        norm_to_episode_len: length of an episode; each action then counts 1 / this. 0 for plain counts.

    Raises:
        TypeError: for other spaces.
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]", norm_to_episode_len: int = 0) -> None:
        super().__init__(env)
        self._histogram = ActionsHistogram(env.single_observation_space, env.single_action_space, norm_to_episode_len)
        self._observe(self._histogram.space)
        self._counts = np.zeros((self.num_envs, self._histogram.count), np.int64)
        self._sent = np.zeros_like(self._counts)

    def reset(self, *, seed: Any = None, options: "dict[str, Any] | None" = None) -> tuple[Any, dict[str, Any]]:
        self._sent[:] = 0
        return super().reset(seed=seed, options=options)

    def convert_actions(self, actions: Any, env_ids: Ids) -> Any:
        """Take note of the actions, which are not changed."""
        sent = np.zeros((len(env_ids), self._histogram.count), np.int64)
        space = self.env.single_action_space
        if isinstance(actions, np.ndarray):
            sent[np.arange(len(actions)), actions - self._histogram.start] = 1
        elif isinstance(space, DiscreteActions):
            for row, action in zip(sent, actions, strict=True):
                np.add.at(row, list(space.indices(action)), 1)
        else:
            sent[np.arange(len(env_ids)), np.asarray(actions) - self._histogram.start] = 1
        self._sent[env_ids] = sent
        return actions

    def convert_results(self, results: BatchResult, env_ids: Ids) -> BatchResult:
        """Return the results with histograms behind the observations."""
        observations, rewards, terminations, truncations, infos = results
        reset = begun(infos, len(env_ids))
        stepped = ~reset | np.asarray(infos.get("_final_obs", False))
        self._counts[env_ids[stepped]] += self._sent[env_ids[stepped]]
        self._sent[env_ids] = 0
        histogram = self._histogram
        before = histogram.scaled(self._counts[env_ids])
        convert_final(infos, lambda final, place: histogram.behind(final, before[place]))
        self._counts[env_ids[reset]] = 0
        observations = histogram.behind(observations, histogram.scaled(self._counts[env_ids]))
        return observations, rewards, terminations, truncations, infos
