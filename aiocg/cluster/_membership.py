"""Decides which nodes of a cluster are up and how many are wanted: pure state machines, with the clock as an argument.

A node is lost when it was silent for a while in which another one was heard. When all are silent, the fault is more
likely on our side, and nothing is decided until one is heard again, or until the timeout. The others then have as long
again to be heard: after a cut of t seconds, TCP waits up to another t seconds before it tries a connection again
(its retransmission timeout doubles, RFC 6298).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

_SILENT = 1.5  # seconds without a word after which a node does not count as heard; nodes answer twice a second
GAP = 1.0  # seconds between two looks after which our own process was busy or stopped


@dataclass(frozen=True, slots=True)
class Up:
    """A node can be used."""

    node: str


@dataclass(frozen=True, slots=True)
class Down:
    """A node is lost, and its workers with it."""

    node: str


@dataclass(frozen=True, slots=True)
class Failed:
    """All nodes have been silent for too long."""


Event = Up | Down | Failed


class Membership:
    """Which nodes are up.

    Attributes:
        up: the nodes that are up.

    Args:
        patience: seconds of silence, while others are heard, after which a node is lost.
        timeout: seconds of silence of all nodes after which the cluster is.
    """

    def __init__(self, patience: float, timeout: float, now: float) -> None:
        self.up: set[str] = set()
        self._patience = patience
        self._timeout = timeout
        self._missed: dict[str, float] = {}  # seconds for which a node was silent and another was not
        self._grace: dict[str, float] = {}  # seconds of the longest time of these in which all were silent
        self._looked = now
        self._alone = 0.0  # seconds for which all were silent

    def left(self, node: str) -> None:
        """Handle that a node was left; should it be met again, it is another one."""
        self.up.discard(node)

    def looked(self, silences: Mapping[str, float], now: float) -> list[Event]:
        """Handle for how many seconds each node has been silent: infinitely, if it does not want us."""
        passed = now - self._looked
        passed = passed if passed < GAP else 0.0
        self._looked = now
        heard = {node for node, silence in silences.items() if silence <= min(_SILENT, self._patience)}
        if heard and self._alone > _SILENT:
            self._grace = {node: max(self._grace[node], self._alone) for node in self.up}
        self._alone = 0.0 if heard else self._alone + passed
        events: list[Event] = [Up(node) for node in sorted(heard - self.up)]
        self.up = (self.up | heard) & silences.keys()
        for node in sorted(self.up):
            if node in heard:
                self._missed[node] = self._grace[node] = 0.0
            elif heard:
                self._missed[node] += math.inf if silences[node] == math.inf else passed
                if self._missed[node] > self._patience + self._grace[node]:
                    self.up.discard(node)
                    events.append(Down(node))
        if self._alone > self._timeout:
            events.append(Failed())
        return events


DEEP = 8.0  # requests per worker, in flight or waiting, from which on there should be more machines
_SHALLOW = 0.5  # requests per worker up to which there may be fewer
GROW_AFTER = 5.0  # seconds for which the queue was deep
SHRINK_AFTER = 60.0  # seconds for which it was shallow


class Demand:
    """Decides how many machines a runtime wants, by how many requests wait.

    Attributes:
        wanted: how many.

    Args:
        least: how many there should be at least: those of the beginning.
    """

    def __init__(self, least: int) -> None:
        self.wanted = self._least = least
        self._deep_since: float | None = None
        self._shallow_since: float | None = None

    def looked(self, machines: int, workers: int, requests: int, now: float) -> int:
        """Handle how many machines, workers and requests without a reply there are; return how many are wanted.

        Half as many machines again are asked for at a time, and no more before those are there. One is given back at a
        time.
        """
        deep, shallow = requests > DEEP * workers, requests <= _SHALLOW * workers
        self._deep_since = (self._deep_since if self._deep_since is not None else now) if deep else None
        self._shallow_since = (self._shallow_since if self._shallow_since is not None else now) if shallow else None
        if self._deep_since is not None and now - self._deep_since >= GROW_AFTER and machines >= self.wanted:
            self.wanted = machines + max(1, machines // 2)
            self._deep_since = now
        elif self._shallow_since is not None and now - self._shallow_since >= SHRINK_AFTER:
            self.wanted = max(self._least, min(self.wanted, machines) - 1)
            self._shallow_since = now
        return self.wanted
