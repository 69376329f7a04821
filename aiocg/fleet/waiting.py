"""Decides which waiting sessions move to another worker slot."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from aiocg.fleet.pending import Pending

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["LONG", "movable", "overdue"]

LONG = 10.0  # seconds after which a wait is logged, and after which a session moves when its worker dies


def overdue(requests: Iterable[Pending], now: float) -> list[Pending]:
    """Return the requests that have become overdue since the last call.

    Args:
        requests: all waiting requests of a slot; the wait is counted from the first call that sees a request.
        now: the time in seconds.
    """
    found = []
    for request in requests:
        if not request.since:
            request.since = now
        elif not request.is_overdue and now - request.since >= LONG:
            request.is_overdue = True
            found.append(request)
    return found


def movable(backlog: Sequence[Pending], *, everybody: bool = False) -> "set[Rebuildable]":
    """Return the sessions that may move to another slot, and the sessions that must stay together with them.

    Sessions that have cost a worker stay, so that they do not harm another one.

    Args:
        backlog: the requests of the slot.
        everybody: all with requests may move; otherwise half of those with overdue ones, so that the next process has
            something to do.
    """
    groups: list[set[Rebuildable]] = []
    for request in backlog:
        group = set(request.binds())
        for other in [one for one in groups if not one.isdisjoint(group)]:
            groups.remove(other)
            group |= other
        groups.append(group)
    long = {session for request in backlog if request.is_overdue or everybody for session in request.binds()}
    harmful = {session for request in backlog if request.attempts for session in request.binds()}
    moving = [
        group
        for group in groups
        if not group.isdisjoint(long)
        and group.isdisjoint(harmful)
        and not any(one.kills or one.crashes or one.error is not None for one in group)
    ]
    return set().union(*(moving if everybody else moving[::2]))
