"""Links over ZeroMQ's sockets: what a client has in place of a connection, and a server for all its clients."""

import asyncio
import contextlib
import itertools
import logging
import os
import resource
import socket as sockets
import stat
import time
from collections import deque
from collections.abc import Callable
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError, LinkLostError, NotAdmittedError, RemoteProtocolError
from aiocg.transport.link import INSTANCE_BYTES, WINDOW_BATCHES, ClientLink, Head, ServerLink, gone, is_first, read_head
from aiocg.transport.security import KEY_LENGTH, ClientSecurity, Gate, ServerSecurity
from aiocg.transport.wires import Context, Socket, milliseconds, open_socket, receive_multipart, send_multipart

__all__ = ["LinkedRouter", "LinkedWire", "key_of"]

QUEUED_BATCHES: Final = 2 * WINDOW_BATCHES
"""Multiparts in each of ZeroMQ's queues: what a link may have under way, and some that it sends again."""

MAX_LINKS: Final = 64
"""Links that the owner of one key may have. With more, those go of which nothing was heard for longest."""

MAX_DESCRIPTORS: Final = 65536
"""A server may have so many open files, if the system allows: each connection is one before it has proved anything."""

RECONNECT_SECONDS: Final = (0.05, 2.0)
"""Between two attempts to connect: at first, and at most."""

FAILED_HANDSHAKES: Final = 5
"""After so many, if none has ever succeeded, it is no accident."""

_WATCHED: Final = (
    zmq.EVENT_HANDSHAKE_SUCCEEDED
    | zmq.EVENT_HANDSHAKE_FAILED_AUTH
    | zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL
    | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
    | zmq.EVENT_DISCONNECTED
)
_monitors = itertools.count()

logger = logging.getLogger("aiocg.transport.linked")


