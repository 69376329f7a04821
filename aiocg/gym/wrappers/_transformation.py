"""Base classes of wrappers that transform actions, observations and rewards."""

import dataclasses
from collections.abc import Iterable
from typing import Any, Unpack

import gymnasium

from aiocg.env.plan import Spaces, StepSettings
from aiocg.env.step import Candidate, StepResult
from aiocg.gym.wrappers._wrapper import CompilerEnvWrapper
from aiocg.spaces.rewards import Reward


class ActionWrapper(CompilerEnvWrapper):
    """A wrapper with actions of its own: define `action` and `reverse_action`, and the space.

    The space is what `convert_action_space` returns, or what `action_space` is set to in the constructor.
    """

    def action(self, action: Any) -> Any:
        """Convert an action of the wrapper to one of the environment below."""
        raise NotImplementedError(f"{type(self).__name__} does not define action()")

    def reverse_action(self, action: Any) -> Any:
        """Convert an action of the environment below to one of the wrapper."""
        raise NotImplementedError(f"{type(self).__name__} does not define reverse_action()")

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        return super().multistep([self.action(action) for action in actions], **settings)

    @property
    def actions(self) -> list[Any]:
        """The actions since the reset, as actions of the wrapper."""
        return [self.reverse_action(action) for action in self.env.get_wrapper_attr("actions")]

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        return self._expand_as(candidates, lambda candidate: [self.action(action) for action in candidate], **settings)


class ObservationWrapper(CompilerEnvWrapper):
    """A wrapper with default observations of its own: define `convert_observation`, and `convert_observation_space`.

    Observations requested by name, in a step or from `env.observation`, are not converted.
    """

    def convert_observation(self, observation: Any) -> Any:
        """Convert an observation of the environment below, which must not be modified."""
        raise NotImplementedError(f"{type(self).__name__} does not define convert_observation()")

    def _convert(self, observation: Any, spaces: Spaces = None) -> Any:
        return observation if observation is None or spaces is not None else self.convert_observation(observation)

    def reset(
        self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options, **settings)
        return self._convert(observation), info

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        observation, *rest = super().multistep(actions, **settings)
        return self._convert(observation, settings.get("observation_spaces")), *rest

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        spaces = settings.get("observation_spaces")
        return [
            dataclasses.replace(result, observation=self._convert(result.observation, spaces))
            for result in super().expand(candidates, **settings)
        ]


class RewardWrapper(CompilerEnvWrapper):
    """A wrapper with rewards of its own: define `convert_reward`.

    Each of several rewards is converted. `episode_reward` is the sum of the converted ones; `state` and `validate` use
    the environment's own, so that they are reproducible.
    """

    episode_state = (*CompilerEnvWrapper.episode_state, "_episode_reward")

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        super().__init__(env)
        self._episode_reward = 0.0
        self._begin()

    def convert_reward(self, reward: float) -> float:
        """Convert a reward of the environment below."""
        raise NotImplementedError(f"{type(self).__name__} does not define convert_reward()")

    def _convert(self, reward: Any) -> Any:
        """Convert the reward of a step, or each of a list."""
        if isinstance(reward, list):
            return [self.convert_reward(each) for each in reward]
        return self.convert_reward(reward)

    def begin(self) -> None:
        """Reset the sum of rewards. Rewards that the new episode starts with count as one step."""
        earned = self.env.get_wrapper_attr("episode_reward")
        self._episode_reward = self.convert_reward(earned) if earned and self.action_texts else 0.0

    @property
    def episode_reward(self) -> float | None:
        """Sum of the converted rewards since the reset, None without a reward space."""
        return None if self.env.get_wrapper_attr("episode_reward") is None else self._episode_reward

    @property
    def reward_space(self) -> str | None:
        """Name of the default reward; set it to a name, to a `Reward`, or to None."""
        name: str | None = self.env.get_wrapper_attr("reward_space")
        return name

    @reward_space.setter
    def reward_space(self, reward: str | Reward | None) -> None:
        self.env.set_wrapper_attr("reward_space", reward)
        self._episode_reward = 0.0

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        observation, reward, *rest = super().multistep(actions, **settings)
        reward = self._convert(reward)
        self._account(reward, settings.get("reward_spaces"))
        return observation, reward, *rest

    def _account(self, reward: Any, spaces: Spaces) -> None:
        """Add the default reward of a step to the episode's, if it was requested."""
        default = self.reward_space
        if spaces is None or spaces == default:
            self._episode_reward += reward
        elif default is not None and not isinstance(spaces, str) and default in spaces:
            self._episode_reward += reward[list(spaces).index(default)]

    def expand(self, candidates: Iterable[Any], **settings: Unpack[StepSettings]) -> list[Candidate]:
        return [
            result if result.reward is None else dataclasses.replace(result, reward=self._convert(result.reward))
            for result in super().expand(candidates, **settings)
        ]
