"""The requests of one worker slot that have no reply yet."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from aiocg.fleet.pending import Pending
from aiocg.fleet.recovery import PROCESS_LOCAL, PendingClose, PendingRebuild, PendingUnload
from aiocg.fleet.waiting import overdue
from aiocg.fleet.withdrawal import is_abandoned

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["RequestQueue"]


class RequestQueue:
    """Requests without a reply, in order; each is in one of two collections, which stay the same objects.

    Attributes:
        sent: requests sent to the present process, by number.
        backlog: requests that have not been sent to it.
    """

    def __init__(self) -> None:
        self.sent: dict[int, Pending] = {}
        self.backlog: deque[Pending] = deque()

    def has_work(self) -> bool:
        """Return whether the process has requests other than those that free memory."""
        return not all(isinstance(one, (PendingClose, PendingUnload)) for one in self.sent.values())

    def is_unwanted(self, number: int) -> bool:
        """Return whether nobody waits any more for what a request that was sent is executed for."""
        pending = self.sent.get(number)
        return pending is not None and is_abandoned(pending, self.sent.values())

    def overdue(self, executed: int, now: float) -> list[Pending]:
        """Return the requests that have just become overdue, except the one being executed."""
        return overdue([*(one for number, one in self.sent.items() if number != executed), *self.backlog], now)

    def take_sent(self) -> dict[int, Pending]:
        """Remove and return what was sent, by number."""
        sent = dict(self.sent)
        self.sent.clear()
        return sent

    def take_all(self) -> list[Pending]:
        """Remove and return everything, in order."""
        taken = [*self.sent.values(), *self.backlog]
        self.sent.clear()
        self.backlog.clear()
        return taken

    def take_sent_of(self, session: "Rebuildable") -> list[Pending]:
        """Remove and return what was sent for a session, except its rebuilding."""
        numbers = [
            number
            for number, pending in self.sent.items()
            if pending.session is session and not isinstance(pending, PendingRebuild)
        ]
        return [self.sent.pop(number) for number in numbers]

    def take_unsent_of(self, session: "Rebuildable") -> list[Pending]:
        """Remove and return the requests of a session that were not sent."""
        taken = [one for one in self.backlog if one.session is session]
        self.refill([one for one in self.backlog if one.session is not session])
        return taken

    def take_unsent_about(self, sessions: "set[Rebuildable]") -> list[Pending]:
        """Remove and return the requests, not sent, that concern any of some sessions, be it as a child."""
        taken = [one for one in self.backlog if not sessions.isdisjoint(one.binds())]
        self.refill([one for one in self.backlog if sessions.isdisjoint(one.binds())])
        return taken

    def refill(self, backlog: Iterable[Pending]) -> None:
        """Replace the backlog."""
        backlog = list(backlog)
        self.backlog.clear()
        self.backlog.extend(backlog)


def resendable(sent: Iterable[Pending]) -> list[Pending]:
    """Return the requests that mean something to another process."""
    return [one for one in sent if not isinstance(one, PROCESS_LOCAL)]
