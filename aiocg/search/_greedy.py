"""Greedy search: take the best single action until none helps."""

from typing import Unpack

from aiocg.env.env import Env
from aiocg.search._alphabet import Alphabet
from aiocg.search._driver import Options, Pace, tune
from aiocg.search._levels import Levels
from aiocg.search.result import SearchResult
from aiocg.search.tuner import Outcome

__all__ = ["Greedy", "greedy"]

PACE = Pace(batch=48, ahead=4)  # all actions of a step are independent of one another


async def greedy(env: Env, **options: Unpack[Options]) -> SearchResult:
    """Take the action with the largest reward, and repeat until no action has a positive reward.

    All actions of a step are evaluated with `expand`, shared among the workers. Ties go to the action that comes first.

    Args:
        env: an environment with a reward space.
        **options: see `aiocg.search.Options`; there is no limit if there is no budget.

    Raises:
        ValueError, ServiceError: see `aiocg.search.tune`.
    """
    return await tune(env, Greedy, name="greedy", pace=PACE, **options)


class Greedy(Levels):
    """Proposes every action after the best list so far, and continues with the best of the results."""

    def __init__(self, alphabet: Alphabet) -> None:
        super().__init__([()])
        self._alphabet = alphabet
        self._reward = -float("inf")
        self._best: tuple[tuple[str, ...], Outcome] | None = None

    def _learn(self, actions: tuple[str, ...], outcome: Outcome) -> None:
        if outcome.reward > self._reward:
            self._reward, self._best = outcome.reward, (actions, outcome)

    def _next_level(self) -> list[tuple[str, ...]]:
        if self._best is None:
            return []
        (actions, state), self._best = self._best, None
        return [(*actions, text) for text in self._alphabet.texts(state)]
