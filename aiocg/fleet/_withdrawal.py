"""Decides which requests a cancellation withdraws. Pure.

A cancelled request is not sent to another process, unless a request that somebody waits for depends on it. If a request
is abandoned during its execution, the requests that depend on it fail with it, up to the next reset or restored
snapshot, or the first independent request: one made after the cancellation, by a caller who could not know whether the
cancelled request would be executed.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from aiocg.fleet.requests import Pending, PendingLoad, PendingOpen, PendingRebuild

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable


def served_by(executed: Pending, requests: Iterable[Pending]) -> list[Pending]:
    """Return the requests that need `executed`: itself or, if it is a load or a rebuild, those waiting for it."""
    if isinstance(executed, PendingLoad):
        return [pending for pending in requests if pending.starts_from() == executed.benchmark.key]
    if isinstance(executed, PendingRebuild):
        session = executed.session
        return [one for one in requests if one.session is session and not isinstance(one, PendingRebuild)]
    return [executed]


def is_abandoned(executed: Pending, requests: Iterable[Pending]) -> bool:
    """Return whether nobody waits any more for any of the requests that need `executed`."""
    served = [one for one in served_by(executed, requests) if one.future is not None]
    return bool(served) and all(one.abandoned for one in served)


def sort_out_abandoned(requests: Sequence[Pending]) -> tuple[list[Pending], list[Pending]]:
    """Return the requests that are still wanted, and those that are not."""
    wanted, unwanted = [], []
    needed: set[Rebuildable] = set()  # sessions whose state a later request starts from
    for request in reversed(requests):
        if request.abandoned and needed.isdisjoint(request.changes()):
            unwanted.append(request)
            continue
        wanted.append(request)
        needed.difference_update(request.changes())  # the state before this request is not needed, unless added below
        if request.session is None or isinstance(request, PendingOpen) or request.independent:
            continue
        needed.add(request.session)
    return wanted[::-1], unwanted[::-1]


def sort_out_lost(requests: Iterable[Pending], given_up: Collection[Pending]) -> tuple[list[Pending], list[Pending]]:
    """Return the requests that can be executed without those given up, and those that cannot.

    Args:
        requests: all requests, in order.
        given_up: the requests given up; they are among those returned second.
    """
    possible, impossible = [], []
    lost: set[Rebuildable] = set()  # sessions that never reached the state from which the next request would start
    for request in requests:
        if request.independent and request.session is not None:
            lost.discard(request.session)
        if request in given_up or (request.session in lost and not isinstance(request, PendingOpen)):
            impossible.append(request)
            lost.update(request.changes())
        else:
            possible.append(request)
            lost.difference_update(request.changes())
    return possible, impossible


# ------------------------------------------------------ Decides which waiting sessions move to another worker slot

SUSPICIOUS = 2  # deaths over one request, by any cause, after which no other slot gets it
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


def movable(backlog: Sequence[Pending], *, everybody: bool = False) -> "list[Rebuildable]":
    """Return the sessions that may move to another slot, and the sessions that must stay together with them.

    Sessions that have cost a worker stay, so that they do not harm another one; where all may move, it takes two, as
    whoever was hit by a kill from outside must not wait for a worker that does not start.

    Args:
        backlog: the requests of the slot.
        everybody: all with requests may move; otherwise half of those with overdue ones, so that the next process has
            something to do.
    """
    most = SUSPICIOUS - 1 if everybody else 0
    groups: list[set[Rebuildable]] = []
    for request in backlog:
        group = set(request.binds())
        for other in [one for one in groups if not one.isdisjoint(group)]:
            groups.remove(other)
            group |= other
        groups.append(group)
    long = {session for request in backlog if request.is_overdue or everybody for session in request.binds()}
    harmful = {session for request in backlog if request.attempts > most for session in request.binds()}
    moving = [
        group
        for group in groups
        if not group.isdisjoint(long)
        and group.isdisjoint(harmful)
        and not any(one.kills + one.crashes > most or one.error is not None for one in group)
    ]
    chosen: set[Rebuildable] = set().union(*(moving if everybody else moving[::2]))
    return list(dict.fromkeys(session for request in backlog for session in request.binds() if session in chosen))
