"""The channels between a client and its workers on other machines, over ZeroMQ; on one machine see `streams`.

A worker binds one ROUTER, a client connects one DEALER to each of its workers. Each multipart message brings at most
one batch (see `codec`). In a client, everything sent within one turn of the event loop is one batch; in a worker,
all answers given to one `send`.

Connections have keys (see `security`), and the batches travel over a link (see `link`), so that they arrive once and in
order though connections break.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Batch, Codec, reply_batches, reply_codec, request_codec
from aiocg.transport.errors import ChannelClosedError, ProtocolError, RemoteProtocolError
from aiocg.transport.linked import LinkedRouter, LinkedWire
from aiocg.transport.messages import Message, Reply, Request
from aiocg.transport.security import ClientSecurity, ServerSecurity
from aiocg.transport.wires import Context, milliseconds

__all__ = ["Channel", "ClientChannel", "WorkerChannel", "client_context"]

TURN_MESSAGES: Final = 2048
"""Replies handled in one turn of the event loop, some milliseconds' work; the rest waits for the next."""

TURN_BATCHES: Final = 64
"""Batches of requests that a worker takes at once before it works on them."""

LINK_PATIENCE: Final = 5.0
"""Seconds a worker waits for a client that has much to take and takes nothing, before it works on."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that the last replies of a closing worker have to leave its process."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for ZeroMQ's own thread to hand over what a dead worker has left on the way."""

Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)

_contexts: dict[int, Context] = {}


def client_context() -> Context:
    """Return the context of all clients of this process.

    A forked child gets its own; the parent's is kept, so that it is never closed there, but not touched.
    """
    pid = os.getpid()
    if pid not in _contexts:
        _contexts[pid] = zmq.Context()
    return _contexts[pid]


