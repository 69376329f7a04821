"""What rebuilds a session: its benchmark and the actions that were acknowledged. Pure values."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Self

from aiocg.datasets.benchmark import Benchmark


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """A benchmark and a list of actions that shares its beginning with the trajectories it was forked from.

    Appending and sharing are O(1), so a thousand forks of one long episode keep one copy of its actions.

    Attributes:
        benchmark: the program at the start.
        state: 64-bit hash of the state after the last action, as the worker reported it.
        length: number of actions.
    """

    benchmark: Benchmark
    state: int
    length: int = 0
    _parent: "Trajectory | None" = None
    _last: Any = None

    def extended(self, actions: Iterable[Any], state: int) -> Self:
        """Return the trajectory with actions appended, leading to `state`."""
        node = self
        for action in actions:
            node = type(self)(self.benchmark, state, node.length + 1, node, action)
        return node

    def actions(self) -> list[Any]:
        """Return the actions, first to last."""
        found = []
        node: Trajectory | None = self
        while node is not None and node.length:
            found.append(node._last)
            node = node._parent
        found.reverse()
        return found
