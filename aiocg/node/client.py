"""The client's side of a node: workers that run there, with the interface of those that run here."""

import asyncio
import contextlib
import logging
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from aiocg import __version__
from aiocg.errors import NodeUnreachable, RuntimeClosed, ServiceError, WorkerStartError
from aiocg.launcher import Look
from aiocg.node import NODE_TIMEOUT
from aiocg.node.attachment import KILLED, Attachment, Ended, Event, Up
from aiocg.transport.control import (
    MAX_CONTROL_BYTES,
    Attached,
    Detach,
    FromClient,
    FromNode,
    from_node_codec,
)
from aiocg.transport.errors import (
    LocalProtocolError,
    NotAdmittedError,
    RemoteProtocolError,
    SecurityError,
    TransportError,
)
from aiocg.transport.keys import KeyFolder
from aiocg.transport.limits import MAX_FRAME_BYTES
from aiocg.transport.messages import Load, Reply, Request
from aiocg.transport.security import ClientSecurity
from aiocg.transport.sockets import Channel, ClientChannel
from aiocg.transport.wires import is_remote

if TYPE_CHECKING:
    from aiocg.registry import EnvironmentSpec

__all__ = ["NodePlace"]

CONNECT_TIMEOUT = 5.0  # seconds for the first answer of the node, and of the port of a worker
FULL_TIMEOUT = 60.0  # seconds to wait, beyond a lease, for a worker that the node refuses for the moment
LEAVE_TIMEOUT = 0.5  # seconds for the node to hear that we leave; otherwise the lease runs out
TICK = 0.05  # seconds between looks at the clock

logger = logging.getLogger("aiocg.node")


