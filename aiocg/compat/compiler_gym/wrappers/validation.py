"""A wrapper that validates."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = ["ValidateBenchmarkAfterEveryStep"]


class ValidateBenchmarkAfterEveryStep(CompilerEnvWrapper):
    """A wrapper that tests what the program does after each step, and ends the episode when something is wrong.

    Args:
        env: the environment.
        reward_penalty: the reward of such a step; `info["error_details"]` has the error.
    """

    def __init__(self, env: Any, reward_penalty: float = -1e3) -> None:
        super().__init__(env)
        self.reward_penalty = reward_penalty

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions, and test."""
        observation, reward, done, info = super().multistep(actions, *args, **kwargs)
        if not done:
            for error in self.env.benchmark.ivalidate(self.env):
                info["error_details"] = error
                penalty = self.reward_penalty
                return observation, [penalty] * len(reward) if isinstance(reward, list) else penalty, True, info
        return observation, reward, done, info

    def fork(self) -> "ValidateBenchmarkAfterEveryStep":
        """Return a wrapper of this kind around a fork."""
        return type(self)(env=self.env.fork(), reward_penalty=self.reward_penalty)
