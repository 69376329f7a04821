"""Channels between a client and its workers on one machine: batches over Unix sockets.

They do what the channels of `sockets` do between machines, by the same interface, without a thread of ZeroMQ's in each
process that has to be woken for every message: a request and its reply wake two threads, not six, which is most of what
a single step costs beyond the compiler.
"""

import asyncio
import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

from aiocg.transport.codec import Batch, reply_batches, reply_codec, request_codec
from aiocg.transport.errors import (
    AddressError,
    ChannelClosedError,
    ProtocolError,
    RemoteProtocolError,
)
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Reply, Request

__all__ = ["ClientStream", "WorkerStream"]

MAX_PATH_BYTES: Final = 107
"""Length of a socket's path on Linux."""

SOCKET_BYTES: Final = 4 * 1024 * 1024
"""What the system may keep for the other side in each direction, as far as it allows that."""

BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Replies that a worker keeps for a client that is busy, beyond those, while it works on; with more it waits."""

SEND_PATIENCE: Final = 30.0
"""Seconds that a worker waits for a client that takes no replies, before it gives it up."""

KEEPER_SECONDS: Final = 0.1
"""Seconds after which it is looked again who is busy, at the latest."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that the last replies of a closing worker have to leave its process."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for more of what a dead worker has left, where another process still holds its end."""

CONNECT_INTERVAL: Final = 0.01
"""Seconds between two attempts to reach a worker that does not listen yet."""

END_PATIENCE: Final = 5.0
"""Seconds that a worker which closed the connection has to die of it, before that is called an error."""


def _path(address: str) -> str:
    path = address.removeprefix("unix://")
    if path == address or not path:
        raise AddressError(f"{address!r} is not an address; only unix://PATH is supported")
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise AddressError(
            f"the socket path {path!r} has {length} bytes, more than the {MAX_PATH_BYTES} that this system allows; "
            "choose a shorter directory, for example with TMPDIR"
        )
    return path


def _prepared(end: socket.socket) -> socket.socket:
    end.setblocking(False)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return end


def _send(end: socket.socket, outgoing: Outgoing) -> bool:
    """Send what the socket takes now; say whether that was all.

    Raises:
        OSError: when the other side is gone.
    """
    while outgoing.size:
        try:
            outgoing.taken(end.sendmsg(outgoing.parts()))
        except BlockingIOError:
            return False
    return True


def _milliseconds(seconds: float) -> int:
    return -int(-seconds * 1000 // 1)


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
        self._path = _path(address)
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
            if not poller.poll(_milliseconds(patience)):
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
        end = _prepared(socket.socket(socket.AF_UNIX))
        try:
            end.connect(self._path)
        except (FileNotFoundError, ConnectionRefusedError, BlockingIOError):
            end.close()
            self._timer = self._loop.call_later(CONNECT_INTERVAL, self._connect)
        except OSError as error:
            end.close()
            self._timer = self._loop.call_later(0, self._call, self._on_error, error)
        else:
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
            while done := _send(end, self._outgoing):
                if not self._batches:
                    break
                batch = self._batches.popleft()
                self._outgoing.put(batch.frames())
                self.bytes_sent += batch.size
        except OSError:
            self._read()  # what it has said before it went
            return
        if self._writing is done:
            self._writing = not done
            if done:
                self._loop.remove_writer(end.fileno())
            else:
                self._loop.add_writer(end.fileno(), self._flush)

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
            self._disconnect()
            self._call(self._on_error, error)

    def _call(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            callback(argument)
        except Exception as error:  # a callback's bug must not lose the batches behind this one
            self._loop.call_exception_handler(
                {"message": f"callback of the channel to {self.address} failed", "exception": error}
            )


class _Client:
    """A client as its worker sees it."""

    __slots__ = ("end", "gone", "incoming", "name", "outgoing")

    def __init__(self, end: socket.socket, name: bytes) -> None:
        self.end = end
        self.name = name
        self.incoming = Incoming()
        self.outgoing = Outgoing()
        self.gone = False

    def send(self) -> None:
        """Send what the client takes now."""
        try:
            _send(self.end, self.outgoing)
        except OSError:
            self.give_up()

    def give_up(self) -> None:
        """Forget what is kept for the client, and keep nothing more."""
        self.gone = True
        self.outgoing = Outgoing()


class WorkerStream:
    """A worker's end of the connections of all its clients; blocking.

    One thread receives, others may send. What a busy client does not take at once is kept, and a thread of our own,
    which there is only once it is needed, sees to it while the worker works on.

    Attributes:
        address: where it listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: of batches so far.
    """

    def __init__(self, address: str) -> None:
        """Bind the address.

        Raises:
            AddressError: when the address cannot be bound.
        """
        self.address = address
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._owner = os.getpid()
        self._codec = request_codec()
        self._clients: dict[bytes, _Client] = {}
        self._by_descriptor: dict[int, _Client] = {}
        self._accepted = 0
        self._changed = threading.Condition()  # guards what is sent; told when more is kept, or less
        self._keeper: threading.Thread | None = None
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(_path(address))
            self._listener.listen()
        except OSError as error:
            self._listener.close()
            raise AddressError(
                f"cannot listen on {address}: {error}; its directory must exist and be writable"
            ) from error
        self._listener.setblocking(False)
        self._poller = select.poll()
        self._poller.register(self._listener, select.POLLIN)

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return what is at hand, waiting for the first batch; an empty list after `timeout` seconds.

        A batch that cannot be decoded is reported in its place, as the error, with the client that sent it. A client
        that sends what is no batch at all is disconnected.
        """
        batches: list[tuple[bytes, list[Request] | ProtocolError]] = []
        end = None if timeout is None else time.monotonic() + timeout
        while not batches:
            found = self._poller.poll(None if end is None else _milliseconds(max(0.0, end - time.monotonic())))
            if not found:
                break
            for descriptor, _ in found:
                client = self._by_descriptor.get(descriptor)
                if client is None:
                    self._accept()
                else:
                    self._read(client, batches)
        return batches

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; say whether they could be handed over.

        A reply that cannot be encoded goes out as a `Failure` of its request instead. A client that is gone loses its
        replies, and so does one that has left more than `BACKLOG_BYTES` of them for `SEND_PATIENCE` seconds.
        """
        receiver = self._clients.get(client)
        if receiver is None:
            return False
        return all(self._send_batch(receiver, batch) for batch in reply_batches(replies))

    def close(self) -> None:
        """Remove the socket's file and close, once the last replies are on their way; may be called twice."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._owner:  # a forked child must not take its parent's address away
            with contextlib.suppress(FileNotFoundError):
                os.unlink(_path(self.address))
            with self._changed:
                self._changed.wait_for(lambda: not self._kept(), CLOSE_PATIENCE)
        self._listener.close()
        for client in list(self._clients.values()):
            self._drop(client)

    # ------------------------------------------------------------------------------------------ clients

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            end = _prepared(self._listener.accept()[0])
            self._accepted += 1
            client = _Client(end, struct.pack("<Q", self._accepted))
            self._by_descriptor[end.fileno()] = client
            with self._changed:
                self._clients[client.name] = client
            self._poller.register(end, select.POLLIN)

    def _drop(self, client: _Client) -> None:
        self._poller.unregister(client.end)
        del self._by_descriptor[client.end.fileno()]
        with self._changed:
            del self._clients[client.name]
            client.give_up()
            client.end.close()
            self._changed.notify_all()

    def _read(self, client: _Client, batches: list[tuple[bytes, list[Request] | ProtocolError]]) -> None:
        try:
            count = client.end.recv_into(client.incoming.room())
            client.incoming.filled(count)
            self.bytes_received += count
            while count and (frames := client.incoming.batch()) is not None:
                try:
                    batches.append((client.name, self._codec.decode(frames)))
                except RemoteProtocolError as error:
                    batches.append((client.name, error))
        except BlockingIOError:
            return
        except (OSError, RemoteProtocolError):
            count = 0
        if not count:
            self._drop(client)

    # ------------------------------------------------------------------------------------------ sending

    def _send_batch(self, client: _Client, batch: Batch[Reply]) -> bool:
        with self._changed:
            self._wait_for_room(client)
            if client.gone:
                return False
            client.outgoing.put(batch.frames())
            self.bytes_sent += batch.size
            client.send()
            if client.outgoing.size:
                self._keep()
            return not client.gone

    def _wait_for_room(self, client: _Client) -> None:
        while (before := client.outgoing.size) > BACKLOG_BYTES:
            if not self._changed.wait_for(lambda: client.outgoing.size < before, SEND_PATIENCE):
                client.give_up()
                with contextlib.suppress(OSError):
                    client.end.shutdown(socket.SHUT_RDWR)  # whoever waits for its requests finds the end of it

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._send_kept, name="aiocg-sender", daemon=True)
            self._keeper.start()
        self._changed.notify_all()

    def _kept(self) -> list[_Client]:
        return [client for client in self._clients.values() if client.outgoing.size]

    def _send_kept(self) -> None:
        """Send what is kept whenever its clients take some of it."""
        while True:
            with self._changed:
                self._changed.wait_for(self._kept)
                poller = select.poll()
                for client in self._kept():
                    poller.register(client.end, select.POLLOUT)
            poller.poll(_milliseconds(KEEPER_SECONDS))
            with self._changed:
                for client in self._kept():
                    client.send()
                self._changed.notify_all()