class NodePlace:
    """Runs workers on a node.

    Args:
        address: of the node, `tcp://HOST:PORT`.
        keys: our pair and the node's public key; those in our folder of keys if None.
        timeout: seconds without a word from the node after which everything fails.
    """

    def __init__(self, address: str, keys: ClientSecurity | None = None, timeout: float = NODE_TIMEOUT) -> None:
        self.address = address
        self._keys = keys
        self._timeout = timeout
        self._connection: Connection | None = None

    async def launcher(self, spec: "EnvironmentSpec", options: Mapping[str, Any], memory_limit: int) -> "NodeLauncher":
        """Return what starts the workers of an environment; see `Place`. Connects when it is called first.

        Raises:
            NodeUnreachable: when there is no connection within seconds; it says what to check.
            WorkerStartError: for an environment with settings, which say what runs on the node.
        """
        if "?" in spec.id:
            raise WorkerStartError(
                f"{spec.id} has settings of its own, and on a node those are for who runs it to choose "
                "(`aiocg serve --setting`): leave them out"
            )
        if self._connection is None:
            self._connection = Connection(self.address, self._security(), self._timeout)
        try:
            await self._connection.attached()
        except NodeUnreachable:
            await self.close()  # what is mended by then can be tried again
            raise
        return NodeLauncher(self._connection, spec.worker, options, memory_limit)

    def _security(self) -> ClientSecurity:
        if not is_remote(self.address):
            raise NodeUnreachable(self.address, "this is no address of a node; it must be tcp://HOST:PORT")
        if self._keys is not None:
            return self._keys
        try:
            folder = KeyFolder()
            return ClientSecurity(folder.pair(), folder.node(self.address))
        except (SecurityError, OSError) as error:
            raise NodeUnreachable(self.address, str(error)) from error

    @property
    def workers(self) -> int | None:
        """How many workers the node would give us, None before it has said so."""
        said = self._connection.said if self._connection is not None else None
        return said.workers if said is not None else None

    def stop(self) -> None:
        """Want no more workers: whoever waits for one gets `RuntimeClosed`."""
        if self._connection is not None:
            self._connection.stop()

    async def close(self) -> None:
        """Leave the node; idempotent."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()


class Connection:
    """What we have on a node, and the task that keeps it alive."""

    def __init__(self, address: str, security: ClientSecurity, timeout: float) -> None:
        self.address = address
        self.security = security
        self.failure: Exception | None = None
        self._timeout = timeout
        self._machine = Attachment(f"aiocg {__version__}", secrets.token_hex(16), time.monotonic())
        self._events: dict[int, asyncio.Queue[Event]] = {}  # by workers: what has happened to them
        self._lost = False
        self._changed = asyncio.Event()  # of attachment and failure
        self._left = asyncio.Event()
        self._wake = asyncio.Event()
        self._channel: Channel[FromClient, FromNode] | None = None
        self._connect()
        self._keeper = asyncio.create_task(self._keep())

    @property
    def said(self) -> Attached | None:
        """What the node has said of itself."""
        return self._machine.attached

    # ------------------------------------------------------------------------------------------ connecting

    def _connect(self) -> None:
        """Open a channel; a former one, of a node that has forgotten us, is closed."""
        if self._channel is not None:
            self._channel.close()
            self._machine.disconnected(time.monotonic())
        try:
            self._channel = Channel(
                self.address,
                from_node_codec(),
                on_messages=self._received,
                on_error=self._broken,
                security=self.security,
                max_frame_bytes=MAX_CONTROL_BYTES,
            )
        except TransportError as error:
            self._channel = None
            raise NodeUnreachable(self.address, str(error)) from error

    async def attached(self) -> None:
        """Wait until the node has answered.

        Raises:
            NodeUnreachable: when it does not within seconds.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CONNECT_TIMEOUT):
                while self.said is None and self.failure is None:
                    self._changed.clear()
                    await self._changed.wait()
        if self.said is None and self.failure is None:
            self._lose(
                self._machine.refusal
                or f"it has not answered within {CONNECT_TIMEOUT:g} s. Check that the address is right, that `aiocg "
                "serve` runs there and listens at it (--bind), not at loopback only, and that no firewall is in between"
            )
        if self.failure is not None:
            raise self.failure

    def _broken(self, error: Exception) -> None:
        if isinstance(error, NotAdmittedError):
            self._lose(str(error))
        elif not isinstance(error, RemoteProtocolError):  # the node is another one, or has forgotten us
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
                self._tick(time.monotonic())
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._wake.wait(), TICK)
                self._wake.clear()
        except Exception as error:
            logger.exception("connection to a node lost", extra={"address": self.address})
            self._lose(f"of a bug: {error!r}")

    def _tick(self, now: float) -> None:
        messages, events = self._machine.ticked(now)
        for message in messages:
            self._send(message)
        self._happened(events)
        if self.said is not None and now - self._machine.heard > self._timeout:
            refusal = f" ({self._machine.refusal})" if self._machine.refusal else ""
            self._lose(f"it was not heard for {self._timeout:g} s{refusal}; check that it runs and the network is up")

    def _send(self, message: FromClient) -> None:
        if self._channel is not None and not self._channel.closed:
            self._channel.send(message)

    def _received(self, messages: list[FromNode]) -> None:
        now = time.monotonic()
        for message in messages:
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
        """Give the node up: all workers are gone for us, and there will be no others."""
        if not self._lost:
            self._lost = True
            self.failure = self.failure or NodeUnreachable(self.address, reason)
            self._happened([Ended(number, KILLED, Look()) for number in self._events])
            self._changed.set()
            self._wake.set()

    # ----------------------------------------------------------------------------------------------- workers

    def spawn(self, kind: str, options: Mapping[str, float], memory_limit: int) -> int:
        """Ask for a worker and return its number; `next_event` says what becomes of it.

        Raises:
            NodeUnreachable: when the node is given up.
            RuntimeClosed: after `stop`.
        """
        if self.failure is not None:
            raise self.failure
        self._wake.set()
        number = self._machine.spawn(kind, options, memory_limit)
        self._events[number] = asyncio.Queue()
        return number

    async def next_event(self, number: int) -> Event:
        """Wait for what happens to a worker next."""
        return await self._events[number].get()

    def look(self, number: int) -> Look | None:
        """Return what is to be seen of a worker, None when it is gone."""
        return self._machine.look(number, time.monotonic())

    def kill(self, number: int) -> None:
        """Have a worker ended."""
        self._machine.kill(number, time.monotonic())
        self._wake.set()

    def forget(self, number: int) -> None:
        """Have nothing to do with a worker any more."""
        self._events.pop(number, None)
        self._machine.forget(number)
        self._wake.set()

    # ------------------------------------------------------------------------------------------------- close

    def stop(self) -> None:
        """Want no more workers; those that there are go on."""
        self.failure = self.failure or RuntimeClosed("the runtime was closed")
        self._happened([Ended(number, KILLED, Look()) for number in self._machine.starting()])

    async def close(self) -> None:
        """Leave: the node ends what it still has of us."""
        if self.said is not None and not self._machine.is_silent(time.monotonic()):
            self._send(Detach())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._left.wait(), LEAVE_TIMEOUT)
        self._keeper.cancel()
        await asyncio.gather(self._keeper, return_exceptions=True)
        if self._channel is not None:
            self._channel.close()


