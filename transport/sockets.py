"""The channels between a client and workers on another machine, over libzmq; see `streams` for those on this machine.

A worker binds one ROUTER, a client connects one DEALER to each of its workers. Each multipart carries at most one batch
(see `codec`). A client's batch is everything sent within one turn of the event loop; a worker's batch is everything
passed to one `send`. Connections have keys (see `security`), and batches travel over a link (see `link`), so that they
arrive exactly once and in order although connections break.
"""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import zmq

from aiocg.transport import limits
from aiocg.transport.channels import guarded
from aiocg.transport.codec import Batch, Codec, reply_codec
from aiocg.transport.errors import ChannelClosedError, RemoteProtocolError
from aiocg.transport.linked_wire import LinkedWire
from aiocg.transport.messages import Message, Reply, Request
from aiocg.transport.security import ClientSecurity
from aiocg.transport.unix import milliseconds
from aiocg.transport.wires import READABLE, WRITABLE, Context

TURN_MESSAGES: Final = 2048
"""Replies handled in one turn of the event loop, some milliseconds' work; the rest waits for the next turn."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for ZeroMQ's I/O thread to deliver what a dead worker had sent."""

Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)

_contexts: dict[int, Context] = {}


def client_context() -> Context:
    """Return the context of all clients of this process.

    A forked child gets its own; the parent's is kept, because closing it in the child would do harm.
    """
    pid = os.getpid()
    if pid not in _contexts:
        _contexts[pid] = context = zmq.Context()
        context.set(zmq.MAX_SOCKETS, context.get(zmq.SOCKET_LIMIT))  # by default it has some for 340 channels
    return _contexts[pid]


class Channel(Generic[Out, In]):
    """A client's connection to one server, driven by the running asyncio loop.

    Everything happens in the loop's thread. Nothing blocks, and nothing is dropped: messages wait here until the server
    has room for them.

    Attributes:
        address: where the server listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: total size of batches, without the overhead of links and ZeroMQ.
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
            codec: decodes what the server sends.
            on_messages: called with each batch of messages.
            on_error: called with a `RemoteProtocolError` if a batch cannot be decoded, after which the channel
                continues. Three errors are final: a `zmq.ZMQError` if the socket failed and was closed, a
                `NotAdmittedError` if the server rejects us or has another key, and a `LinkLostError` if it has
                forgotten us.
            security: keys.
            answered: whether the server answers each message with one message.
            max_frame_bytes: a server that sends a larger frame is disconnected.
            max_sent_bytes: size of the largest frame that the server accepts; `send` refuses larger messages.

        Raises:
            AddressError: if the address cannot be used.
            SecurityError: if this machine's libzmq does not support CURVE.
        """
        self.address = address
        self._max_sent_bytes = max_sent_bytes
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._on_messages = guarded(on_messages, f"to {address}")
        self._on_error = guarded(on_error, f"to {address}")
        self._codec = codec
        self._batches: deque[Batch[Out]] = deque()
        self._turn_handle: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        self._answered = answered
        self._unanswered = 0  # messages sent without an answer
        self._wire = LinkedWire(
            client_context(),
            address,
            security,
            max_frame_bytes=max_frame_bytes,
            wake=self._schedule,
            waiting=lambda: self._unanswered > 0,
            failed=self._on_error,
        )
        self._fd = int(self._wire.socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._turn, READABLE)

    @property
    def connected(self) -> bool:
        """Whether the server has accepted our key, and the connection stands."""
        return self._wire.connected

    @property
    def messages_queued(self) -> int:
        """Number of messages that wait here."""
        return sum(batch.messages for batch in self._batches)

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of the messages that wait here."""
        return sum(batch.size for batch in self._batches)

    def send(self, message: Out, *, at_once: bool = False) -> None:
        """Queue a message; messages queued in one turn of the event loop travel together.

        With `at_once`, send what is queued now, which saves a turn of the loop where nothing will join this message.
        Byte strings and arrays of 16 KiB or more are not copied: do not change them afterwards.

        Raises:
            LocalProtocolError: if the message cannot be sent; nothing was queued.
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
        if at_once:
            self._turn(budget=0)  # callers do not expect replies before this returns
        elif self._turn_handle is None:
            self._turn_handle = self._loop.call_soon(self._turn)

    def receive_pending(self, patience: float = DRAIN_PATIENCE) -> None:
        """Pass everything that has arrived to `on_messages` now; used after the server's death.

        Args:
            patience: seconds to block for one more batch before concluding that there are none.
        """
        while not self.closed and self._wire.socket.poll(milliseconds(patience)):
            self._receive_batch()

    def close(self) -> None:
        """Close the socket and drop what is queued. No callback follows. May be called twice."""
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

    def _turn(self, events: int | None = None, budget: int = TURN_MESSAGES) -> None:
        """Send and receive what is possible now.

        The descriptor is edge-triggered: after a send or a receive it may stay silent although there is more to do. So
        this returns only when the wire's `events` reports nothing more, or another turn is scheduled.

        Args:
            events: what can probably be done, as the wire's `events` returns it; None to ask the wire.
            budget: number of messages to receive before the rest waits for the next turn.
        """
        if self._turn_handle is not None:
            self._turn_handle.cancel()  # this is its turn, too: otherwise turns would multiply
            self._turn_handle = None
        try:
            if self._batches:
                self._send_batches()
            while not self.closed:
                if events is None:
                    events = self._wire.events()
                if not events & READABLE or budget <= 0:
                    if events & READABLE or (self._batches and events & WRITABLE):
                        self._schedule()
                    return
                budget -= self._receive_batch()
                events = None
        except zmq.ZMQError as error:
            self.close()
            self._on_error(error)

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
        """Receive and deliver one batch; return the number of its messages."""
        try:
            frames = self._wire.receive()
            if frames is None:
                return 1
            self.bytes_received += sum(map(len, frames))
            messages = self._codec.decode(frames)
        except RemoteProtocolError as error:
            self._on_error(error)
            return 1
        self._unanswered -= len(messages)
        self._on_messages(messages)
        return len(messages)


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
            address: where the worker listens, or will listen.
            on_replies: called with each batch of replies.
            on_error: called with errors in batches or of the connection.
            security: keys.
            max_sent_bytes: size of the largest frame that the worker accepts; `send` refuses larger messages.

        Raises:
            AddressError: if the address cannot be used.
            SecurityError: if this machine's libzmq does not support CURVE.
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
