"""The client's end of a connection to a worker on this machine: a DEALER of ZeroMQ over `ipc://`, in the event loop.

It has the interface of the channels in `sockets` and speaks the protocol of libzmq (see `framing`), but has none of its
threads, which must be woken for every message: a request and its reply wake two threads, not six, which is most of a
single step's overhead. The worker's end is `worker_stream`, which does not need asyncio.
"""

import asyncio
import contextlib
import select
import socket
from collections import deque
from collections.abc import Callable
from typing import Final

from aiocg.transport.channels import guarded
from aiocg.transport.codec import Batch, reply_codec
from aiocg.transport.errors import ChannelClosedError, RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Reply, Request
from aiocg.transport.unix import milliseconds, prepared, socket_path

TURN_BYTES: Final = 4 * 1024 * 1024
"""Bytes sent in one turn of the event loop, one or two milliseconds' work; the rest waits for the next turn."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for more of a dead worker's replies, if another process still holds its end open."""

FIRST_INTERVAL: Final = 0.001  # seconds until a worker that does not listen yet is tried again, twice as long each time
CONNECT_INTERVAL: Final = 0.01
"""Seconds between two attempts to reach a worker that does not listen yet."""

END_PATIENCE: Final = 5.0
"""Seconds from a worker's end of connection to its death, after which the connection's end is reported as an error."""


class ClientStream:
    """A client's connection to one worker, driven by the running asyncio loop.

    Everything happens in the loop's thread. Nothing blocks, and nothing is dropped: requests wait here until the worker
    has room for them.

    Attributes:
        address: where the worker listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: total size of batches so far.
    """

    def __init__(
        self, address: str, *, on_replies: Callable[[list[Reply]], None], on_error: Callable[[Exception], None]
    ) -> None:
        """Begin to connect; the worker may bind its address later.

        Args:
            address: `ipc://` and a path.
            on_replies: called with each batch of replies.
            on_error: called with a `RemoteProtocolError` if a batch cannot be decoded, after which the channel
                continues, and with one, or an OSError, if the connection has failed.

        Raises:
            AddressError: if the address cannot be used.
        """
        self.address = address
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._path = socket_path(address)
        self._on_replies = guarded(on_replies, f"to {address}")
        self._on_error = guarded(on_error, f"to {address}")
        self._codec = reply_codec()
        self._batches: deque[Batch[Request]] = deque()
        self._incoming = Incoming()
        self._outgoing = Outgoing()
        self._loop = asyncio.get_running_loop()
        self._turn: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._interval = FIRST_INTERVAL
        self._writing = False  # waiting for the socket to become writable
        self._socket: socket.socket | None = None
        self._connect()

    @property
    def messages_queued(self) -> int:
        """Number of requests of which nothing has been handed to the system."""
        return sum(batch.messages for batch in self._batches)

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of what has not been handed to the system."""
        return self._outgoing.size + sum(batch.size for batch in self._batches)

    def send(self, message: Request, *, at_once: bool = False) -> None:
        """Queue a request; requests queued in one turn of the event loop travel together.

        With `at_once`, send what is queued now, which saves a turn of the loop where nothing will join this request.
        Byte strings and arrays of 16 KiB or more are not copied: do not change them afterwards.

        Raises:
            LocalProtocolError: if the message cannot be sent; nothing was queued.
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
        if at_once and not self._writing:
            self._flush()
        elif self._turn is None and not self._writing:
            self._turn = self._loop.call_soon(self._flush)

    def receive_pending(self, patience: float = DRAIN_PATIENCE) -> None:
        """Pass every reply that has arrived to `on_replies` now; used after the worker's death.

        Args:
            patience: seconds to block for more, if the connection does not end.
        """
        while self._socket is not None:
            poller = select.poll()
            poller.register(self._socket, select.POLLIN)
            if not poller.poll(milliseconds(patience)):
                return
            self._read()

    def close(self) -> None:
        """Close the socket and drop what is queued. No callback follows. May be called twice."""
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
                self._timer = self._loop.call_later(self._interval, self._connect)
                self._interval = min(2 * self._interval, CONNECT_INTERVAL)
            except OSError as error:
                self._timer = self._loop.call_later(0, self._on_error, error)
            else:
                undo.pop_all()
                self._socket = end
                self._loop.add_reader(end.fileno(), self._read)
                self._outgoing.greet("DEALER")
                self._flush()

    def _disconnect(self) -> None:
        if self._socket is not None:
            if not self._loop.is_closed():
                self._loop.remove_reader(self._socket.fileno())
                self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _fail(self, error: Exception) -> None:
        """Report that the connection has failed, although the worker may live."""
        self._disconnect()
        self._on_error(error)

    def _lose(self) -> None:
        """Handle the end of the connection: usually the worker died, which the watcher of its process reports."""
        self._disconnect()
        error = RemoteProtocolError("the worker closed the connection")
        self._timer = self._loop.call_later(END_PATIENCE, self._on_error, error)

    # ------------------------------------------------------------------------------- sending, receiving

    def _flush(self) -> None:
        """Send what the socket accepts, up to a limit; requests queued meanwhile join into larger batches."""
        self._turn = None
        end, outgoing, batches, left = self._socket, self._outgoing, self._batches, TURN_BYTES
        if end is None:
            return
        try:
            while left > 0 and (outgoing.size or batches):
                if not outgoing.size:
                    if not self._incoming.ready:
                        break
                    batch = batches.popleft()
                    outgoing.put(batch.frames())
                    self.bytes_sent += batch.size
                count = outgoing.hand_over(end.sendmsg)
                if not count:
                    break
                left -= count
        except ConnectionError:
            self._loop.call_soon(self._read)  # replies sent before the end
            return
        except OSError as error:
            self._fail(error)
            return
        done = not outgoing.size and not (batches and self._incoming.ready)
        if self._writing is done:
            self._writing = not done
            if done:
                self._loop.remove_writer(end.fileno())
            else:
                self._loop.add_writer(end.fileno(), self._flush)

    def _read(self) -> None:
        """Receive once, so that a flood does not block the loop, and deliver the complete batches."""
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
        self.bytes_received += count
        ready = incoming.ready
        try:
            for frames in incoming.batches(count):
                if self.closed:
                    return
                try:
                    replies = self._codec.decode(frames)
                except RemoteProtocolError as error:
                    self._on_error(error)
                else:
                    self._on_replies(replies)
        except RemoteProtocolError as error:
            self._fail(error)
        if not ready and incoming.ready and self._turn is None:
            self._turn = self._loop.call_soon(self._flush)