class LinkedWire:
    """A link to one server, over one connection after the other; driven by the running asyncio loop."""

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
            context: of ZeroMQ.
            address: of the server.
            security: keys.
            max_frame_bytes: size of a frame for which the server is cut off.
            wake: called when there may be something to send or to receive; it must lead to `events`, for whatever
                is done with the socket may silence its descriptor.
            waiting: says whether something is to come from the server.
            failed: called with a `NotAdmittedError` when the server does not let us in, and with a `LinkLostError` when
                it knows nothing of us any more, after which nothing goes on.

        Raises:
            AddressError: when the address cannot be used.
        """
        self._address, self._security = address, security
        self._wake, self._waiting, self._failed = wake, waiting, failed
        self._loop = asyncio.get_running_loop()
        self._link = ClientLink(os.urandom(INSTANCE_BYTES))
        self._connected = self._ever_connected = False
        self._failures = 0
        self._timer: asyncio.TimerHandle | None = None
        self.socket = open_socket(
            context,
            zmq.DEALER,
            address,
            security,
            sends=QUEUED_BATCHES,
            receives=QUEUED_BATCHES,
            max_frame_bytes=max_frame_bytes,
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
        self._loop.call_soon(self._observe)  # the descriptor is silent until there was nothing to read once
        return monitor

    # ------------------------------------------------------------------------------------------ batches

    def send(self, frames: list[Frame]) -> bool:
        """Take one batch to be delivered; say whether it could be taken now."""
        if not self._connected or not self._link.room or self._link.lost is not None:
            return False
        self._link.push(frames)
        self._pump()
        self._look()
        return True

    def events(self) -> int:
        """Return whether there is something to receive (zmq.POLLIN) and a batch can be sent (zmq.POLLOUT)."""
        self._pump()
        events = int(self.socket.getsockopt(zmq.EVENTS))
        return events if self._connected and self._link.room else events & ~zmq.POLLOUT

    def receive(self) -> list[Frame] | None:
        """Receive a batch, None when there is none or it is none that is due."""
        try:
            frames = receive_multipart(self.socket, zmq.DONTWAIT)
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
        """Send what is to be sent and can be."""
        while self._connected and (frames := self._link.outgoing()) is not None:
            try:
                send_multipart(self.socket, frames, zmq.DONTWAIT)
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
        self._connected = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # ------------------------------------------------------------------------------------- connections

    def _observe(self) -> None:
        """Learn what became of connections. The descriptor signals changes, so all there is must be read."""
        while not self.socket.closed and int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            message = parse_monitor_message(self._monitor.recv_multipart(zmq.DONTWAIT))
            self._happened(message["event"])

    def _happened(self, event: int) -> None:
        if self._link.lost is not None:
            return
        if event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            logger.info("connected", extra={"address": self._address})
            self._connected = self._ever_connected = True
            self._link.ask()
            self._look()
            self._wake()
        elif event == zmq.EVENT_DISCONNECTED:
            if self._connected:
                logger.warning("connection lost", extra={"address": self._address})
            self._connected = False
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
            self._refused(
                f"{self._address} does not know this key ({self._security.own.public}): have it authorised there, with "
                f"aiocg keys authorize NAME '{self._security.own.public}'"
            )
        elif not self._ever_connected:
            self._failures += 1
            if event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL or self._failures == FAILED_HANDSHAKES:
                self._refused(
                    f"{self._address} breaks off when keys are exchanged: either it is no node of aiocg, or its key is "
                    f"not {self._security.server}; compare that with what `aiocg keys show` prints there"
                )

    def _refused(self, message: str) -> None:
        self._failed(NotAdmittedError(message, address=self._address, public=self._security.own.public))


def key_of(peer: bytes) -> str:
    """Return the public key of a peer of a `LinkedRouter`."""
    return peer[:KEY_LENGTH].decode()


class _Peer:
    """A link, and the connection over which it was last heard."""

    def __init__(self, link: ServerLink) -> None:
        self.link = link
        self.route = b""
        self.descriptor = -1
        self.heard = 0  # more than of any that was heard before
        self.mute = False  # was waited for and did not take anything


class LinkedRouter:
    """A bound socket with a link to each client. A peer is named by its public key and its instance, in one.

    Attributes:
        address: where it listens, with the port that it got.
        gate: who decides at handshakes.
    """

    def __init__(
        self,
        context: Context,
        address: str,
        security: ServerSecurity,
        *,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
        patience: float = 0.0,
    ) -> None:
        """Bind the address.

        Args:
            context: of ZeroMQ; no other gate may stand in it.
            address: where to listen; port 0 is any that is free.
            security: keys, and whom they let in.
            max_frame_bytes: size of a frame for which a client is cut off.
            patience: seconds that `send` waits for a client that has much to take and takes nothing; with 0 it never
                waits.

        Raises:
            AddressError: when that is not possible.
            SecurityError: when this machine's libzmq has no CURVE.
        """
        self._admits = security.admits
        self._patience = patience
        self._instance = os.urandom(INSTANCE_BYTES)
        self._peers: dict[bytes, _Peer] = {}
        self._heard = itertools.count(1)
        self._inbox: deque[tuple[bytes, list[Frame]]] = deque()  # batches that came while somebody was waited for
        _allow_many_connections()
        self.socket = open_socket(
            context,
            zmq.ROUTER,
            address,
            security,
            sends=QUEUED_BATCHES,
            receives=QUEUED_BATCHES,
            max_frame_bytes=max_frame_bytes,
        )
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # report a full queue, do not drop silently
        try:
            self.gate = Gate(context, security.admits)
            self.socket.bind(address)
        except zmq.ZMQError as error:
            self.socket.close(linger=0)
            raise AddressError(
                f"cannot listen on {address}: {zmq.strerror(error.errno or 0)}; HOST must be an address or an "
                "interface of this machine, or * for all, and the port free"
            ) from error
        self.address = bytes(self.socket.getsockopt(zmq.LAST_ENDPOINT)).rstrip(b"\0").decode()

    def receive(self, flags: int) -> tuple[bytes, list[Frame]] | None:
        """Receive a multipart.

        Returns:
            the peer and a batch to be worked on; None when it had none.

        Raises:
            zmq.Again: when there is none.
        """
        if self._inbox:
            return self._inbox.popleft()
        return self._receive(flags)

    def _receive(self, flags: int) -> tuple[bytes, list[Frame]] | None:
        route = self.socket.recv(flags)
        first = self.socket.recv(copy=False)
        frames: list[Frame] = [first.bytes]
        while self.socket.getsockopt(zmq.RCVMORE):
            frames.append(memoryview(self.socket.recv(copy=False).buffer).toreadonly())
        key, descriptor = str(first.get("User-Id")), int(first.get(zmq.SRCFD))
        if not self._admits(key):
            self._cut(descriptor)
            return None
        try:
            head = read_head(frames)
        except RemoteProtocolError:
            self._cut(descriptor)
            return None
        return self._received(key, route, descriptor, head, frames)

    def _received(
        self, key: str, route: bytes, descriptor: int, head: Head, frames: list[Frame]
    ) -> tuple[bytes, list[Frame]] | None:
        name = key.encode() + head.client
        peer = self._peers.get(name)
        if peer is None and is_first(head):
            self._make_room(key)
            peer = self._peers[name] = _Peer(ServerLink(head.client, self._instance))
        if peer is None or head.server not in (bytes(INSTANCE_BYTES), self._instance):
            with contextlib.suppress(zmq.ZMQError):
                send_multipart(self.socket, [route, *gone(head, self._instance)], zmq.DONTWAIT)
            return None
        peer.route, peer.descriptor, peer.heard = route, descriptor, next(self._heard)
        kept = peer.link.kept_bytes
        batch = peer.link.receive(head, frames)
        peer.mute = peer.mute and peer.link.kept_bytes == kept
        self._pump(name, peer)
        return None if batch is None else (name, batch)

    def send(self, name: bytes, frames: list[Frame]) -> bool:
        """Take one batch to be delivered; say whether there is still somebody to deliver it to."""
        peer = self._peers.get(name)
        if peer is None:
            return False
        with contextlib.suppress(LinkLostError):
            peer.link.push(frames)
        there = self._pump(name, peer)
        if there and peer.link.full and self._patience > 0 and not peer.mute:
            self._wait_for(peer)
        return there

    def _wait_for(self, peer: _Peer) -> None:
        """Wait while a peer has much to take, as long as it takes some. Batches that come are kept for `receive`."""
        link, deadline = peer.link, time.monotonic() + self._patience
        while link.full:
            left = deadline - time.monotonic()
            if left <= 0:
                peer.mute = True
                return
            kept = link.kept_bytes
            if self.socket.poll(milliseconds(left)):
                with contextlib.suppress(zmq.Again):
                    received = self._receive(zmq.DONTWAIT)
                    if received is not None:
                        self._inbox.append(received)
            if link.kept_bytes < kept:
                deadline = time.monotonic() + self._patience

    def forget(self, name: bytes) -> None:
        """Drop a link; if its client says something more, it is told so."""
        self._peers.pop(name, None)

    def expel(self, key: str) -> None:
        """Drop all links of the owner of a key, and cut their connections."""
        for name, peer in list(self._peers.items()):
            if key_of(name) == key:
                self.forget(name)
                self._cut(peer.descriptor)

    def cut_all(self) -> None:
        """Cut all connections, those included of which nothing was heard. Links go on over the next ones."""
        with contextlib.suppress(OSError):
            for descriptor in os.listdir("/proc/self/fd"):
                self._cut(int(descriptor))

    def _make_room(self, key: str) -> None:
        names = [name for name in self._peers if key_of(name) == key]
        if len(names) >= MAX_LINKS:
            self.forget(min(names, key=lambda name: self._peers[name].heard))

    def _pump(self, name: bytes, peer: _Peer) -> bool:
        link = peer.link
        while (frames := link.outgoing()) is not None:
            try:
                send_multipart(self.socket, [peer.route, *frames], zmq.DONTWAIT)
            except zmq.ZMQError as error:
                if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                    break  # it is sent when the client is heard again
                raise
            link.sent()
        if link.lost is not None:
            self.forget(name)
        return link.lost is None

    def _cut(self, descriptor: int) -> None:
        """Cut the connection that a message came from; ZeroMQ, whose connection it is, takes note of that."""
        port = int(self.address.rpartition(":")[2])
        with contextlib.suppress(OSError), contextlib.ExitStack() as copies:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return
            connection = copies.enter_context(sockets.socket(fileno=os.dup(descriptor)))
            place = connection.getsockname()
            is_ours = isinstance(place, tuple) and place[1] == port  # and not another that has its number by now
            if is_ours and not connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_ACCEPTCONN):
                connection.shutdown(sockets.SHUT_RDWR)


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
