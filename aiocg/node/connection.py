"""A client's connection to a node: keeps the two in agreement about workers, and reconnects."""

import asyncio
import contextlib
import logging
import math
import secrets
from collections.abc import Callable, Iterable, Mapping

from aiocg import __version__
from aiocg.errors import NodeUnreachable, RuntimeClosed
from aiocg.host.launcher import Look
from aiocg.host.run_time import Stopwatch
from aiocg.node.attachment import KILLED, Attachment, Ended, Event
from aiocg.node.network import ControlChannel, Network
from aiocg.transport.control import (
    Attached,
    Detach,
    Fetch,
    Fetched,
    FromClient,
    FromNode,
    Order,
    Refused,
    Surveyed,
)
from aiocg.transport.errors import NotAdmittedError, RemoteProtocolError, TransportError
from aiocg.transport.security import ClientSecurity

CONNECT_TIMEOUT = (
    10.0  # seconds to wait for a connection to the node (three lost SYNs take 7), an answer, a worker's port
)
_FETCH_TIMEOUT = 60.0  # seconds that a node may take to get a program from another one; nobody waits so long for it
_LEAVE_TIMEOUT = 0.5  # seconds to wait for the node to confirm that we left; otherwise the lease runs out
TICK = 0.1  # seconds between ticks of the state machine

logger = logging.getLogger("aiocg.node")


