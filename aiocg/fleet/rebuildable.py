"""A session's state, sufficient to rebuild it on another worker."""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from aiocg.fleet.replay import Trajectory

__all__ = ["Rebuildable", "Setting"]

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

    __slots__ = (
        "__weakref__",
        "closed",
        "crashes",
        "ended",
        "error",
        "kills",
        "last",
        "number",
        "pending",
        "settings",
        "trajectory",
        "worker",
    )

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
