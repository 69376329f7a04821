"""Counting what is done with an environment."""

from collections.abc import Iterable
from typing import Any, Self, Unpack

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from aiocg.gym.wrappers.wrapper import CompilerEnvWrapper, StepSettings
from aiocg.step import StepResult

__all__ = ["Counter"]


class Counter(CompilerEnvWrapper, RecordConstructorArgs):
    """Counts calls, over all episodes.

    A fork is counted here, also as a part of a larger chain that is copied, and counts from zero itself.

    Args:
        env: what to wrap.

    Attributes:
        counters: how often each was called: "close", "reset", "step", "multistep" and "fork".
    """

    def __init__(self, env: "gymnasium.Env[Any, Any]") -> None:
        RecordConstructorArgs.__init__(self)
        CompilerEnvWrapper.__init__(self, env)
        self.counters = dict.fromkeys(("close", "reset", "step", "multistep", "fork"), 0)

    def close(self) -> None:
        """Close the environment."""
        self.counters["close"] += 1
        super().close()

    def reset(
        self, *, seed: int | None = None, options: "dict[str, Any] | None" = None, **settings: Any
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; see `CompilerEnv.reset`."""
        self.counters["reset"] += 1
        return super().reset(seed=seed, options=options, **settings)

    def step(self, action: Any, **settings: Unpack[StepSettings]) -> StepResult:
        """Apply an action, or several; see `CompilerEnv.step`."""
        self.counters["step"] += 1
        return super().multistep(self._listed(action), **settings)

    def multistep(self, actions: Iterable[Any], **settings: Unpack[StepSettings]) -> StepResult:
        """Apply several actions; see `CompilerEnv.multistep`."""
        self.counters["multistep"] += 1
        return super().multistep(actions, **settings)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        self.counters["fork"] += 1
        child = super().__deepcopy__(memo)
        child.counters = dict.fromkeys(self.counters, 0)
        return child
