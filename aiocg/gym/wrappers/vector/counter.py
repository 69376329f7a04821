"""Counting what is done with a vector."""

from collections.abc import Sequence
from typing import Any, Self

import gymnasium
from numpy.typing import NDArray

from aiocg.gym.vector.asynchronous import BatchResult
from aiocg.gym.wrappers.vector.wrapper import CompilerVectorWrapper

__all__ = ["Counter"]


class Counter(CompilerVectorWrapper):
    """Counts calls, and counts from zero in a fork; see `aiocg.gym.wrappers.Counter`.

    Args:
        env: a vector.

    Attributes:
        counters: how often each was called: "close", "reset", "step", "send", "recv" and "fork".
    """

    def __init__(self, env: "gymnasium.vector.VectorEnv[Any, Any, Any]") -> None:
        super().__init__(env)
        self.counters = dict.fromkeys(("close", "reset", "step", "send", "recv", "fork"), 0)

    def close(self, **kwargs: Any) -> None:
        """Close all environments."""
        self.counters["close"] += 1
        super().close(**kwargs)

    def reset(
        self, *, seed: Any = None, options: "dict[str, Any] | None" = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode in all environments, or in some; see `CompilerVectorEnv.reset`."""
        self.counters["reset"] += 1
        return super().reset(seed=seed, options=options)

    def step(self, actions: Any) -> BatchResult:
        """Step all environments; see `CompilerVectorEnv.step`."""
        self.counters["step"] += 1
        return super().step(actions)

    def send(self, actions: Any, env_ids: "Sequence[int] | NDArray[Any] | None" = None) -> None:
        """Begin to step environments; see `CompilerVectorEnv.send`."""
        self.counters["send"] += 1
        super().send(actions, env_ids)

    def recv(self, min_ready: int = 1, **settings: Any) -> BatchResult:
        """Return the results of environments that are ready; see `CompilerVectorEnv.recv`."""
        self.counters["recv"] += 1
        return super().recv(min_ready, **settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        self.counters["fork"] += 1
        child = super().__deepcopy__(memo)
        child.counters = dict.fromkeys(self.counters, 0)
        return child
