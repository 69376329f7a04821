"""A client's connection to a worker on a node, which sends the content of a program only where it is not kept.

A program that the node does not keep is had from another node, or sent with the first worker that loads it. Further
workers wait for what is under way, but not long. Whatever goes wrong, the content is sent as if nothing were kept.
"""

import asyncio
import hashlib
import random
from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

from aiocg.errors import ServiceError
from aiocg.host.threads import Tasks
from aiocg.transport.control import Attached, Fetch
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError
from aiocg.transport.limits import MAX_FRAME_BYTES
from aiocg.transport.messages import Done, Failure, FailureCode, Load, LoadStored, Reply, Request, Store, Stored, Timed
from aiocg.transport.security import ClientSecurity
from aiocg.transport.sockets import ClientChannel

_USELESS = 2  # nodes that a node did not get anything from, after which it is not made to ask others
SMALL = 16 << 10  # bytes up to which a content goes with its request: about what a connection carries at once


class NodeConnection(Protocol):
    """What is needed of a connection to a node; see `Connection`."""

    address: str
    security: ClientSecurity
    failure: Exception | None

    @property
    def said(self) -> Attached | None:
        """The node's answer to `Attach`, None before it."""

    async def fetch(self, fetch: Fetch) -> bool | None:
        """Have the node get the content of a program from another one."""


class Holding:
    """What one node keeps, as far as we know.

    Attributes:
        connection: to the node.
    """

    def __init__(self, connection: NodeConnection, all_holdings: "Holdings") -> None:
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
            asks = len(self._useless) < _USELESS and digest not in self._unanswered
            others = self._all.others(self, digest, self._useless) if asks else []
            if arrived is None or not others:
                if digest in self._sent:  # one worker for all that have waited in vain
                    return load
                self._sent.add(digest)
                return Store(load.request, load.benchmark, load.content, load.timeout, load.program)
            self._all.tasks.start(self._fetch(random.choice(others).connection, digest, len(load.content)))
        self._coming[digest].append(arrived)
        return None

    async def _fetch(self, other: NodeConnection, digest: bytes, size: int) -> None:
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
        self._all: dict[NodeConnection, Holding] = {}
        self.tasks = Tasks()

    def of(self, connection: NodeConnection) -> Holding:
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


PATIENCE = 2.0  # seconds that a worker waits for a content that is under way to its node, before we send it


class ProgramTooLarge(LocalProtocolError, ServiceError):
    """A program is larger than the node accepts; nothing was sent."""


class NodeChannel(ClientChannel):
    """A channel to a worker on a node.

    While a content is under way to the node, the request that needs it waits here, and so do those after it. A program
    that is so large that the worker would disconnect us is refused.
    """

    def __init__(
        self,
        address: str,
        holding: Holding,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
    ) -> None:
        """Begin to connect; see `ClientChannel`. `holding` is what the node keeps."""
        super().__init__(address, on_replies=self._replied, on_error=on_error, security=security)
        said = holding.connection.said
        self._most = int(said.limits.get("request_bytes", MAX_FRAME_BYTES)) if said is not None else MAX_FRAME_BYTES
        self._holding = holding
        self._pass_on = on_replies
        self._held: deque[Request] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._sent: dict[int, tuple[bytes, bool]] = {}  # contents sent or named, by request, and whether they were sent

    def send(self, message: Request, *, at_once: bool = False) -> None:
        """Queue a request; see `Channel.send`."""
        if isinstance(message, Load) and (size := max(len(message.content), len(message.program))) > self._most:
            raise ProgramTooLarge(
                f"the program has {size} bytes, and the node accepts at most {self._most}; its operator can change "
                "that (`aiocg serve --client-request`)",
                request=message.request,
            )
        if self._held:
            self._held.append(message)
        elif not isinstance(message, Load) or len(message.content) <= SMALL:
            super().send(message, at_once=at_once)
        else:
            self._load(message)

    def _load(self, load: Load, until: float | None = None, *, wait: bool = True) -> None:
        """Send a program in the form that the node needs, or hold it, if it has waited already until a given time."""
        digest = hashlib.sha256(load.content).digest()
        form = self._holding.form(load, digest, self._go_on if wait else None)
        if form is None:
            self._held.appendleft(load)
            self._timer = self._loop.call_at(until or self._loop.time() + PATIENCE, self._go_on, False)
            return
        stores = isinstance(form, Store)
        try:
            super().send(form)
        except LocalProtocolError:
            if stores:
                self._holding.arrived(digest, kept=False)
            raise
        if form is not load:
            self._sent[load.request] = digest, stores

    def _go_on(self, wait: bool = True) -> None:
        """Send what was held, as far as it need not wait again; the first of it in any case without `wait`."""
        if self._timer is None:
            return  # it was sent, or this is closed
        until: float | None = self._timer.when()
        self._timer.cancel()
        self._timer = None
        while self._held and self._timer is None:
            message = self._held.popleft()
            try:
                if isinstance(message, Load) and len(message.content) > SMALL:
                    self._load(message, until, wait=wait)
                else:
                    super().send(message)
            except LocalProtocolError as error:
                self._on_error(error)
            wait, until = True, None

    def _replied(self, replies: list[Reply]) -> None:
        for index, reply in enumerate(replies if self._sent else ()):
            if isinstance(reply, Timed):  # it precedes the reply to the same request
                continue
            found = self._sent.pop(getattr(reply, "request", -1), None)
            if found is None:
                continue
            digest, was_sent = found
            if was_sent:
                kept = isinstance(reply, Stored) and reply.kept
                if isinstance(reply, Stored):
                    replies[index] = Done(reply.request)
                    if not kept:
                        self._holding.refuse()
                self._holding.arrived(digest, kept=kept)
            elif isinstance(reply, Failure) and reply.code == FailureCode.CONTENT_UNKNOWN:
                self._holding.refuse()
                self._pass_on(replies[:index])
                self._on_error(RemoteProtocolError(reply.message))  # so that all is done again, by another process
                return
        self._pass_on(replies)

    def close(self) -> None:
        """Close; see `Channel.close`."""
        super().close()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()
        sent, self._sent = self._sent, {}
        for digest, was_sent in sent.values():
            if was_sent:
                self._holding.arrived(digest, kept=False)
