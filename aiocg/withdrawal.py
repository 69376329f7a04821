"""Which requests of a worker are not carried out because some were cancelled: pure functions of them all, in order.

A request that nobody waits for any more is not sent to another process, unless another one that somebody does wait for
starts from the state that it leads to. One that was given up while it was executed takes with it what was to start
from there, up to the next reset or restored snapshot, or the first that was made when it had been cancelled already:
whoever made that did not know which state it would start from.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from aiocg.repairs import PendingLoad, PendingRebuild
from aiocg.requests import Pending, PendingOpen

if TYPE_CHECKING:
    from aiocg.session import Session

__all__ = ["is_abandoned", "served_by", "sort_out_abandoned", "sort_out_lost"]


def served_by(executed: Pending, requests: Iterable[Pending]) -> list[Pending]:
    """Return for which of some requests one is executed: for itself, or for those that it is a repair for."""
    if isinstance(executed, PendingLoad):
        return [pending for pending in requests if pending.starts_from() == executed.benchmark.key]
    if isinstance(executed, PendingRebuild):
        session = executed.session
        return [one for one in requests if one.session is session and not isinstance(one, PendingRebuild)]
    return [executed]


def is_abandoned(executed: Pending, requests: Iterable[Pending]) -> bool:
    """Say whether nobody waits any more for any of those requests that one is executed for."""
    served = [one for one in served_by(executed, requests) if one.future is not None]
    return bool(served) and all(one.abandoned for one in served)


def sort_out_abandoned(requests: Sequence[Pending]) -> tuple[list[Pending], list[Pending]]:
    """Divide the requests into those that are still wanted, and those that are not."""
    wanted, unwanted = [], []
    needed: set[Session] = set()  # sessions whose state a later request starts from
    for request in reversed(requests):
        if request.abandoned and needed.isdisjoint(request.changes()):
            unwanted.append(request)
            continue
        wanted.append(request)
        needed.difference_update(request.changes())  # from here on, what it starts from counts
        if request.session is None or isinstance(request, PendingOpen) or request.forgiving:
            continue
        needed.add(request.session)
    return wanted[::-1], unwanted[::-1]


def sort_out_lost(requests: Iterable[Pending], given_up: Collection[Pending]) -> tuple[list[Pending], list[Pending]]:
    """Divide the requests into those that can be carried out without those given up, and those that cannot, and these.

    Args:
        requests: all of them.
        given_up: some of them.
    """
    possible, impossible = [], []
    lost: set[Session] = set()  # sessions whose state the requests at hand were to start from, and which never was
    for request in requests:
        if request.forgiving and request.session is not None:
            lost.discard(request.session)
        if request in given_up or (request.session in lost and not isinstance(request, PendingOpen)):
            impossible.append(request)
            lost.update(request.changes())
        else:
            possible.append(request)
            lost.difference_update(request.changes())
    return possible, impossible
