"""What episodes came to."""

import time
from collections import deque
from typing import Any

from aiocg.compat.gym.core import Step, Wrapper

__all__ = ["RecordEpisodeStatistics"]


class RecordEpisodeStatistics(Wrapper):
    """Tells the return, the length and the time of an episode with its last step, as `info["episode"]`.

    Args:
        env: the environment.
        deque_size: how many episodes to remember in `return_queue` and `length_queue`.
    """

    def __init__(self, env: Any, deque_size: int = 100) -> None:
        super().__init__(env)
        self.t0 = time.time()
        self.episode_return = 0.0
        self.episode_length = 0
        self.return_queue: deque[float] = deque(maxlen=deque_size)
        self.length_queue: deque[int] = deque(maxlen=deque_size)

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        observation = self.env.reset(*args, **kwargs)
        self.episode_return, self.episode_length = 0.0, 0
        return observation

    def step(self, action: Any) -> Step:
        """Do an action."""
        observation, reward, done, info = self.env.step(action)
        self.episode_return += reward or 0.0
        self.episode_length += 1
        if done:
            seconds = round(time.time() - self.t0, 6)
            info = {**info, "episode": {"r": self.episode_return, "l": self.episode_length, "t": seconds}}
            self.return_queue.append(self.episode_return)
            self.length_queue.append(self.episode_length)
        return observation, reward, done, info
