"""Tuners that propose lists of actions level by level."""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable

from aiocg.search.tuner import Outcome, Proposal

Actions = tuple[str, ...]


class Levels(ABC):
    """Proposes the lists of one level, and makes the next level when all their outcomes are known.

    Args:
        first: the lists of the first level.
    """

    def __init__(self, first: Iterable[Actions]) -> None:
        self._asking = deque(first)
        self._untold = 0

    def ask(self, count: int) -> list[Proposal]:
        """Return lists of the current level that were not returned yet."""
        asked = [Proposal(self._asking.popleft()) for _ in range(min(count, len(self._asking)))]
        self._untold += len(asked)
        return asked

    def tell(self, proposal: Proposal, outcome: Outcome) -> None:
        """Learn an outcome; after the last one of a level, go to the next."""
        self._learn(proposal.actions, outcome)
        self._untold -= 1
        if not self._untold and not self._asking:
            self._asking.extend(self._next_level())

    @abstractmethod
    def _learn(self, actions: Actions, outcome: Outcome) -> None:
        """Record an outcome."""

    @abstractmethod
    def _next_level(self) -> Iterable[Actions]:
        """Return the lists of the next level; none if the search has finished."""
