"""A tuner that leaves out the actions without which a list is as good."""

from aiocg.search.levels import Levels
from aiocg.search.tuner import Outcome

__all__ = ["Peeler"]

Actions = tuple[str, ...]


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
