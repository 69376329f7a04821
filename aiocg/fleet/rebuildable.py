"""A session's state, sufficient to rebuild it on another worker."""

import itertools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Self

from aiocg.datasets.benchmark import Benchmark


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


_numbers = itertools.count(1)


class Setting:
    """A parameter that was sent. A session shares it with its forks: if it is refused, it is refused for all.

    Attributes:
        value: the value sent; None once it was refused.
        before: the setting that it replaces, until it is answered.
        is_answered: the compiler has accepted or refused it.
    """

    __slots__ = ("before", "is_answered", "value")

    def __init__(self, value: str, before: "Setting | None") -> None:
        self.value: str | None = value
        self.before = before
        self.is_answered = False

    def taken(self) -> None:
        """Handle that the compiler accepted the value."""
        self.before, self.is_answered = None, True

    def refused(self) -> None:
        """Handle that the compiler refused the value: the previous one remains set."""
        self.value, self.is_answered = None, True

    def standing(self, *, answered: bool = False) -> "Setting | None":
        """Return the latest setting, this or an earlier one, that was not refused; if `answered`, that was accepted."""
        setting: Setting | None = self
        while setting is not None and (setting.value is None or (answered and not setting.is_answered)):
            setting = setting.before
        return setting


class Rebuildable:
    """One environment's state on a worker, with everything needed to rebuild it.

    Attributes:
        number: its name on the wire, unique in this process.
        worker: the slot where it lives.
        trajectory: the acknowledged actions; None before the first reset.
        ended: an action failed; no further one is executed before a reset or restore.
        error: why the session cannot be rebuilt, None if it can.
        closed: nobody uses the session any more.
        pending: number of requests without a reply.
        last: the latest request, None once all requests are answered.
        settings: the parameters that were sent, by key, the latest last.
        crashes, kills: how often its worker crashed, or was killed from outside, while the session was being rebuilt or
            its program loaded; reset when that succeeds.
    """

    def __init__(self, worker: Any, settings: Mapping[str, Setting] = MappingProxyType({})) -> None:
        self.number = next(_numbers)
        self.worker = worker
        self.trajectory: Trajectory | None = None
        self.ended = False
        self.error: Exception | None = None
        self.pending = 0
        self.last: Any = None
        self.settings = settings
        self.closed = False
        self.crashes = self.kills = 0

    @property
    def parameters(self) -> dict[str, str]:
        """Keys and values of the parameters that are set, the latest last."""
        return self._values(answered=False)

    @property
    def known_parameters(self) -> dict[str, str]:
        """The parameters that the compiler is known to have accepted; others are still in flight."""
        return self._values(answered=True)

    def standing(self, *, answered: bool = False) -> dict[str, Setting]:
        """Return the settings that are in force, by key."""
        found = {key: setting.standing(answered=answered) for key, setting in self.settings.items()}
        return {key: setting for key, setting in found.items() if setting is not None}

    def _values(self, *, answered: bool) -> dict[str, str]:
        return {key: setting.value for key, setting in self.standing(answered=answered).items() if setting.value}

    def confirm(self, taken: Mapping[str, tuple[Setting, str]]) -> None:
        """Record the values that a reset has set, whatever happens to the requests that first sent them."""
        for key, (setting, value) in taken.items():
            if setting.value is not None and setting.is_answered:
                continue
            own, newer = Setting(value, None), self.settings.get(key)
            own.taken()
            if newer is setting:
                self.settings = {**self.settings, key: own}
            while newer is not None and newer is not setting:  # settings sent since
                if newer.before is setting:
                    newer.before = own
                newer = newer.before

    def lose(self, error: Exception) -> None:
        """Mark the session as impossible to rebuild; all its requests fail."""
        if self.error is None:
            self.error = error
            self.worker.abandon(self)
