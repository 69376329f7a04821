"""Which nodes hold which programs, so that each is sent once.

Else we send it with the first worker that loads it. Further workers wait for what is under way, but not long. Whatever
goes wrong, the content is sent as if nothing were kept anywhere.
"""

import asyncio
import random
from collections.abc import Callable, Container, Coroutine
from typing import Any

from aiocg.node.connection import Connection
from aiocg.transport.control import Fetch
from aiocg.transport.messages import Load, LoadStored, Request, Store

USELESS = 2  # nodes that a node did not get anything from, after which it is not made to ask others
SMALL = 16 << 10  # bytes up to which a content goes with its request: about what a connection carries at once


class Holding:
    """What one node keeps, as far as we know.

    Attributes:
        connection: to the node.
    """

    def __init__(self, connection: Connection, all_holdings: "Holdings") -> None:
        self.connection = connection
        self._all = all_holdings
        self._kept: set[bytes] = set()
        self._coming: dict[bytes, list[Callable[[], None]]] = {}  # what is under way, and who waits for it
        self._sent: set[bytes] = set()  # of what is under way, what we have sent for the node to keep
        self._useless: set[str] = set()  # addresses of nodes that did not give us what they keep
        self._unanswered: set[bytes] = set()  # contents that the node was asked in vain to get
        self._reader = ""
        self._refuses = False

    @property
    def usable(self) -> bool:
        """Whether the node keeps contents now; what it kept for an earlier lease is forgotten."""
        said = self.connection.said
        if said is None or not said.reader or self.connection.failure is not None:
            return False
        if said.reader != self._reader:
            self._reader, self._refuses = said.reader, False
            self._kept.clear()
            self._unanswered.clear()
        return not self._refuses

    def has(self, digest: bytes) -> bool:
        """Return whether the node keeps a content."""
        return self.usable and digest in self._kept

    def form(self, load: Load, digest: bytes, arrived: Callable[[], None] | None) -> Request | None:
        """Return the request by which a worker of the node should load a program.

        Returns None if the content is under way to the node; `arrived` is called when it is there, or will not come.
        Without `arrived`, the content is sent, whatever is under way.
        """
        if not self.usable:
            return load
        if digest in self._kept:
            return LoadStored(load.request, load.benchmark, digest, load.timeout, load.program)
        if arrived is None or digest not in self._coming:
            self._coming.setdefault(digest, [])
            asks = len(self._useless) < USELESS and digest not in self._unanswered
            others = self._all.others(self, digest, self._useless) if asks else []
            if arrived is None or not others:
                if digest in self._sent:  # one worker for all that have waited in vain
                    return load
                self._sent.add(digest)
                return Store(load.request, load.benchmark, load.content, load.timeout, load.program)
            self._all.run(self._fetch(random.choice(others).connection, digest, len(load.content)))
        self._coming[digest].append(arrived)
        return None

    async def _fetch(self, other: Connection, digest: bytes, size: int) -> None:
        assert other.said is not None
        fetch = Fetch(digest, size, other.address, other.security.server, other.said.reader)
        kept = await self.connection.fetch(fetch)
        if kept is None:
            self._unanswered.add(digest)
        elif not kept:
            self._useless.add(other.address)
        self.arrived(digest, kept=bool(kept))

    def arrived(self, digest: bytes, *, kept: bool) -> None:
        """Handle that a content has come to the node, or will not come."""
        if kept:
            self._kept.add(digest)
        self._sent.discard(digest)
        for arrived in self._coming.pop(digest, []):
            arrived()

    def refuse(self) -> None:
        """Handle that the node has no room, or has lost what it kept."""
        self._refuses = True


class Holdings:
    """What the nodes of a runtime keep."""

    def __init__(self) -> None:
        self._all: dict[Connection, Holding] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, connection: Connection) -> Holding:
        """Return what is known of a node."""
        self._all = {one: holding for one, holding in self._all.items() if one.failure is None}
        return self._all.setdefault(connection, Holding(connection, self))

    def others(self, holding: Holding, digest: bytes, useless: Container[str]) -> list[Holding]:
        """Return the other nodes that keep a content."""
        return [
            one
            for one in self._all.values()
            if one is not holding and one.connection.address not in useless and one.has(digest)
        ]

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a task, which ends by itself."""
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
