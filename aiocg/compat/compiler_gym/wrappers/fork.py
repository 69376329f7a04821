"""A wrapper that can go back."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = ["ForkOnStep"]


class ForkOnStep(CompilerEnvWrapper):
    """A wrapper that forks before each step, so that `undo` can take it back.

    Args:
        env: the environment.

    Attributes:
        stack: the forks, the newest last.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.stack: list[Any] = []

    def undo(self) -> Any:
        """Take back the last step, and return the environment; None when there is none."""
        if not self.stack:
            return None
        self.env.close()
        self.env = self.stack.pop()
        return self.env

    def close(self) -> None:
        """Close the environment and the forks."""
        self._close_forks()
        super().close()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        observation = super().reset(*args, **kwargs)
        self._close_forks()
        return observation

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions, which are taken back together."""
        self.stack.append(self.env.fork())
        return super().multistep(actions, *args, **kwargs)

    def fork(self) -> Any:
        """Return a wrapper of this kind around a fork, which can go back as far as this one."""
        other = super().fork()
        other.stack = [env.fork() for env in self.stack]
        return other

    def _close_forks(self) -> None:
        while self.stack:
            self.stack.pop().close()
