"""The result of one candidate of an `expand`."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from aiocg.env.episode import Episode
from aiocg.env.plan import Plan
from aiocg.errors import failure

__all__ = ["Candidate"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """The result of trying a list of actions without keeping it.

    Attributes:
        actions: its actions, in the form of the action space: indices in a discrete one.
        observation, reward: what a step would return; None after an error.
        state: 64-bit hash of the resulting state; 0 after an error.
        had_no_effect: none of the actions changed the state.
        effects: for each action whether it changed the state; empty after an error.
        error: why there is no result, None if there is one.
    """

    actions: tuple[Any, ...]
    observation: Any = None
    reward: Any = None
    state: int = 0
    had_no_effect: bool = False
    error: Exception | None = None
    effects: tuple[bool, ...] = ()

    @classmethod
    def of(cls, plan: Plan, episode: Episode, actions: Sequence[Any], result: Any, crash: Exception | None) -> Self:
        """Make a candidate from the worker's result or, if that is None, from the crash."""
        if result is None:
            return cls(tuple(actions), error=crash)
        if result.code:
            return cls(tuple(actions), error=failure(result.code, result.message))
        observation, costs = plan.read(result.observations)
        reward = plan.reward(episode.rewards(plan, costs))
        effects = tuple(result.effects)
        return cls(tuple(actions), observation, reward, result.state, True not in effects, effects=effects)
