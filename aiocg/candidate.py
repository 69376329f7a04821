"""What one candidate of an `expand` would lead to."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiocg.episode import Episode
from aiocg.errors import failure
from aiocg.plan import Plan

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of trying a list of actions without keeping it.

    Attributes:
        actions: its actions, in the form of the action space: indices where it is discrete.
        observation, reward: as a step would return them; None after an error.
        state: 64-bit hash of the state it leads to; 0 after an error.
        had_no_effect: none of the actions changed the state.
        error: why there is no result, None if there is one.
    """

    actions: tuple[Any, ...]
    observation: Any = None
    reward: Any = None
    state: int = 0
    had_no_effect: bool = False
    error: Exception | None = None

    @classmethod
    def of(cls, plan: Plan, episode: Episode, actions: Sequence[Any], result: Any, crash: Exception | None) -> Self:
        """Make it from what the worker replied, or from the crash that came of it."""
        if result is None:
            return cls(tuple(actions), error=crash)
        if result.code:
            return cls(tuple(actions), error=failure(result.code, result.message))
        observation, costs = plan.read(result.observations)
        reward = plan.reward(episode.rewards(plan, costs))
        return cls(tuple(actions), observation, reward, result.state, True not in result.effects)
