"""Episodes that end after a number of steps."""

from typing import Any

from aiocg.compat.gym.core import Step, Wrapper

__all__ = ["TimeLimit"]


class TimeLimit(Wrapper):
    """Ends an episode after a number of steps; `info["TimeLimit.truncated"]` then says whether that was the reason.

    Args:
        env: the environment.
        max_episode_steps: how many steps; None for the number that it was registered with.
    """

    def __init__(self, env: Any, max_episode_steps: int | None = None) -> None:
        super().__init__(env)
        if max_episode_steps is None and self.env.spec is not None:
            max_episode_steps = env.spec.max_episode_steps
        if self.env.spec is not None:
            self.env.spec.max_episode_steps = max_episode_steps
        self._max_episode_steps = max_episode_steps
        self._elapsed_steps: int | None = None

    def step(self, action: Any) -> Step:
        """Do an action."""
        assert self._elapsed_steps is not None, "Cannot call env.step() before calling reset()"
        observation, reward, done, info = self.env.step(action)
        self._elapsed_steps += 1
        if self._max_episode_steps is not None and self._elapsed_steps >= self._max_episode_steps:
            info["TimeLimit.truncated"] = not done
            done = True
        return observation, reward, done, info

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        self._elapsed_steps = 0
        return self.env.reset(*args, **kwargs)
