"""A server's channel to many clients on the network, on the asyncio loop: what a node's control socket is."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Batch, Codec
from aiocg.transport.errors import ChannelClosedError, ProtocolError, RemoteProtocolError
from aiocg.transport.linked import LinkedRouter, key_of
from aiocg.transport.messages import Message
from aiocg.transport.security import ServerSecurity
from aiocg.transport.wires import milliseconds

__all__ = ["ServerChannel", "key_of"]

TURN_BATCHES: Final = 64
"""Batches that are handled in one turn of the event loop; the rest waits for the next."""

TURN_SECONDS: Final = 0.01
"""Seconds after which a turn ends as well, however few batches it has handled: some are a lot of work."""

CLOSE_PATIENCE: Final = 0.5
"""Seconds that the last messages have to leave the process."""

Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)


class ServerChannel(Generic[Out, In]):
    """Listens on `tcp://`; each client has a `Channel`. Everything happens in the loop's thread, and nothing blocks.

    A peer is named by bytes: its public key (`key_of`) and the instance of its channel. It is the same peer after its
    connection was cut and made again. Messages arrive once and in order, as long as it is not forgotten.

    Attributes:
        address: where it listens, with the port that it got.
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
        """Bind the address, whose port may be 0 for any that is free.

        Args:
            address: `tcp://HOST:PORT`.
            codec: for what clients send.
            security: the server's keys, and whom it lets in.
            on_messages: called with a peer and a batch of its messages.
            on_error: called with a peer and what is wrong with a batch of its that cannot be decoded.
            max_frame_bytes: size of a frame for which a client is cut off.

        Raises:
            AddressError: when that is not possible.
            SecurityError: when this machine's libzmq has no CURVE.
        """
        self.closed = False
        self._codec = codec
        self._on_messages = on_messages
        self._on_error = on_error
        self._batches: dict[bytes, Batch[Out]] = {}
        self._loop = asyncio.get_running_loop()
        self._context = zmq.Context()
        try:
            self._router = LinkedRouter(self._context, address, security, max_frame_bytes=max_frame_bytes)
        except BaseException:
            self._context.term()
            raise
        self.address = self._router.address
        self._fd = int(self._router.socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._turn)
        self._handle: asyncio.Handle | None = self._loop.call_soon(self._turn)

    @property
    def refused(self) -> int:
        """Number of handshakes that ended at the door."""
        return self._router.gate.refused

    def send(self, peer: bytes, message: Out) -> None:
        """Queue a message to a peer; all that are queued in one turn of the loop travel together.

        To a peer that was forgotten nothing is sent.

        Raises:
            LocalProtocolError: when the message cannot be sent; nothing was queued.
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

    def forget(self, peer: bytes) -> None:
        """Drop what is kept for a peer; if it ever says something more, it is told that it is not known."""
        self._batches.pop(peer, None)
        self._router.forget(peer)

    def expel(self, key: str) -> None:
        """Forget all peers with a public key and cut their connections; for a key that is not admitted any more."""
        self._router.expel(key)

    def cut_all(self) -> None:
        """Cut all connections. Clients come back, and nothing is lost; what was not sent to its end is dropped."""
        self._router.cut_all()

    def close(self) -> None:
        """Send what is queued, as far as that is possible at once, and close. May be called twice."""
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
        """Send what is queued and receive what is there; see `Channel._turn`, which this resembles."""
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
                received = self._router.receive(zmq.DONTWAIT)
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
            self._call(self._on_error, peer, error)
        else:
            self._call(self._on_messages, peer, messages)

    def _call(self, callback: Callable[[bytes, Any], None], peer: bytes, argument: Any) -> None:
        try:
            callback(peer, argument)
        except Exception as error:  # a callback's bug must not lose the batches behind this one
            self._loop.call_exception_handler(
                {"message": f"callback of the channel at {self.address} failed", "exception": error}
            )
