"""A server's channel to many clients on the network, on the asyncio loop; a node's control socket is one."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import zmq

from aiocg.transport import limits
from aiocg.transport.channels import guarded
from aiocg.transport.codec import Batch, Codec
from aiocg.transport.errors import ChannelClosedError, ProtocolError, RemoteProtocolError
from aiocg.transport.linked_router import LinkedRouter
from aiocg.transport.messages import Message
from aiocg.transport.security import ServerSecurity
from aiocg.transport.unix import milliseconds
from aiocg.transport.wires import AT_ONCE

TURN_BATCHES: Final = 64
"""Batches handled in one turn of the event loop; the rest waits for the next turn."""

TURN_SECONDS: Final = 0.01
"""Seconds after which a turn ends even with fewer batches, because some take long."""

CLOSE_PATIENCE: Final = 0.5
"""Seconds that `close` waits for the last messages to be sent."""

Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)


class ServerChannel(Generic[Out, In]):
    """Listens on `tcp://`; each client has a `Channel`. Everything happens in the loop's thread, and nothing blocks.

    A peer's name is its public key (`key_of`) and the instance of its channel, as bytes; it survives reconnections.
    Messages arrive exactly once and in order, until the peer is forgotten.

    Attributes:
        address: where it listens, with the actual port.
        closed: whether `close` was called.
    """

    def __init__(
        self,
        address: str,
        codec: Codec[In],
        *,
        security: ServerSecurity,
        on_messages: Callable[[bytes, list[In]], None],
        on_error: Callable[[bytes, ProtocolError], None],
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
    ) -> None:
        """Bind the address; port 0 means any free port.

        Args:
            address: `tcp://HOST:PORT`.
            codec: decodes what clients send.
            security: the server's keys, and which clients it admits.
            on_messages: called with a peer and a batch of its messages.
            on_error: called with a peer and an error, if a batch cannot be decoded.
            max_frame_bytes: a client that sends a larger frame is disconnected.

        Raises:
            AddressError: if the address cannot be bound.
            SecurityError: if this machine's libzmq does not support CURVE.
        """
        self.closed = False
        self._codec = codec
        self._batches: dict[bytes, Batch[Out]] = {}
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        try:
            self._router = LinkedRouter(self._context, address, security, max_frame_bytes=max_frame_bytes)
        except BaseException:
            self._context.term()
            raise
        self.address = self._router.address
        self._on_messages = guarded(on_messages, f"at {self.address}")
        self._on_error = guarded(on_error, f"at {self.address}")
        self._fd = int(self._router.socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._turn)
        self._handle: asyncio.Handle | None = self._loop.call_soon(self._turn)

    @property
    def refused(self) -> int:
        """Number of handshakes refused."""
        return self._router.gate.refused

    def send(self, peer: bytes, message: Out) -> None:
        """Queue a message to a peer; messages queued in one turn of the event loop travel together.

        Nothing is sent to a peer that was forgotten.

        Raises:
            LocalProtocolError: if the message cannot be sent; nothing was queued.
            ChannelClosedError: after `close`.
        """
        if self.closed:
            raise ChannelClosedError(f"the channel at {self.address} is closed")
        batch = self._batches.get(peer)
        if batch is not None and batch.full:
            self._router.send(peer, self._batches.pop(peer).frames())
            batch = None
        if batch is None:
            batch = Batch()
            batch.add(message)
            self._batches[peer] = batch
        else:
            batch.add(message)
        self._schedule()

    def kept_bytes(self, key: str) -> int:
        """Return how many bytes are kept for all peers with a public key, because they have not read them yet."""
        return self._router.kept_bytes(key)

    def forget(self, peer: bytes) -> None:
        """Drop what is kept for a peer; it learns of that when it sends something."""
        self._batches.pop(peer, None)
        self._router.forget(peer)

    def expel(self, key: str) -> None:
        """Forget all peers with a public key and cut their connections, after the key was revoked."""
        self._router.expel(key)

    def cut_all(self) -> None:
        """Cut all connections. Clients reconnect and links lose nothing; partly sent frames are dropped."""
        self._router.cut_all()

    def close(self) -> None:
        """Send as much of the queue as possible at once, and close. May be called twice."""
        if self.closed:
            return
        self._send_batches()
        self.closed = True
        if self._handle is not None:
            self._handle.cancel()
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._router.socket.close(linger=milliseconds(CLOSE_PATIENCE))
        self._context.term()

    def _schedule(self) -> None:
        if self._handle is None:
            self._handle = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Send what is queued and receive what has arrived; works like `Channel._turn`."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._send_batches()
        until = time.monotonic() + TURN_SECONDS
        for index in range(TURN_BATCHES):
            if self.closed:
                return
            if index and time.monotonic() >= until:
                break
            try:
                received = self._router.receive(AT_ONCE)
            except zmq.Again:
                return
            if received is not None:
                self._handle_batch(*received)
        self._schedule()

    def _send_batches(self) -> None:
        batches, self._batches = self._batches, {}
        for peer, batch in batches.items():
            self._router.send(peer, batch.frames())

    def _handle_batch(self, peer: bytes, frames: list[Any]) -> None:
        try:
            messages = self._codec.decode(frames)
        except RemoteProtocolError as error:
            self._on_error(peer, error)
        else:
            self._on_messages(peer, messages)
