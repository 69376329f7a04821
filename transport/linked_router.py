"""The server's ends of links over ZeroMQ: one bound socket, and a link to each client."""

import contextlib
import itertools
import os
import resource
import socket as sockets
import stat
import time
from collections import deque
from typing import Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError, LinkLostError, RemoteProtocolError
from aiocg.transport.link import INSTANCE_BYTES, QUEUED_BATCHES, Head, ServerLink, gone, is_first, read_head
from aiocg.transport.security import KEY_LENGTH, Gate, ServerSecurity
from aiocg.transport.system import DESCRIPTORS
from aiocg.transport.unix import milliseconds
from aiocg.transport.wires import AT_ONCE, READABLE, Context, open_socket, send_multipart

MAX_LINKS: Final = 64
"""Links per key. Beyond this, the link that has been silent for longest is dropped."""

MAX_DESCRIPTORS: Final = 65536
"""Limit of open files to set for a server, if the system allows; connections count before they are authenticated."""


def key_of(peer: bytes) -> str:
    """Return the public key of a peer of a `LinkedRouter`."""
    return peer[:KEY_LENGTH].decode()


class _Peer:
    """A link, and the connection over which its client was last heard."""

    def __init__(self, link: ServerLink) -> None:
        self.link = link
        self.route = b""
        self.descriptor = -1
        self.heard = 0  # increases with every multipart from any peer
        self.mute = False  # read nothing while we waited for it


class LinkedRouter:
    """A bound socket with a link to each client. A peer's name is its public key followed by its instance.

    Attributes:
        address: where it listens, with the actual port.
        gate: decides about handshakes.
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
            context: the ZeroMQ context; it must have no other gate.
            address: where to listen; port 0 means any free port.
            security: our keys, and which clients are admitted.
            max_frame_bytes: a client that sends a larger frame is disconnected.
            patience: seconds that `send` waits for a client whose queue is full and that reads nothing; 0 to never
                wait.

        Raises:
            AddressError: if the address cannot be bound.
            SecurityError: if this machine's libzmq does not support CURVE.
        """
        self._admits = security.admits
        self._patience = patience
        self._instance = os.urandom(INSTANCE_BYTES)
        self._peers: dict[bytes, _Peer] = {}
        self._heard = itertools.count(1)
        self._inbox: deque[tuple[bytes, list[Frame]]] = deque()  # batches that arrived while `send` waited
        _allow_many_connections()
        self.socket = open_socket(
            context, zmq.ROUTER, address, security, queued=QUEUED_BATCHES, max_frame_bytes=max_frame_bytes
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
            The peer and a batch; None if the multipart had no batch to process.

        Raises:
            zmq.Again: if there is none.
        """
        if self._inbox:
            return self._inbox.popleft()
        return self._receive(flags)

    def is_empty(self) -> bool:
        """Return whether nothing has arrived that was not received."""
        return not self._inbox and not int(self.socket.getsockopt(zmq.EVENTS)) & READABLE

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
                send_multipart(self.socket, [route, *gone(head, self._instance)], AT_ONCE)
            return None
        peer.route, peer.descriptor, peer.heard = route, descriptor, next(self._heard)
        kept = peer.link.kept_bytes
        batch = peer.link.receive(head, frames)
        peer.mute = peer.mute and peer.link.kept_bytes == kept
        self._pump(name, peer)
        return None if batch is None else (name, batch)

    def send(self, name: bytes, frames: list[Frame]) -> bool:
        """Accept one batch for delivery; return whether the peer is still known."""
        peer = self._peers.get(name)
        if peer is None:
            return False
        with contextlib.suppress(LinkLostError):
            peer.link.push(frames)
        there = self._pump(name, peer)
        if there and peer.link.full and self._patience > 0 and not peer.mute:
            self._wait_for(peer)
        return there

    def kept_bytes(self, key: str) -> int:
        """Return how many bytes are kept for all peers with a public key."""
        start = key.encode()
        return sum(peer.link.kept_bytes for name, peer in self._peers.items() if name.startswith(start))

    def _wait_for(self, peer: _Peer) -> None:
        """Wait while a peer's queue is full, as long as it reads. Batches that arrive are kept for `receive`."""
        link, deadline = peer.link, time.monotonic() + self._patience
        while link.full:
            left = deadline - time.monotonic()
            if left <= 0:
                peer.mute = True
                return
            kept = link.kept_bytes
            if self.socket.poll(milliseconds(left)):
                with contextlib.suppress(zmq.Again):
                    received = self._receive(AT_ONCE)
                    if received is not None:
                        self._inbox.append(received)
            if link.kept_bytes < kept:
                deadline = time.monotonic() + self._patience

    def forget(self, name: bytes) -> None:
        """Drop a link; its client learns of that when it sends something."""
        self._peers.pop(name, None)

    def expel(self, key: str) -> None:
        """Drop all links of a key, and cut their connections."""
        for name, peer in list(self._peers.items()):
            if key_of(name) == key:
                self.forget(name)
                self._cut(peer.descriptor)

    def cut_all(self) -> None:
        """Cut all connections, silent ones included. Links continue over the next connections."""
        with contextlib.suppress(OSError):
            for descriptor in os.listdir(DESCRIPTORS):
                self._cut(int(descriptor))

    def _make_room(self, key: str) -> None:
        names = [name for name in self._peers if key_of(name) == key]
        if len(names) >= MAX_LINKS:
            self.forget(min(names, key=lambda name: self._peers[name].heard))

    def _pump(self, name: bytes, peer: _Peer) -> bool:
        link = peer.link
        while (frames := link.outgoing()) is not None:
            try:
                send_multipart(self.socket, [peer.route, *frames], AT_ONCE)
            except zmq.ZMQError as error:
                if error.errno in (zmq.EAGAIN, zmq.EHOSTUNREACH):
                    break  # the rest is sent when the client is heard again
                raise
            link.sent()
        if link.lost is not None:
            self.forget(name)
        return link.lost is None

    def _cut(self, descriptor: int) -> None:
        """Cut the connection that a message came from, behind the back of ZeroMQ, which notices and cleans up."""
        port = int(self.address.rpartition(":")[2])
        with contextlib.suppress(OSError), contextlib.ExitStack() as copies:
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                return
            connection = copies.enter_context(sockets.socket(fileno=os.dup(descriptor)))
            name = connection.getsockname()
            is_ours = isinstance(name, tuple) and name[1] == port  # the descriptor may have been reused
            if is_ours and not connection.getsockopt(sockets.SOL_SOCKET, sockets.SO_ACCEPTCONN):
                connection.shutdown(sockets.SHUT_RDWR)


def _allow_many_connections() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(MAX_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
