"""The worker's end of the connections of its clients on the same machine: batches over Unix sockets.

The client's end is `streams`.
"""

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Sequence
from typing import Final

from aiocg.transport.codec import Batch, reply_batches, request_codec
from aiocg.transport.errors import AddressError, ProtocolError, RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Reply, Request
from aiocg.transport.unix import milliseconds, prepared, send_some, socket_path

__all__ = ["WorkerStream"]

BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Replies that a worker keeps for a busy client, beside what the system keeps, and works on; with more it waits."""

SEND_PATIENCE: Final = 30.0
"""Seconds that a worker waits for a client that takes no replies, before it gives it up."""

KEEPER_SECONDS: Final = 0.1
"""Seconds after which it is looked again who is busy, at the latest."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that the last replies of a closing worker have to leave its process."""


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
            while self.outgoing.size and send_some(self.end, self.outgoing):
                pass
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
        self._path = socket_path(address)
        self._listener = socket.socket(socket.AF_UNIX)
        try:
            self._listener.bind(self._path)
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
            found = self._poller.poll(None if end is None else milliseconds(max(0.0, end - time.monotonic())))
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
                os.unlink(self._path)
            with self._changed:
                self._changed.wait_for(lambda: not self._kept(), CLOSE_PATIENCE)
        self._listener.close()
        for client in list(self._clients.values()):
            self._drop(client)

    # ------------------------------------------------------------------------------------------ clients

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError, ConnectionError):
            end = prepared(self._listener.accept()[0])
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
            poller.poll(milliseconds(KEEPER_SECONDS))
            with self._changed:
                for client in self._kept():
                    client.send()
                self._changed.notify_all()
