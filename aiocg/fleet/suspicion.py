"""Finds the request behind a worker's unexplained death, by sending requests one at a time, suspects last.

A request may harm its worker and return, so that the worker dies later, while idle or reading the next request. After
such a death the requests without a reply are sent to the next worker one at a time. A request during which that worker
dies too becomes a suspect, and moves behind all others. If it then kills its worker again, it is convicted.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aiocg.fleet.pending import Pending
from aiocg.fleet.recovery import PROCESS_LOCAL

if TYPE_CHECKING:
    from aiocg.fleet.rebuildable import Rebuildable

__all__ = ["Suspicion", "put_behind"]

SUSPICIOUS = 2  # deaths over one request, by any cause, after which no other slot may inherit it


@dataclass(slots=True)
class Suspicion:
    """The search for the request behind unexplained deaths.

    Attributes:
        aroused: a worker died without explanation, and not all of its requests have been tried since.
        trying: requests are sent to the present worker one at a time.
        left: number of requests still to be sent one at a time.
        suspects: requests that were alone on a worker when it died without explanation.
    """

    aroused: bool = False
    trying: bool = False
    left: int = 0
    suspects: set[Pending] = field(default_factory=set)

    def arouse(self, in_flight: Iterable[Pending]) -> tuple[Pending | None, bool]:
        """Record an unexplained death; return the suspect, None if there is none, and whether it is convicted.

        Args:
            in_flight: the requests sent to the worker, in order; loads and rebuilds among them are not suspected.
        """
        first = next((one for one in in_flight if not isinstance(one, PROCESS_LOCAL)), None)
        self.aroused = self.aroused or first is not None
        return (first, self.accuse(first)) if first is not None and self.trying else (None, False)

    def accuse(self, request: Pending) -> bool:
        """Record a death over a request; return whether it is convicted: alone on its worker for the second time."""
        if not self.trying:
            return False
        convicted = request in self.suspects
        self.suspects.add(request)
        return convicted

    def begin(self, count: int) -> bool:
        """Start with a new worker and `count` requests; return whether to send them one at a time."""
        self.trying, self.left = self.aroused and count > 0, count
        if not self.trying:
            self.end()
        return self.trying

    def end(self) -> None:
        """Stop: all requests that were tried have been answered."""
        self.aroused = self.trying = False
        self.left = 0
        self.suspects.clear()

    def is_suspect(self, request: Pending) -> bool:
        """Return whether a request is too dangerous for another slot."""
        return request in self.suspects or request.attempts >= SUSPICIOUS


def put_behind(requests: Iterable[Pending], sessions: "Collection[Rebuildable]") -> list[Pending]:
    """Move the requests of some sessions, and of the sessions forked from them, behind all others."""
    first, last = [], []
    moved = set(sessions)
    for request in requests:
        bound = request.binds()
        if moved.isdisjoint(bound):
            first.append(request)
        else:
            moved.update(bound)
            last.append(request)
    return first + last
