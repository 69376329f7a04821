"""An event loop in virtual time, and a world that goes on beside it: every run of the same program is the same."""

import asyncio
import heapq
import itertools
import math
from collections.abc import Callable
from typing import Any

START = 1000.0  # seconds; a clock that begins at 0 hides what is compared with 0
TURNS = 60_000  # of the loop, after which a program is taken for one that does not end


class Deadlock(Exception):
    """Somebody waits for what nothing can bring about."""


class Endless(Exception):
    """A program does not end."""


class VirtualLoop(asyncio.BaseEventLoop):
    """An event loop whose clock jumps to what happens next when nothing is left to do.

    There are no files, sockets, signals or threads. The clock is `time`, as everywhere in asyncio. Events of the world,
    such as those of other processes, happen at their time even while the loop is busy.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now, self._turns = START, 0
        self._events: list[tuple[float, int, Callable[[], object]]] = []  # a heap
        self._numbers = itertools.count()
        self._selector = self

    def time(self) -> float:
        """Return the virtual time in seconds."""
        return self._now

    def happen(self, delay: float, event: Callable[[], object]) -> None:
        """Have something happen in the world after some seconds; it may call the loop's `call_soon`."""
        heapq.heappush(self._events, (self._now + delay, next(self._numbers), event))

    def skip(self, seconds: float) -> None:
        """Have time pass in which the loop does not run, as when its program is busy or stopped."""
        end = self._now + seconds
        while self._events and self._events[0][0] <= end:
            self._happen_next()
        self._now = end

    def _happen_next(self) -> None:
        time, _, event = heapq.heappop(self._events)
        self._now = max(self._now, time)
        event()

    def select(self, timeout: float | None) -> list[Any]:
        """Advance the clock, in place of waiting for files.

        Raises:
            Deadlock: if neither a timer nor an event of the world is left.
            Endless: after very many turns.
        """
        self._turns += 1
        if self._turns > TURNS:
            self._turns = 0  # what is left must be able to end
            raise Endless(f"{TURNS} turns of the loop, until second {self._now - START:.0f}")
        end = math.inf if timeout is None else self._now + max(timeout, 0.0)
        while self._events and self._events[0][0] <= end:
            self._happen_next()
            if self._ready:
                return []
        if end == math.inf:
            raise Deadlock("nothing is due, and nothing can happen")
        self._now = end
        return []

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: there are no files."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads."""