class Connection:
    """A connection to a node, and the task that sends its beats.

    Attributes:
        address: of the node.
        security: our keys, and the node's public key.
        network: how the node and its workers are reached.
        failure: why no more workers can be started, None if they can.
        refused: the node does not know our key.
    """

    def __init__(self, address: str, security: ClientSecurity, network: Network | None = None) -> None:
        self.address = address
        self.security = security
        self.network = network or Network()
        self.failure: Exception | None = None
        self.refused = False
        self._clock = asyncio.get_running_loop().time
        self._machine = Attachment(f"aiocg {__version__}", secrets.token_hex(16), self._clock())
        self._events: dict[int, asyncio.Queue[Event]] = {}  # of each worker, by number
        self._fetches: dict[bytes, asyncio.Future[bool | None]] = {}
        self._lost = False
        self._changed = asyncio.Event()  # set when `said` or `failure` may have changed
        self._left = asyncio.Event()
        self._wake = asyncio.Event()
        self._channel: ControlChannel | None = None
        self._connect()
        self._keeper = asyncio.create_task(self._keep())

    @property
    def said(self) -> Attached | None:
        """The node's answer to `Attach`, None before it."""
        return self._machine.attached

    @property
    def silence(self) -> float:
        """Seconds since the node was last heard; infinity if it has not accepted us, or does not any more."""
        refused = self.failure is not None or self.said is None or bool(self._machine.refusal)
        return math.inf if refused else self._clock() - self._machine.heard

    # ------------------------------------------------------------------------------------------ connecting

    def _connect(self) -> None:
        """Open a channel, and close an earlier one whose link was lost."""
        if self._channel is not None:
            self._channel.close()
            self._machine.disconnected(self._clock())
            self._forget_fetches()
        try:
            self._channel = self.network.control(self.address, self.security, self._received, self._broken)
        except TransportError as error:
            self._channel = None
            raise NodeUnreachable(self.address, str(error)) from error

    async def attached(self) -> None:
        """Wait until the node has answered; raise NodeUnreachable if it cannot be reached in time."""
        watch = Stopwatch(self._clock())
        while self.said is None and self.failure is None:
            reached = self._channel is not None and self._channel.connected
            if watch.passed(self._clock()) >= CONNECT_TIMEOUT and not reached:
                break
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(TICK):
                    await self._changed.wait()
        if self.said is None and self.failure is None:
            self._lose(
                self._machine.refusal
                or f"it has not answered within {CONNECT_TIMEOUT:g} s. Check that the address is right, that `aiocg "
                "serve` runs there and listens on it (--bind), not only on loopback, and that no firewall blocks it"
            )
        if self.failure is not None:
            raise self.failure

    async def lost(self) -> None:
        """Wait until the node was given up; `failure` says why."""
        await self._until(lambda: self._lost)

    async def _until(self, holds: Callable[[], object]) -> None:
        while not holds():
            self._changed.clear()
            await self._changed.wait()

    def _broken(self, error: Exception) -> None:
        if isinstance(error, NotAdmittedError):
            self.refused = True
            self._lose(str(error))
        elif not isinstance(error, RemoteProtocolError):  # the node was restarted, or has forgotten us
            asyncio.get_running_loop().call_soon(self._connect_again)

    def _connect_again(self) -> None:
        if self.failure is None and not self._keeper.done():
            try:
                self._connect()
            except NodeUnreachable as error:
                self._lose(str(error))

    # --------------------------------------------------------------------------------------------- the clock

    async def _keep(self) -> None:
        try:
            while not self._lost:
                self._tick(self._clock())
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(TICK):  # unlike `wait_for`, it makes no task
                        await self._wake.wait()
                self._wake.clear()
        except Exception as error:
            logger.exception("connection to a node lost", extra={"address": self.address})
            self._lose(f"of a bug: {error!r}")

    def _tick(self, now: float) -> None:
        messages, events = self._machine.ticked(now)
        for message in messages:
            self._send(message)
        self._happened(events)

    def _send(self, message: FromClient) -> None:
        if self._channel is not None and not self._channel.closed:
            self._channel.send(message)

    def _received(self, messages: list[FromNode]) -> None:
        now = self._clock()
        for message in messages:
            if isinstance(message, Fetched):
                self._fetched(message.digest, kept=message.kept)
            elif isinstance(message, Refused):
                self._forget_fetches()
            try:
                self._happened(self._machine.received(message, now))
            except TransportError as error:  # another version
                self._lose(str(error))
                return
        if self._machine.left:
            self._left.set()
        self._changed.set()

    def _happened(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.number in self._events:
                self._events[event.number].put_nowait(event)

    def _lose(self, reason: str) -> None:
        """Give the node up: report all workers as ended, and start no more."""
        if not self._lost:
            self._lost = True
            self.failure = self.failure or NodeUnreachable(self.address, reason)
            self._happened([Ended(number, KILLED, Look(lost=True)) for number in self._events])
            self._forget_fetches()
            self._changed.set()
            self._wake.set()

    # ----------------------------------------------------------------------------------------------- workers

    def spawn(self, kind: str, options: Mapping[str, float], memory_limit: int) -> int:
        """Request a worker and return its number; `next_event` returns the outcome.

        Raises:
            NodeUnreachable: if the node was given up.
            RuntimeClosed: after `stop`.
        """
        if self.failure is not None:
            raise self.failure
        self._wake.set()
        number = self._machine.spawn(kind, options, memory_limit)
        self._events[number] = asyncio.Queue()
        return number

    async def next_event(self, number: int) -> Event:
        """Wait for a worker's next event."""
        return await self._events[number].get()

    def look(self, number: int) -> Look | None:
        """Return a look at a worker, None if it is gone."""
        return self._machine.look(number, self._clock())

    def kill(self, number: int) -> None:
        """Ask the node to end a worker."""
        self._machine.kill(number, self._clock())
        self._wake.set()

    def forget(self, number: int) -> None:
        """Forget a worker; the node ends it."""
        self._events.pop(number, None)
        self._machine.forget(number)
        self._wake.set()

    async def survey(self) -> Surveyed:
        """Ask the node how busy it is.

        Raises:
            TimeoutError: if it does not answer in time.
        """
        self._machine.survey()
        self._wake.set()
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await self._until(lambda: self._machine.surveyed)
        assert self._machine.surveyed is not None
        return self._machine.surveyed

    async def fetch(self, fetch: Fetch) -> bool | None:
        """Have the node get the content of a program from another one.

        Returns:
            Whether it is kept there now, None if the node has not said so.
        """
        answer: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        self._fetches[fetch.digest] = answer
        self._send(fetch)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FETCH_TIMEOUT):
                return await answer
        return None

    def _forget_fetches(self) -> None:
        """Give up what the node may not have heard of, or may never answer."""
        for digest in list(self._fetches):
            self._fetched(digest, kept=None)

    def _fetched(self, digest: bytes, *, kept: bool | None) -> None:
        answer = self._fetches.pop(digest, None)
        if answer is not None and not answer.done():
            answer.set_result(kept)

    async def order(self, order: Order) -> str:
        """Give the node an order, which it takes from its owner; return why it does not obey, "" if it does.

        Raises:
            TimeoutError: if it does not answer in time.
        """
        self._machine.obeyed = None
        self._send(order)
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await self._until(lambda: self._machine.obeyed)
        assert self._machine.obeyed is not None
        return self._machine.obeyed.problem

    # ------------------------------------------------------------------------------------------------- close

    def stop(self) -> None:
        """Start no more workers; existing ones live on."""
        self.failure = self.failure or RuntimeClosed("the runtime was closed")
        self._happened([Ended(number, KILLED, Look()) for number in self._machine.starting()])

    async def close(self) -> None:
        """Leave the node, which ends our remaining workers."""
        self.failure = self.failure or RuntimeClosed("the node was left")
        self._forget_fetches()
        if self.said is not None and not self._machine.is_silent(self._clock()):
            self._send(Detach())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), _LEAVE_TIMEOUT)
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()
