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


class Peeler(Levels):
    """Proposes a list without each of its parts; the parts get smaller until no single action can be left out."""

    def __init__(self, actions: Actions, reward: float) -> None:
        self.actions = actions
        self._reward = reward
        self._size = max(len(actions) // 2, 1)
        self._found: tuple[float, int, Actions] | None = None
        super().__init__(self._without_parts())

    def _learn(self, actions: Actions, outcome: Outcome) -> None:
        found = (outcome.reward, -len(outcome.actions), outcome.actions)
        if outcome.reward >= self._reward and (self._found is None or found > self._found):
            self._found = found

    def _next_level(self) -> list[Actions]:
        """Continue with the best of the lists that are as good, or else with smaller parts."""
        if self._found is not None:
            self._reward, _, self.actions = self._found
            self._found, self._size = None, min(self._size, max(len(self.actions) // 2, 1))
        elif self._size > 1:
            self._size //= 2
        else:
            return []
        return self._without_parts()

    def _without_parts(self) -> list[Actions]:
        starts = range(0, len(self.actions), self._size)
        return [self.actions[:start] + self.actions[start + self._size :] for start in starts]
