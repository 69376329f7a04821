"""A wrapper that counts."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.wrappers.core import CompilerEnvWrapper

__all__ = ["Counter"]


class Counter(CompilerEnvWrapper):
    """A wrapper that counts what is done; resets do not set it back, and forks begin with zeros.

    Args:
        env: the environment.

    Attributes:
        counters: how often "close", "reset", "step" and "fork" were called; `multistep` counts each action as a step.
    """

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        self.counters = {"close": 0, "reset": 0, "step": 0, "fork": 0}

    def close(self) -> None:
        """Close the environment."""
        self.counters["close"] += 1
        super().close()

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        """Start an episode."""
        self.counters["reset"] += 1
        return super().reset(*args, **kwargs)

    def multistep(self, actions: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        """Do actions."""
        actions = list(actions)
        self.counters["step"] += len(actions)
        return super().multistep(actions, *args, **kwargs)

    def fork(self) -> Any:
        """Return a counter around a fork."""
        self.counters["fork"] += 1
        return super().fork()
