"""The benchmark and acknowledged actions from which a session is rebuilt."""

from collections.abc import Iterable
from typing import Any, Self

from aiocg.datasets.benchmark import Benchmark

__all__ = ["Trajectory"]


class _Segment:
    """A run of actions that only grows, and continues the first `used` actions of its parent."""

    __slots__ = ("actions", "parent", "used")

    def __init__(self, parent: "_Segment | None" = None, used: int = 0) -> None:
        self.actions: list[Any] = []
        self.parent = parent
        self.used = used


class Trajectory:
    """A benchmark and a list of actions, as a value.

    It shares its beginning with the trajectories it was forked from, so a thousand forks of one long episode keep one
    copy of its actions. The first fork to continue appends to the shared segment; the others begin segments of their
    own. So appending and sharing are O(1), and an episode without forks is one plain list, which spares the garbage
    collector.

    Attributes:
        benchmark: the program at the start.
        state: 64-bit hash of the state after the last action, as the worker reported it.
        before: the state before the last actions that were appended; at the start, `state`.
        length: number of actions.
    """

    __slots__ = ("_end", "_segment", "before", "benchmark", "length", "state")

    def __init__(self, benchmark: Benchmark, state: int) -> None:
        self.benchmark = benchmark
        self.state = self.before = state
        self.length = 0
        self._segment = _Segment()
        self._end = 0  # number of the segment's actions that belong to this trajectory

    def extended(self, actions: Iterable[Any], state: int) -> Self:
        """Return the trajectory with actions appended, leading to `state`."""
        segment = self._segment
        if len(segment.actions) != self._end:
            segment = _Segment(segment, self._end)
        before = len(segment.actions)
        segment.actions.extend(actions)
        longer = type(self).__new__(type(self))
        longer.benchmark = self.benchmark
        longer.state = state
        longer.before = self.state
        longer._segment = segment
        longer._end = len(segment.actions)
        longer.length = self.length + longer._end - before
        return longer

    def actions(self) -> list[Any]:
        """Return the actions, first to last."""
        parts = []
        segment: _Segment | None = self._segment
        end = self._end
        while segment is not None:
            parts.append(segment.actions[:end])
            end = segment.used
            segment = segment.parent
        return [action for part in reversed(parts) for action in part]
