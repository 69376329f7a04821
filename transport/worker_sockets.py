"""A worker's end of the channels of its clients on other machines, over libzmq; see `sockets` for the clients' ends."""

import os
import time
from collections.abc import Sequence
from typing import Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import reply_batches, request_codec
from aiocg.transport.errors import ProtocolError, RemoteProtocolError
from aiocg.transport.linked_router import LinkedRouter
from aiocg.transport.messages import Reply, Request
from aiocg.transport.security import ServerSecurity
from aiocg.transport.unix import milliseconds
from aiocg.transport.wires import AT_ONCE

TURN_BATCHES: Final = 64
"""Batches of requests that a worker receives before it starts to execute them."""

LINK_PATIENCE: Final = 5.0
"""Seconds that a worker waits for a client whose queue is full and that reads nothing, before it continues."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that a closing worker waits for its last replies to be sent."""


class WorkerChannel:
    """A worker's end of the connections of all its clients; blocking.

    Attributes:
        address: where it listens, with the actual port.
        closed: whether `close` was called.
        bytes_sent, bytes_received: total size of batches, without the overhead of links and ZeroMQ.
    """

    def __init__(
        self, address: str, security: ServerSecurity, *, max_frame_bytes: int = limits.MAX_FRAME_BYTES
    ) -> None:
        """Bind the address.

        Args:
            address: `tcp://HOST:PORT`, where port 0 means any free port.
            security: keys, and which clients are admitted.
            max_frame_bytes: a client that sends a larger frame is disconnected.

        Raises:
            AddressError: if the address cannot be bound.
            SecurityError: if this machine's libzmq does not support CURVE.
        """
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._owner = os.getpid()
        self._codec = request_codec()
        self._timeout: float | None = None  # the socket's, in seconds
        self._context = zmq.Context()  # not shared, because `close` waits for it
        try:
            self._wire = LinkedRouter(
                self._context, address, security, max_frame_bytes=max_frame_bytes, patience=LINK_PATIENCE
            )
        except BaseException:
            self._context.term()
            raise
        self.address = self._wire.address

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Wait for a batch and return everything that has arrived; return an empty list after `timeout` seconds.

        A batch that cannot be decoded is replaced by the error.
        """
        batches: list[tuple[bytes, list[Request] | ProtocolError]] = []
        deadline = None if timeout is None else time.monotonic() + timeout
        if timeout != self._timeout:
            self._wire.socket.setsockopt(zmq.RCVTIMEO, milliseconds(timeout))
            self._timeout = timeout
        flags = 0
        while len(batches) < TURN_BATCHES and not (flags and self._wire.is_empty()):
            try:
                received = self._wire.receive(flags)
            except zmq.Again:
                break
            if received is None:  # a multipart of the link itself, without a batch
                if not flags and deadline is not None:
                    self._timeout = max(0.0, deadline - time.monotonic())
                    self._wire.socket.setsockopt(zmq.RCVTIMEO, milliseconds(self._timeout))
                continue
            flags = AT_ONCE
            client, frames = received
            self.bytes_received += sum(map(len, frames))
            try:
                batches.append((client, self._codec.decode(frames)))
            except RemoteProtocolError as error:
                batches.append((client, error))
        return batches

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; return whether they could be handed over.

        A reply that cannot be encoded is replaced by a `Failure` of its request. Replies to a client that cannot be
        reached or does not read are kept; if too much is kept, this waits until the client has read nothing for
        `LINK_PATIENCE` seconds.
        """
        for batch in reply_batches(replies):
            self.bytes_sent += batch.size
            if not self._wire.send(client, batch.frames()):
                return False
        return True

    def close(self) -> None:
        """Close after the last replies have been sent; may be called twice."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._owner:  # a forked child does not have the context's threads
            self._wire.socket.close(linger=milliseconds(CLOSE_PATIENCE))
            self._context.term()
