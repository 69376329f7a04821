"""The client's end of a link over ZeroMQ: one socket that reconnects, and batches that survive it."""

import asyncio
import itertools
import logging
import os
from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError, NotAdmittedError
from aiocg.transport.link import INSTANCE_BYTES, QUEUED_BATCHES, ClientLink, read_head
from aiocg.transport.security import ClientSecurity
from aiocg.transport.wires import (
    AT_ONCE,
    READABLE,
    WRITABLE,
    Context,
    Socket,
    open_socket,
    receive_multipart,
    send_multipart,
)

RECONNECT_SECONDS: Final = (0.05, 2.0)
"""Pause between two attempts to connect: the first, and the longest."""

FAILED_HANDSHAKES: Final = 5
"""Failures after which the connection is reported as refused, if none has ever succeeded."""

_WATCHED: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)
_monitors = itertools.count()

logger = logging.getLogger("aiocg.transport.linked_wire")


class LinkedWire:
    """A link to one server, over successive connections; driven by the running asyncio loop.

    Attributes:
        connected: whether the server has accepted our key, and the connection stands.
    """

    def __init__(
        self,
        context: Context,
        address: str,
        security: ClientSecurity,
        *,
        max_frame_bytes: int,
        wake: Callable[[], None],
        waiting: Callable[[], bool],
        failed: Callable[[Exception], None],
    ) -> None:
        """Begin to connect.

        Args:
            context: the ZeroMQ context.
            address: address of the server.
            security: our keys, and the server's public key.
            max_frame_bytes: a server that sends a larger frame is disconnected.
            wake: called when there may be something to send or to receive; it must lead to a call of `events`, because
                any use of the socket may silence its descriptor.
            waiting: returns whether the caller waits for the server.
            failed: called with a `NotAdmittedError` when the server rejects us, and with a `LinkLostError` when it has
                forgotten us, which is final.

        Raises:
            AddressError: if the address cannot be used.
        """
        self._address, self._security = address, security
        self._wake, self._waiting, self._failed = wake, waiting, failed
        self._loop = asyncio.get_running_loop()
        self._link = ClientLink(os.urandom(INSTANCE_BYTES))
        self.connected = self._ever_connected = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self.socket = open_socket(
            context, zmq.DEALER, address, security, queued=QUEUED_BATCHES, max_frame_bytes=max_frame_bytes
        )
        first, longest = RECONNECT_SECONDS
        self.socket.setsockopt(zmq.RECONNECT_IVL, int(first * 1000))
        self.socket.setsockopt(zmq.RECONNECT_IVL_MAX, int(longest * 1000))
        self._monitor = self._watch(context)
        try:
            self.socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise AddressError(f"cannot connect to {address}: {error}") from error

    def _watch(self, context: Context) -> Socket:
        name = f"inproc://aiocg-monitor-{os.getpid()}-{next(_monitors)}"
        self.socket.monitor(name, _WATCHED)
        monitor: Socket = context.socket(zmq.PAIR)
        monitor.setsockopt(zmq.LINGER, 0)
        monitor.connect(name)
        self._monitor_fd = int(monitor.getsockopt(zmq.FD))
        self._loop.add_reader(self._monitor_fd, self._observe)
        self._loop.call_soon(self._observe)  # the descriptor signals nothing before the first read
        return monitor

    # ------------------------------------------------------------------------------------------ batches

    def send(self, frames: list[Frame]) -> bool:
        """Accept one batch for delivery; return whether it could be accepted now."""
        if not self.connected or not self._link.room or self._link.lost is not None:
            return False
        self._link.push(frames)
        self._pump()
        self._look()
        return True

    def events(self) -> int:
        """Return READABLE if there is something to receive, and WRITABLE if a batch can be sent."""
        self._pump()
        events = int(self.socket.getsockopt(zmq.EVENTS))
        return events if self.connected and self._link.room else events & ~WRITABLE

    def receive(self) -> list[Frame] | None:
        """Receive a batch; return None if there is none, or not the next one."""
        try:
            frames = receive_multipart(self.socket, AT_ONCE)
        except zmq.Again:
            return None
        if self._link.lost is not None:
            return None
        head = read_head(frames)
        self._link.heard(self._loop.time())
        batch = self._link.receive(head, frames)
        if self._link.lost is not None:
            self._stop()
            self._failed(self._link.lost)
        return batch

    def close(self) -> None:
        """Close the socket at once."""
        self._stop()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._monitor_fd)
        self.socket.disable_monitor()
        self._monitor.close(linger=0)
        self.socket.close(linger=0)

    def _pump(self) -> None:
        """Send as much as ZeroMQ accepts."""
        while self.connected and (frames := self._link.outgoing()) is not None:
            try:
                send_multipart(self.socket, frames, AT_ONCE)
            except zmq.Again:
                return
            self._link.sent()

    # -------------------------------------------------------------------------------------------- timer

    def _look(self) -> None:
        if self._timer is None:
            self._tick()

    def _tick(self) -> None:
        self._timer = None
        after = self._link.tick(self._loop.time(), self._waiting())
        if after is not None:
            self._timer = self._loop.call_later(after, self._tick)
            self._wake()

    def _stop(self) -> None:
        self.connected = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------------------------------- connections

    def _observe(self) -> None:
        """Read the events of connections. The descriptor is edge-triggered, so all events must be read."""
        while not self.socket.closed and int(self._monitor.getsockopt(zmq.EVENTS)) & READABLE:
            message = parse_monitor_message(self._monitor.recv_multipart(AT_ONCE))
            self._happened(message["event"])

    def _happened(self, event: int) -> None:
        if self._link.lost is not None:
            return
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            logger.info("connected", extra={"address": self._address})
            self.connected = self._ever_connected = True
            self._link.ask()
            self._look()
            self._wake()
        elif event == zmq.EVENT_DISCONNECTED:
            if self.connected:
                logger.warning("connection lost", extra={"address": self._address})
            self.connected = False
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._refused(
                f"{self._address} does not know this key ({self._security.own.public}): have it authorised there with "
                f"aiocg keys authorize NAME '{self._security.own.public}'"
            )
        elif not self._ever_connected:
            self._failures += 1
            if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL or self._failures == FAILED_HANDSHAKES:
                self._refused(
                    f"{self._address} disconnects during the key exchange: either it is not an aiocg node, or its key "
                    f"is not {self._security.server}; compare that with what `aiocg keys show` prints there"
                )

    def _refused(self, message: str) -> None:
        self._failed(NotAdmittedError(message, address=self._address, public=self._security.own.public))