class NodeLauncher:
    """Starts workers of one kind on a node; see `Launcher`."""

    def __init__(self, connection: Connection, kind: str, options: Mapping[str, Any], memory_limit: int) -> None:
        for name, value in options.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise WorkerStartError(
                    f"the option {name} is {value!r}, and only numbers go to a node: its workers run with the "
                    "compilers and folders that are there"
                )
        self._connection = connection
        self._kind = kind
        self._options = dict(options)
        self._memory_limit = memory_limit

    async def spawn(self) -> "NodeProcess":
        """Start a worker; see `Launcher`.

        Raises:
            NodeUnreachable: when the node is given up, or the worker's port cannot be reached.
            WorkerStartError: when the node refuses it for good.
        """
        connection = self._connection
        said = connection.said
        timeout = (said.lease if said is not None else 0.0) + FULL_TIMEOUT
        patience, told = time.monotonic() + timeout, False
        while True:
            number = connection.spawn(self._kind, self._options, self._memory_limit)
            try:
                event = await connection.next_event(number)
                if isinstance(event, Up):
                    await self._check_port(event)
                    return NodeProcess(connection, event)
            except BaseException:
                connection.forget(number)
                raise
            connection.forget(number)
            if connection.failure is not None:
                raise connection.failure
            if isinstance(event, Ended):
                raise OSError(f"the worker ended at once (status {event.status}): {event.stderr}")
            if event.retry is None or time.monotonic() > patience:
                raise WorkerStartError(f"the node at {connection.address} refuses: {event.message}")
            if not told:
                told = True
                logger.warning(
                    f"the node at {connection.address} has no worker for us now, it is asked for {timeout:.0f} s at "
                    f"most: {event.message}"
                )
            await asyncio.sleep(max(event.retry, TICK))

    async def _check_port(self, up: Up) -> None:
        """See whether there is a way to the worker, which a firewall may bar although the node answers."""
        host = _host(self._connection.address).strip("[]")
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, writer = await asyncio.open_connection(host, up.port)
        except OSError as error:  # TimeoutError is one
            if self._connection.look(up.number) is None:
                return  # it has ended, or the node is away: that is told in its own way
            raise NodeUnreachable(
                self._connection.address,
                f"it answers, but the port {up.port} of a worker does not ({error or 'timeout'}): have a firewall let "
                "through what `aiocg serve --worker-ports` names",
            ) from error
        writer.close()


class NodeProcess:
    """A worker process on a node; see `WorkerProcess`."""

    def __init__(self, connection: Connection, up: Up) -> None:
        self.pid = up.pid
        self._connection = connection
        self._number = up.number
        self._address = f"tcp://{_host(connection.address)}:{up.port}"
        self._security = ClientSecurity(connection.security.own, up.key)
        self._ended: Ended | None = None

    def look(self) -> Look:
        """Return what is to be seen of the process now, or was last."""
        if self._ended is not None:
            return self._ended.look
        return self._connection.look(self._number) or Look()

    def connect(
        self, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> ClientChannel:
        """Open a channel to the worker."""
        said = self._connection.said
        most = said.limits.get("request_bytes", MAX_FRAME_BYTES) if said is not None else MAX_FRAME_BYTES
        return NodeChannel(self._address, int(most), on_replies, on_error, self._security)

    def kill(self) -> None:
        """End the process and all its children; it may be dead already."""
        self._connection.kill(self._number)

    async def wait(self) -> int:
        """Wait for the end of the process; return its exit status, minus the signal if killed."""
        if self._ended is None:
            event = await self._connection.next_event(self._number)
            assert isinstance(event, Ended)
            self._ended = event
        return self._ended.status

    @property
    def stderr(self) -> str:
        """The last lines that the process wrote."""
        return self._ended.stderr if self._ended is not None else ""

    def close(self) -> None:
        """Have nothing to do with it any more."""
        self._connection.forget(self._number)


class ProgramTooLarge(LocalProtocolError, ServiceError):
    """A program is larger than the node takes; nothing was sent."""


class NodeChannel(ClientChannel):
    """A channel that refuses what the worker would cut the connection for."""

    def __init__(
        self,
        address: str,
        most: int,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
    ) -> None:
        """Begin to connect; see `ClientChannel`. Programs may have so many bytes at most."""
        super().__init__(address, on_replies=on_replies, on_error=on_error, security=security)
        self._most = most

    def send(self, message: Request) -> None:
        """Queue a request; see `Channel.send`."""
        if isinstance(message, Load) and (size := max(len(message.content), len(message.program))) > self._most:
            raise ProgramTooLarge(
                f"the program has {size} bytes, and the node takes at most {self._most}; its operator can change that "
                "(`aiocg serve --client-request`)",
                request=message.request,
            )
        super().send(message)


def _host(address: str) -> str:
    return address.removeprefix("tcp://").rpartition(":")[0]
