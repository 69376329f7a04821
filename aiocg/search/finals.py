"""The last measurement of a search whose rewards are measured.

The highest of many measurements is too high: it is that of the luckiest. So the best few are measured again, in turns,
and the median of what each gets then counts.
"""

import statistics
from collections.abc import Awaitable, Callable

from aiocg.search.budget import Meter
from aiocg.search.lane import Lane
from aiocg.search.tuner import Outcome

__all__ = ["FINAL", "Finals"]

Actions = tuple[str, ...]
IsRight = Callable[[Actions, int], Awaitable[bool]]

FINAL = 0.1  # part of the time that is kept for the finals
FINALISTS = 4
ROUNDS, LEAST_ROUNDS = 9, 3


class Finals:
    """The best few lists of actions of a search."""

    def __init__(self) -> None:
        self._rewards: dict[Actions, float] = {}

    def offer(self, actions: Actions, reward: float) -> None:
        """Let a list take part if it is among the best so far; the one without actions never does."""
        if not actions:
            return
        self._rewards[actions] = reward
        if len(self._rewards) > FINALISTS:
            self._rewards.pop(min(self._rewards, key=self._rewards.__getitem__))

    async def decide(self, lane: Lane, meter: Meter, is_right: IsRight) -> tuple[Actions, float]:
        """Measure the finalists in turns.

        Args:
            lane: evaluates them.
            meter: of the budget; there are three rounds even if the time is up, and nine at most.
            is_right: whether a program does what it should, given the actions and the hash of the state.

        Returns:
            The actions with the highest median of those that are right, and that reward; no actions and 0 if that is
            no gain.

        Raises:
            ServiceError: if the worker fails.
        """
        measured: dict[Actions, list[Outcome]] = {actions: [] for actions in self._rewards}
        for number in range(ROUNDS):
            if number >= LEAST_ROUNDS and meter.out_of_time:
                break
            for actions, outcomes in measured.items():
                outcomes += await lane.evaluate([actions])
        medians = {actions: statistics.median(one.reward for one in found) for actions, found in measured.items()}
        for actions in sorted(medians, key=medians.__getitem__, reverse=True):
            state = next((one.state for one in measured[actions] if not one.failed), 0)
            if medians[actions] > 0 and await is_right(actions, state):
                return actions, medians[actions]
        return (), 0.0
