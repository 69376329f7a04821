"""A wrapper that ends episodes."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = ["TimeLimit"]


class TimeLimit(CompilerEnvWrapper):
    """A wrapper that ends an episode after so many actions; `info["TimeLimit.truncated"]` tells that it did.

    Args:
        env: the environment.
        max_episode_steps: how many; what the environment was registered with if None.
    """

    def __init__(self, env: Any, max_episode_steps: int | None = None) -> None:
        super().__init__(env)
        if max_episode_steps is None and env.spec is not None:
            max_episode_steps = env.spec.max_episode_steps
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps: int | None = None

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions."""
        actions = list(actions)
        assert self._elapsed_steps is not None, "Cannot call env.step() before calling reset()"
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        self._elapsed_steps += len(actions)
        if self._max_episode_steps is not None and self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not done
            done = True
        return observation, reward, done, info

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        self._elapsed_steps = 0
        return super().reset(*args, **kwargs)

    def fork(self) -> "TimeLimit":
        """Return a wrapper of this kind around a fork, which has as many actions left."""
        other = type(self)(env=self.env.fork(), max_episode_steps=self._max_episode_steps)
        other._elapsed_steps = self._elapsed_steps
        return other
