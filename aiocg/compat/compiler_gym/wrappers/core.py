"""Wrappers that the others derive from: environments around an environment, with CompilerGym's whole interface."""

import inspect
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.envs.compiler_env import CompilerEnv
from aiocg.compat.deprecation import outside
from aiocg.compat.gym import Wrapper

__all__ = [
    "ActionWrapper",
    "CompilerEnvWrapper",
    "ObservationWrapper",
    "RewardWrapper",
    "asked_for",
    "named",
    "options",
]

DEFAULT_TIMEOUT = 300.0  # seconds; a wrapper of one's own need not know the argument unless it is another


def asked_for(new: Any, old: Any, name: str) -> Any:
    """Return an argument that may be given by its deprecated name, which warns."""
    if old is None:
        return new
    warnings.warn(
        f"Argument `{name}` of CompilerEnv.multistep has been renamed "
        f"`{name.rstrip('s')}_spaces`. Please update your code",
        DeprecationWarning,
        stacklevel=outside(),
    )
    return old


def options(observation_spaces: Any, reward_spaces: Any, timeout: float | None) -> dict[str, Any]:
    """Return the arguments of a step as the next environment takes them."""
    given: dict[str, Any] = {"observation_spaces": observation_spaces, "reward_spaces": reward_spaces}
    return given if timeout == DEFAULT_TIMEOUT else {**given, "timeout": timeout}


def named(positional: tuple[Any, ...], keywords: dict[str, Any], *names: str) -> bool:
    """Say whether spaces were asked for, by place or by one of some names."""
    return any(spaces is not None for spaces in (*positional, *(keywords.get(name) for name in names)))


def _inner(name: str, settable: bool = True) -> Any:
    """Make a property that is the inner environment's."""

    def get(self: Any) -> Any:
        return getattr(self.env, name)

    def put(self: Any, value: Any) -> None:
        setattr(self.env, name, value)

    return property(get, put if settable else None, doc=f"The inner environment's `{name}`.")


class CompilerEnvWrapper(CompilerEnv, Wrapper):
    """An environment around another. Derive from it, and override `multistep`, which `step` calls, to change steps.

    Args:
        env: the inner environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env

    observation_space: Any = _inner("observation_space")
    observation_space_spec: Any = _inner("observation_space_spec")
    observation: Any = _inner("observation")
    reward_space: Any = _inner("reward_space")
    reward_space_spec: Any = _inner("reward_space_spec")
    reward: Any = _inner("reward")
    reward_range: Any = _inner("reward_range")
    action_space: Any = _inner("action_space")
    action_spaces: Any = _inner("action_spaces")
    benchmark: Any = _inner("benchmark")
    datasets: Any = _inner("datasets")
    episode_reward: Any = _inner("episode_reward")
    metadata: Any = _inner("metadata")
    spec: Any = _inner("spec", settable=False)
    episode_walltime: Any = _inner("episode_walltime", settable=False)
    in_episode: Any = _inner("in_episode", settable=False)
    actions: Any = _inner("actions", settable=False)
    version: Any = _inner("version", settable=False)
    compiler_version: Any = _inner("compiler_version", settable=False)
    state: Any = _inner("state", settable=False)

    @property
    def unwrapped(self) -> Any:
        """The environment without its wrappers."""
        return self.env.unwrapped

    def close(self) -> None:
        """Close the inner environment."""
        self.env.close()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        return self.env.reset(*args, **kwargs)

    def fork(self) -> Any:
        """Return a wrapper like this one around a fork. A subclass with more arguments overrides it."""
        return type(self)(env=self.env.fork())

    def step(
        self,
        action: Any,
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> Any:
        """Do an action: `multistep` with a list of one."""
        actions = [action]
        if isinstance(action, Iterable) and not isinstance(action, (str, bytes)) and np.ndim(action) != 0:  # type: ignore[arg-type]  # an array of one number is one action
            warnings.warn(
                "Argument `action` of CompilerEnv.step no longer accepts a list of actions. "
                "Please use CompilerEnv.multistep instead",
                DeprecationWarning,
                stacklevel=outside(),
            )
            actions = list(action)
        observation_spaces = asked_for(observation_spaces, observations, "observations")
        reward_spaces = asked_for(reward_spaces, rewards, "rewards")
        return self.multistep(actions, **options(observation_spaces, reward_spaces, timeout))

    def multistep(
        self,
        actions: Iterable[Any],
        observation_spaces: Iterable[Any] | None = None,
        reward_spaces: Iterable[Any] | None = None,
        observations: Iterable[Any] | None = None,
        rewards: Iterable[Any] | None = None,
        timeout: float | None = DEFAULT_TIMEOUT,
    ) -> Any:
        """Do actions, and observe and reward once, after them.

        Args:
            actions: what to do.
            observation_spaces: what is observed in place of the default; a list of observations comes back then.
            reward_spaces: what is rewarded in place of the default; a list of rewards comes back then.
            observations, rewards: their deprecated names.
            timeout: seconds.
        """
        observation_spaces = asked_for(observation_spaces, observations, "observations")
        reward_spaces = asked_for(reward_spaces, rewards, "rewards")
        return self.env.multistep(actions, **options(observation_spaces, reward_spaces, timeout))

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Show the present state."""
        return self.env.render(mode, **kwargs)

    def commandline(self) -> str:
        """Return the actions as a command line."""
        text: str = self.env.commandline()
        return text

    def commandline_to_actions(self, commandline: str) -> list[Any]:
        """Return the actions of a command line."""
        actions: list[Any] = self.env.commandline_to_actions(commandline)
        return actions

    def apply(self, state: Any) -> None:
        """Come to a state."""
        self.env.apply(state)

    def validate(self, state: Any = None) -> Any:
        """Validate a state, the present one if None."""
        return self.env.validate(state)


