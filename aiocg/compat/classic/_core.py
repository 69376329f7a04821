"""Environments and wrappers with the interface of Gym 0.21: `reset` returns one observation, `step` four values."""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Self

from gymnasium.spaces.utils import flatten, flatten_space

Step = tuple[Any, Any, bool, dict[str, Any]]


class Env:
    """An environment: derive from it, and define `step` and `reset`."""

    metadata: dict[str, Any] = {"render.modes": []}
    reward_range: Any = (-float("inf"), float("inf"))
    spec: Any = None
    action_space: Any
    observation_space: Any

    def step(self, action: Any) -> Step:
        """Apply an action; return the observation, the reward, whether the episode is done, and an info dictionary."""
        raise NotImplementedError(f"{type(self).__name__} does not define step()")

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode; return the first observation."""
        raise NotImplementedError(f"{type(self).__name__} does not define reset()")

    def render(self, mode: str = "human") -> Any:
        """Show the current state."""
        raise NotImplementedError(f"{type(self).__name__} does not define render()")

    def close(self) -> None:
        """Release the resources of the environment."""

    def seed(self, seed: int | None = None) -> list[int] | None:
        """Seed the environment; does nothing by default."""
        return None

    @property
    def unwrapped(self) -> "Env":
        """The environment without its wrappers."""
        return self

    def __str__(self) -> str:
        return f"<{type(self).__name__} instance>" if self.spec is None else f"<{type(self).__name__}<{self.spec.id}>>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class GoalEnv(Env):
    """An environment whose observations are dictionaries with a desired and an achieved goal."""

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: dict[str, Any]) -> float:
        """Return the reward for having achieved one goal where another was desired."""
        raise NotImplementedError(f"{type(self).__name__} does not define compute_reward()")


def _own(name: str) -> Any:
    """Make a property that returns the wrapper's own value if one was set, and otherwise the inner environment's."""

    def get(self: Any) -> Any:
        own = self.__dict__.get(f"_{name}")
        return getattr(self.env, name) if own is None else own

    def put(self: Any, value: Any) -> None:
        self.__dict__[f"_{name}"] = value

    return property(get, put, doc=f"The wrapper's own `{name}` if it was given one, the inner environment's if not.")


class Wrapper(Env):
    """An environment around another, to which it passes on every attribute that it does not define."""

    def __init__(self, env: Any) -> None:
        self.env = env

    action_space = _own("action_space")
    observation_space = _own("observation_space")
    reward_range = _own("reward_range")
    metadata = _own("metadata")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "env":
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}, or it is private")
        return getattr(self.env, name)

    @classmethod
    def class_name(cls) -> str:
        """Return the name of the wrapper's class."""
        return cls.__name__

    @property
    def spec(self) -> Any:
        """The spec of the inner environment."""
        return self.env.spec

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def step(self, action: Any) -> Any:
        return self.env.step(action)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return self.env.reset(*args, **kwargs)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        return self.env.render(mode, **kwargs)

    def close(self) -> Any:
        return self.env.close()

    def seed(self, seed: int | None = None) -> Any:
        return self.env.seed(seed)

    def __str__(self) -> str:
        return f"<{type(self).__name__}{self.env}>"

    def __repr__(self) -> str:
        return str(self)


class ObservationWrapper(Wrapper):
    """A wrapper that changes observations: define `observation`."""

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        return self.observation(self.env.reset(*args, **kwargs))

    def step(self, action: Any) -> Step:
        observation, reward, done, info = self.env.step(action)
        return self.observation(observation), reward, done, info

    def observation(self, observation: Any) -> Any:
        """Convert an observation of the inner environment."""
        raise NotImplementedError(f"{type(self).__name__} does not define observation()")


class RewardWrapper(Wrapper):
    """A wrapper that changes rewards: define `reward`."""

    def step(self, action: Any) -> Step:
        observation, reward, done, info = self.env.step(action)
        return observation, self.reward(reward), done, info

    def reward(self, reward: Any) -> Any:
        """Convert a reward of the inner environment."""
        raise NotImplementedError(f"{type(self).__name__} does not define reward()")


class ActionWrapper(Wrapper):
    """A wrapper that changes actions: define `action`."""

    def step(self, action: Any) -> Any:
        return self.env.step(self.action(action))

    def action(self, action: Any) -> Any:
        """Convert an action to one of the inner environment."""
        raise NotImplementedError(f"{type(self).__name__} does not define action()")

    def reverse_action(self, action: Any) -> Any:
        """Convert an action of the inner environment to one of the wrapper."""
        raise NotImplementedError(f"{type(self).__name__} does not define reverse_action()")


class TimeLimit(Wrapper):
    """Ends an episode after a number of steps; `info["TimeLimit.truncated"]` says whether that was the only reason."""

    def __init__(self, env: Any, max_episode_steps: int | None = None) -> None:
        super().__init__(env)
        if max_episode_steps is None and self.env.spec is not None:
            max_episode_steps = env.spec.max_episode_steps
        if self.env.spec is not None:
            self.env.spec.max_episode_steps = max_episode_steps
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps: int | None = None

    def step(self, action: Any) -> Step:
        assert self._elapsed_steps is not None, "Cannot call env.step() before calling reset()"
        observation, reward, done, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._max_episode_steps is not None and self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not done
            done = True
        return observation, reward, done, info

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        self._elapsed_steps = 0
        return self.env.reset(*args, **kwargs)


class RecordEpisodeStatistics(Wrapper):
    """Reports the return, length and duration of an episode as `info["episode"]` of its last step."""

    def __init__(self, env: Any, deque_size: int = 100) -> None:
        super().__init__(env)
        self.t0 = time.time()
        self.episode_return = 0.0
        self.episode_length = 0
        self.return_queue: deque[float] = deque(maxlen=deque_size)
        self.length_queue: deque[int] = deque(maxlen=deque_size)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        observation = self.env.reset(*args, **kwargs)
        self.episode_return, self.episode_length = 0.0, 0
        return observation

    def step(self, action: Any) -> Step:
        observation, reward, done, info = self.env.step(action)
        self.episode_return += reward or 0.0
        self.episode_length += 1
        if done:
            seconds = round(time.time() - self.t0, 6)
            info = {**info, "episode": {"r": self.episode_return, "l": self.episode_length, "t": seconds}}
            self.return_queue.append(self.episode_return)
            self.length_queue.append(self.episode_length)
        return observation, reward, done, info


class TransformObservation(ObservationWrapper):
    """Applies a function to every observation."""

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def observation(self, observation: Any) -> Any:
        return self.f(observation)


class TransformReward(RewardWrapper):
    """Applies a function to every reward."""

    def __init__(self, env: Any, f: Callable[[Any], Any]) -> None:
        super().__init__(env)
        self.f = f

    def reward(self, reward: Any) -> Any:
        return self.f(reward)


class FlattenObservation(ObservationWrapper):
    """Flattens every observation into a one-dimensional array."""

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.observation_space = flatten_space(env.observation_space)

    def observation(self, observation: Any) -> Any:
        return flatten(self.env.observation_space, observation)
