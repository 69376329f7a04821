"""Environments and wrappers with the interface of Gym 0.21: `reset` returns an observation, `step` four values."""

from typing import Any, Self

from aiocg.compat.gym.spaces import Space

__all__ = ["ActionWrapper", "Env", "GoalEnv", "ObservationWrapper", "RewardWrapper", "Wrapper"]

Step = tuple[Any, Any, bool, dict[str, Any]]


class Env:
    """An environment: derive from it, and define `step` and `reset`.

    Attributes:
        metadata: what `render` can do is under `"render.modes"`.
        reward_range: the least and the greatest reward.
        spec: what it was registered with, if `make` made it.
        action_space, observation_space: spaces.
    """

    metadata: dict[str, Any] = {"render.modes": []}
    reward_range: Any = (-float("inf"), float("inf"))
    spec: Any = None
    action_space: Any
    observation_space: Any

    def step(self, action: Any) -> Step:
        """Do an action; return observation, reward, whether the episode is done, and a dictionary of more."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode; return the first observation."""
        raise NotImplementedError(f"{type(self).__name__} does not define reset()")

    def render(self, mode: str = "human") -> Any:
        """Show the present state."""
        raise NotImplementedError(f"{type(self).__name__} does not define render()")

    def close(self) -> None:
        """Free what the environment holds."""

    def seed(self, seed: int | None = None) -> list[int] | None:
        """Seed the environment; by default there is nothing to be seeded."""
        return None

    @property
    def unwrapped(self) -> "Env":
        """The environment without its wrappers."""
        return self

    def __str__(self) -> str:
        if self.spec is None:
            return f"<{type(self).__name__} instance>"
        return f"<{type(self).__name__}<{self.spec.id}>>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class GoalEnv(Env):
    """An environment whose observations are dictionaries with a desired and an achieved goal."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> float:
        """Return what it is worth to have achieved a goal where another was desired."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_reward()")


class Wrapper(Env):
    """An environment around another: what is not defined here is the inner one's.

    Args:
        env: the inner environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self._action_space: Space[Any] | None = None
        self._observation_space: Space[Any] | None = None
        self._reward_range: Any = None
        self._metadata: dict[str, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}, or it is private")
        return getattr(self.env, name)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the wrapper."""
        return cls.__name__

    @property
    def spec(self) -> Any:
        """What the inner environment was registered with."""
        return self.env.spec

    @property
    def action_space(self) -> Any:
        """The wrapper's own action space if it was given one, the inner environment's if not."""
        own = self.__dict__.get("_action_space")
        return self.env.action_space if own is None else own

    @action_space.setter
    def action_space(self, space: Any) -> None:
        self._action_space = space

    @property
    def observation_space(self) -> Any:
        """The wrapper's own observation space if it was given one, the inner environment's if not."""
        own = self.__dict__.get("_observation_space")
        return self.env.observation_space if own is None else own

    @observation_space.setter
    def observation_space(self, space: Any) -> None:
        self._observation_space = space

    @property
    def reward_range(self) -> Any:
        """The wrapper's own bounds of rewards if it was given some, the inner environment's if not."""
        own = self.__dict__.get("_reward_range")
        return self.env.reward_range if own is None else own

    @reward_range.setter
    def reward_range(self, bounds: Any) -> None:
        self._reward_range = bounds

    @property
    def metadata(self) -> Any:
        """The wrapper's own metadata if it was given some, the inner environment's if not."""
        own = self.__dict__.get("_metadata")
        return self.env.metadata if own is None else own

    @metadata.setter
    def metadata(self, metadata: Any) -> None:
        self._metadata = metadata

    def step(self, action: Any) -> Step:
        """Do an action."""
        result: Step = self.env.step(action)
        return result

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        return self.env.reset(*args, **kwargs)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Show the present state."""
        return self.env.render(mode, **kwargs)

    def close(self) -> Any:
        """Close the inner environment."""
        return self.env.close()

    def seed(self, seed: int | None = None) -> Any:
        """Seed the inner environment."""
        return self.env.seed(seed)

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> Any:
        """Ask the inner environment what a goal is worth."""
        return self.env.compute_reward(achieved_goal, desired_goal, info)

    @property
    def unwrapped(self) -> Any:
        """The environment without its wrappers."""
        return self.env.unwrapped

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"

    def __repr__(self) -> str:
        return str(self)


class ObservationWrapper(Wrapper):
    """A wrapper that changes observations: define `observation`."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode; return the changed observation."""
        return self.observation(self.env.reset(*args, **kwargs))

    def step(self, action: Any) -> Step:
        """Do an action; return the changed observation with the rest."""
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info

    def observation(self, observation: Any) -> Any:
        """Return what becomes of an observation."""
        raise NotImplementedError(f"{type(self).__name__} does not define observation()")


class RewardWrapper(Wrapper):
    """A wrapper that changes rewards: define `reward`."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        return self.env.reset(*args, **kwargs)

    def step(self, action: Any) -> Step:
        """Do an action; return the changed reward with the rest."""
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info

    def reward(self, reward: Any) -> Any:
        """Return what becomes of a reward."""
        raise NotImplementedError(f"{type(self).__name__} does not define reward()")


class ActionWrapper(Wrapper):
    """A wrapper that changes actions: define `action`."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        return self.env.reset(*args, **kwargs)

    def step(self, action: Any) -> Step:
        """Do the changed action."""
        result: Step = self.env.step(self.action(action))
        return result

    def action(self, action: Any) -> Any:
        """Return what becomes of an action."""
        raise NotImplementedError(f"{type(self).__name__} does not define action()")

    def reverse_action(self, action: Any) -> Any:
        """Return what becomes to an action."""
        raise NotImplementedError(f"{type(self).__name__} does not define reverse_action()")


