"""A client's connection to a worker on a node, which sends the content of a program only where it is not kept."""

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable

from aiocg.errors import ServiceError
from aiocg.node.holdings import SMALL, Holding
from aiocg.transport.errors import LocalProtocolError, RemoteProtocolError
from aiocg.transport.limits import MAX_FRAME_BYTES
from aiocg.transport.messages import Done, Failure, FailureCode, Load, Reply, Request, Store, Stored, Timed
from aiocg.transport.security import ClientSecurity
from aiocg.transport.sockets import ClientChannel

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
