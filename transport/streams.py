"""The client's end of a connection to a worker on the same machine: batches over a Unix socket.

It does what a channel of `sockets` does between machines, by the same interface, without a thread of ZeroMQ's in each
process that has to be woken for every message: a request and its reply wake two threads, not six, which is most of what
a single step costs beyond the compiler. The worker's end is `worker_stream`, which does not need asyncio.
"""

import asyncio
import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from aiocg.transport.codec import Batch, reply_codec
from aiocg.transport.errors import ChannelClosedError, RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Reply, Request
from aiocg.transport.unix import milliseconds, prepared, send_some, socket_path

__all__ = ["ClientStream"]

TURN_BYTES: Final = 4 * 1024 * 1024
"""What is sent in one turn of the event loop, a millisecond's work or two; the rest waits for the next."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for more of what a dead worker has left, where another process still holds its end."""

CONNECT_INTERVAL: Final = 0.01
"""Seconds between two attempts to reach a worker that does not listen yet."""

END_PATIENCE: Final = 5.0
"""Seconds that a worker which closed the connection has to die of it, before that is called an error."""


class ClientStream:
    """A client's connection to one worker, driven by the running asyncio loop.

    Everything happens in the loop's thread. Nothing blocks, and nothing is dropped: what the worker does not take yet
    waits here.

    Attributes:
        address: where the worker listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: of batches so far.
    """

    def __init__(
        self,
        address: str,
        *,
        on_replies: Callable[[list[Reply]], None],
        on_error: Callable[[Exception], None],
    ) -> None:
        """Begin to connect; the worker may bind its address later.

        Args:
            address: `unix://` and a path.
            on_replies: called with each batch of replies.
            on_error: called with a `RemoteProtocolError` when a batch cannot be decoded, after which the channel goes
                on, and with one, or an OSError, when the connection is of no use any more.

        Raises:
            AddressError: when the address cannot be used.
        """
        self.address = address
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._path = socket_path(address)
        self._on_replies = on_replies
        self._on_error = on_error
        self._codec = reply_codec()
        self._batches: deque[Batch[Request]] = deque()
        self._incoming = Incoming()
        self._outgoing = Outgoing()
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._writing = False  # the loop tells when there is room again
        self._socket: socket.socket | None = None
        self._connect()

    @property
    def messages_queued(self) -> int:
        """Requests of which nothing has been handed to the system yet."""
        return sum(batch.messages for batch in self._batches)

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of what the system has not taken yet."""
        return self._outgoing.size + sum(batch.size for batch in self._batches)

    def send(self, message: Request) -> None:
        """Queue a request; all that are queued in one turn of the loop travel together.

        Byte strings and arrays of 16 KiB or more are not copied: do not change them afterwards.

        Raises:
            LocalProtocolError: when the message cannot be sent; nothing was queued.
            ChannelClosedError: after `close`.
        """
        if self.closed:
            raise ChannelClosedError(f"the channel to {self.address} is closed")
        batches = self._batches
        if not batches or batches[-1].full:
            batch: Batch[Request] = Batch()
            batch.add(message)
            batches.append(batch)
        else:
            batches[-1].add(message)
        if self._turn is None and not self._writing:
            self._turn = self._loop.call_soon(self._flush)

    def receive_pending(self, patience: float = DRAIN_PATIENCE) -> None:
        """Hand every reply that has arrived to `on_replies` now; meant for after the worker's death.

        Args:
            patience: seconds to wait for more, blocking, where the connection does not end.
        """
        while self._socket is not None:
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            if not poller.poll(milliseconds(patience)):
                return
            self._read()

    def close(self) -> None:
        """Close the socket and forget what is queued. No callback follows. May be called twice."""
        if self.closed:
            return
        self.closed = True
        for handle in (self._turn, self._timer):
            if handle is not None:
                handle.cancel()
        self._disconnect()
        self._batches.clear()

    # -------------------------------------------------------------------------------------- connection

    def _connect(self) -> None:
        self._timer = None
        with contextlib.ExitStack() as undo:
            try:
                end = prepared(undo.enter_context(socket.socket(socket.AF_UNIX)))
                end.connect(self._path)
            except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
                self._timer = self._loop.call_later(CONNECT_INTERVAL, self._connect)
            except OSError as error:
                self._timer = self._loop.call_later(0, self._call, self._on_error, error)
            else:
                undo.pop_all()
                self._socket = end
                self._loop.add_reader(end.fileno(), self._read)
                self._flush()

    def _disconnect(self) -> None:
        if self._socket is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket.fileno())
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _fail(self, error: Exception) -> None:
        """The connection is of no use any more, though the worker may live."""
        self._disconnect()
        self._call(self._on_error, error)

    def _lose(self) -> None:
        """The worker is gone, or has closed the connection; whoever watches its process knows better, and soon."""
        self._disconnect()
        error = RemoteProtocolError("the worker closed the connection")
        self._timer = self._loop.call_later(END_PATIENCE, self._call, self._on_error, error)

    # ------------------------------------------------------------------------------- sending, receiving

    def _flush(self) -> None:
        """Send what the socket takes; what comes meanwhile grows together into larger batches."""
        self._turn = None
        end = self._socket
        if end is None:
            return
        try:
            done = self._send_some(end)
        except ConnectionError:
            self._read()  # what it has said before it went
            return
        except OSError as error:
            self._fail(error)
            return
        if self._writing is done:
            self._writing = not done
            if done:
                self._loop.remove_writer(end.fileno())
            else:
                self._loop.add_writer(end.fileno(), self._flush)

    def _send_some(self, end: socket.socket) -> bool:
        """Send what the socket takes, and not all day, so that others have their turns; say whether nothing is left."""
        left = TURN_BYTES
        while left > 0:
            if not self._outgoing.size:
                if not self._batches:
                    return True
                batch = self._batches.popleft()
                self._outgoing.put(batch.frames())
                self.bytes_sent += batch.size
            count = send_some(end, self._outgoing)
            if not count:
                return False
            left -= count
        return not self._outgoing.size and not self._batches

    def _read(self) -> None:
        """Receive once, so that a flood leaves turns to others, and hand over the batches that are complete."""
        end, incoming = self._socket, self._incoming
        if end is None:
            return
        try:
            count = end.recv_into(incoming.room())
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if not count:
            self._lose()
            return
        incoming.filled(count)
        self.bytes_received += count
        try:
            while (frames := incoming.batch()) is not None and not self.closed:
                try:
                    replies = self._codec.decode(frames)
                except RemoteProtocolError as error:
                    self._call(self._on_error, error)
                else:
                    self._call(self._on_replies, replies)
        except RemoteProtocolError as error:
            self._fail(error)

    def _call(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            callback(argument)
        except Exception as error:  # a callback's bug must not lose the batches behind this one
            self._loop.call_exception_handler(
                {"message": f"callback of the channel to {self.address} failed", "exception": error}
            )