class Channel(Generic[Out, In]):
    """A client's connection to one server, driven by the running asyncio loop.

    Everything happens in the loop's thread. Nothing blocks, and nothing is dropped: what the server does not
    take yet waits here.

    Attributes:
        address: where the server listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: of batches, without what links and ZeroMQ add.
    """

    def __init__(
        self,
        address: str,
        codec: Codec[In],
        *,
        on_messages: Callable[[list[In]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
        answered: bool = False,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
        max_sent_bytes: int = limits.MAX_FRAME_BYTES,
    ) -> None:
        """Begin to connect; the server may bind its address later.

        Args:
            address: `tcp://HOST:PORT`.
            codec: for what the server sends.
            on_messages: called with each batch of messages.
            on_error: called with a `RemoteProtocolError` when a batch cannot be decoded, after which the
                channel goes on, with a `zmq.ZMQError` when the socket failed and has been closed, with a
                `NotAdmittedError` when the server does not let us in or is another one, and with a
                `LinkLostError` when it has forgotten us; nothing comes after these.
            security: keys.
            answered: whether the server answers each message with one.
            max_frame_bytes: size of a frame for which the server is cut off.
            max_sent_bytes: size of the largest frame that the server takes; what is larger is refused by `send`.

        Raises:
            AddressError: when the address cannot be used.
            SecurityError: when this machine's libzmq has no CURVE.
        """
        self.address = address
        self._max_sent_bytes = max_sent_bytes
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._on_messages = on_messages
        self._on_error = on_error
        self._codec = codec
        self._batches: deque[Batch[Out]] = deque()
        self._turn_handle: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._answered = answered
        self._unanswered = 0  # of the messages that are sent
        self._wire = LinkedWire(
            client_context(),
            address,
            security,
            max_frame_bytes=max_frame_bytes,
            wake=self._schedule,
            waiting=lambda: self._unanswered > 0,
            failed=lambda error: self._call(self._on_error, error),
        )
        self._fd = int(self._wire.socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._turn)

    @property
    def messages_queued(self) -> int:
        """Messages that the link has not taken yet."""
        return sum(batch.messages for batch in self._batches)

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of the messages that the link has not taken yet."""
        return sum(batch.size for batch in self._batches)

    def send(self, message: Out) -> None:
        """Queue a message; all that are queued in one turn of the loop travel together.

        Byte strings and arrays of 16 KiB or more are not copied: do not change them afterwards.

        Raises:
            LocalProtocolError: when the message cannot be sent; nothing was queued.
            ChannelClosedError: after `close`.
        """
        if self.closed:
            raise ChannelClosedError(f"the channel to {self.address} is closed")
        batches = self._batches
        if not batches or batches[-1].full:
            batch: Batch[Out] = Batch(self._max_sent_bytes)
            batch.add(message)
            batches.append(batch)
        else:
            batches[-1].add(message)
        if self._turn_handle is None:
            self._turn_handle = self._loop.call_soon(self._turn)

    def receive_pending(self, patience: float = DRAIN_PATIENCE) -> None:
        """Hand everything that has arrived to `on_messages` now; meant for after the server's death.

        Args:
            patience: seconds to wait for one more batch, blocking; then it is taken that there are none.
        """
        while not self.closed and self._wire.socket.poll(milliseconds(patience)):
            self._receive_batch()

    def close(self) -> None:
        """Close the socket and forget what is queued. No callback follows. May be called twice."""
        if self.closed:
            return
        self.closed = True
        if self._turn_handle is not None:
            self._turn_handle.cancel()
            self._turn_handle = None
        if not self._loop.is_closed():
            self._loop.remove_reader(self._fd)
        self._wire.close()
        self._batches.clear()

    def _schedule(self) -> None:
        if self._turn_handle is None and not self.closed:
            self._turn_handle = self._loop.call_soon(self._turn)

    def _turn(self) -> None:
        """Send and receive what is possible now.

        The descriptor signals changes, not states: after a send or a receive it may stay silent although
        there is more to do. So this ends only when `events` says that nothing is left, or with another turn
        scheduled.
        """
        if self._turn_handle is not None:
            self._turn_handle.cancel()
            self._turn_handle = None
        try:
            self._send_batches()
            budget = TURN_MESSAGES
            while not self.closed:
                events = self._wire.events()
                if not events & zmq.POLLIN or budget <= 0:
                    if events & zmq.POLLIN or (self._batches and events & zmq.POLLOUT):
                        self._turn_handle = self._loop.call_soon(self._turn)
                    return
                budget -= self._receive_batch()
        except zmq.ZMQError as error:
            self.close()
            self._call(self._on_error, error)

    def _send_batches(self) -> None:
        while self._batches:
            batch = self._batches[0]
            if self._answered:
                self._unanswered += batch.messages
            if not self._wire.send(batch.frames()):
                self._unanswered -= batch.messages if self._answered else 0
                return
            self.bytes_sent += batch.size
            self._batches.popleft()

    def _receive_batch(self) -> int:
        """Receive one batch, hand it over, and return the number of its messages."""
        try:
            frames = self._wire.receive()
            if frames is None:
                return 1
            self.bytes_received += sum(map(len, frames))
            messages = self._codec.decode(frames)
        except RemoteProtocolError as error:
            self._call(self._on_error, error)
            return 1
        self._unanswered -= len(messages)
        self._call(self._on_messages, messages)
        return len(messages)

    def _call(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            callback(argument)
        except Exception as error:  # a callback's bug must not lose the batches behind this one
            self._loop.call_exception_handler(
                {"message": f"callback of the channel to {self.address} failed", "exception": error}
            )


class ClientChannel(Channel[Request, Reply]):
    """A client's connection to one worker."""

    def __init__(
        self,
        address: str,
        *,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
        security: ClientSecurity,
        max_sent_bytes: int = limits.MAX_FRAME_BYTES,
    ) -> None:
        """Begin to connect; see `Channel`.

        Args:
            address: where the worker listens, or will.
            on_replies: called with each batch of replies.
            on_error: called when something is wrong with what comes, or with the connection.
            security: keys.
            max_sent_bytes: size of the largest frame that the worker takes; what is larger is refused by `send`.

        Raises:
            AddressError: when the address cannot be used.
            SecurityError: when this machine's libzmq has no CURVE.
        """
        super().__init__(
            address,
            reply_codec(),
            on_messages=on_replies,
            on_error=on_error,
            security=security,
            answered=True,
            max_sent_bytes=max_sent_bytes,
        )


class WorkerChannel:
    """A worker's end of the connections of all its clients; blocking.

    Attributes:
        address: where it listens, with the port that it got.
        closed: whether `close` was called.
        bytes_sent, bytes_received: of batches, without what links and ZeroMQ add.
    """

    def __init__(
        self,
        address: str,
        security: ServerSecurity,
        *,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
    ) -> None:
        """Bind the address.

        Args:
            address: `tcp://HOST:PORT`, whose port may be 0 for any that is free.
            security: keys, and whom they let in.
            max_frame_bytes: size of a frame for which a client is cut off.

        Raises:
            AddressError: when the address cannot be bound.
            SecurityError: when this machine's libzmq has no CURVE.
        """
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._owner = os.getpid()
        self._codec = request_codec()
        self._context = zmq.Context()  # not shared: `close` must be able to wait for it
        try:
            self._wire = LinkedRouter(
                self._context, address, security, max_frame_bytes=max_frame_bytes, patience=LINK_PATIENCE
            )
        except BaseException:
            self._context.term()
            raise
        self.address = self._wire.address

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return everything at hand, waiting for the first batch; an empty list after `timeout` seconds.

        A batch that cannot be decoded is reported in its place, as the error, with the client that sent it.
        """
        batches: list[tuple[bytes, list[Request] | ProtocolError]] = []
        deadline = None if timeout is None else time.monotonic() + timeout
        self._wire.socket.setsockopt(zmq.RCVTIMEO, milliseconds(timeout))
        flags = 0
        while len(batches) < TURN_BATCHES:
            try:
                received = self._wire.receive(flags)
            except zmq.Again:
                break
            if received is None:  # nothing for us: it was between the ends of a link
                if not flags and deadline is not None:
                    self._wire.socket.setsockopt(zmq.RCVTIMEO, milliseconds(max(0.0, deadline - time.monotonic())))
                continue
            flags = zmq.DONTWAIT
            client, frames = received
            self.bytes_received += sum(map(len, frames))
            try:
                batches.append((client, self._codec.decode(frames)))
            except RemoteProtocolError as error:
                batches.append((client, error))
        return batches

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; say whether they could be handed over.

        A reply that cannot be encoded goes out as a `Failure` of its request instead. Replies are kept for a client
        that cannot be reached or does not read, and it is waited for when much is kept, no longer than `LINK_PATIENCE`
        seconds in which it takes nothing.
        """
        return all(self._send_batch(client, batch) for batch in reply_batches(replies))

    def close(self) -> None:
        """Close, once the last replies are on their way; may be called twice."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._owner:  # a forked child has none of the context's threads
            self._wire.socket.close(linger=milliseconds(CLOSE_PATIENCE))
            self._context.term()

    def _send_batch(self, client: bytes, batch: Batch[Reply]) -> bool:
        self.bytes_sent += batch.size
        return self._wire.send(client, batch.frames())