class ActionWrapper(CompilerEnvWrapper):
    """A wrapper with other actions: define `action`, and `reverse_action` if it is needed."""

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do what becomes of the actions."""
        return super().multistep([self.action(action) for action in actions], *args, **kwargs)

    def action(self, action: Any) -> Any:
        """Return what becomes of an action."""
        raise NotImplementedError

    def reverse_action(self, action: Any) -> Any:
        """Return what becomes to an action of the inner environment."""
        raise NotImplementedError


def _take_old_name(cls: type, old: str, new: str) -> None:
    """Let a subclass define a hook by the name that it had before CompilerGym 0.2.3, which is that of a property."""
    hook = cls.__dict__.get(old)
    if inspect.isfunction(hook) and new not in cls.__dict__:
        warnings.warn(f"{cls.__name__}.{old}() is now called {new}()", DeprecationWarning, stacklevel=outside())
        delattr(cls, old)
        setattr(cls, new, hook)


class ObservationWrapper(CompilerEnvWrapper, ABC):
    """A wrapper with other observations: define `convert_observation`. Those asked for by name stay what they are."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _take_old_name(cls, "observation", "convert_observation")

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        return self.convert_observation(self.env.reset(*args, **kwargs))

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions; the observation is converted."""
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        if not named(args[0:1], kwargs, "observation_spaces", "observations"):
            observation = self.convert_observation(observation)
        return observation, reward, done, info

    @abstractmethod
    def convert_observation(self, observation: Any) -> Any:
        """Return what becomes of an observation."""
        raise NotImplementedError


class RewardWrapper(CompilerEnvWrapper, ABC):
    """A wrapper with other rewards, which count for the episode: define `convert_reward`.

    Those asked for by name stay what they are.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _take_old_name(cls, "reward", "convert_reward")

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions; the reward is converted."""
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        total = self.episode_reward
        if not named(args[1:2], kwargs, "reward_spaces", "rewards") and reward is not None and total is not None:
            inner, reward = reward, self.convert_reward(reward)
            self.unwrapped.episode_reward = total - inner + reward
        return observation, reward, done, info

    @abstractmethod
    def convert_reward(self, reward: Any) -> Any:
        """Return what becomes of a reward."""
        raise NotImplementedError
