"""The worker's end of the connections of its clients on the same machine: a ROUTER of ZeroMQ over `ipc://`.

The client's end is `streams`, or any DEALER of libzmq.
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

from aiocg.transport.codec import reply_batches, request_codec
from aiocg.transport.errors import AddressError, ProtocolError, RemoteProtocolError
from aiocg.transport.framing import Incoming, Outgoing
from aiocg.transport.messages import Reply, Request
from aiocg.transport.unix import milliseconds, prepared, socket_path

BACKLOG_BYTES: Final = 16 * 1024 * 1024
"""Bytes of replies that a worker keeps for a busy client, beyond the system's buffer; with more, it waits."""

SEND_PATIENCE: Final = 30.0
"""Seconds that a worker waits for a client that does not read, before it gives the client up."""

KEEPER_SECONDS: Final = 0.1
"""Maximum pause, in seconds, between two looks for clients that are ready to read."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that a closing worker waits for its last replies to be sent."""


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
        """Send what the client's socket accepts now."""
        try:
            while self.outgoing.size and self.outgoing.hand_over(self.end.sendmsg):
                pass
        except OSError:
            self.give_up()

    def give_up(self) -> None:
        """Drop what is kept for the client, and keep nothing more."""
        self.gone = True
        self.outgoing = Outgoing()


class WorkerStream:
    """A worker's end of the connections of all its clients; blocking.

    One thread receives, others may send. Replies that a busy client does not read at once are kept, and sent by a
    background thread, which is started when it is first needed.

    Attributes:
        address: where it listens.
        closed: whether `close` was called.
        bytes_sent, bytes_received: total size of batches so far.
    """

    def __init__(self, address: str) -> None:
        """Bind the address.

        Raises:
            AddressError: if the address cannot be bound.
        """
        self.address = address
        self.closed = False
        self.bytes_sent = self.bytes_received = 0
        self._owner = os.getpid()
        self._codec = request_codec()
        self._clients: dict[bytes, _Client] = {}
        self._by_descriptor: dict[int, _Client] = {}
        self._accepted = 0
        self._lock = threading.RLock()  # guards sending
        self._changed = threading.Condition(self._lock)  # notified when replies are kept or sent
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
        """Wait for a batch and return everything that has arrived; return an empty list after `timeout` seconds.

        A batch that cannot be decoded is replaced by the error. A client that sends something other than batches is
        disconnected.
        """
        batches: list[tuple[bytes, list[Request] | ProtocolError]] = []
        end = None if timeout is None else time.monotonic() + timeout
        while not batches:
            found = self._poller.poll(milliseconds(None if end is None else max(0.0, end - time.monotonic())))
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
        """Send replies to a client, together; return whether they could be handed over.

        A reply that cannot be encoded is replaced by a `Failure` of its request. Replies to a client that is gone are
        dropped, as are those to a client that has left more than `BACKLOG_BYTES` unread for `SEND_PATIENCE` seconds.
        """
        receiver = self._clients.get(client)
        if receiver is None:
            return False
        outgoing = receiver.outgoing
        for batch in reply_batches(replies):
            with self._lock:
                if outgoing.size > BACKLOG_BYTES:
                    self._wait_for_room(receiver)
                if not receiver.gone:
                    outgoing.put(batch.frames())
                    self.bytes_sent += batch.size
                    receiver.send()
                if receiver.gone:
                    return False
                if outgoing.size:
                    self._keep()
        return True

    def close(self) -> None:
        """Remove the socket's file and close, after the last replies have been sent; may be called twice."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._owner:  # a forked child must not remove its parent's socket
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
            client.outgoing.greet("ROUTER")
            client.send()

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
            self.bytes_received += count
            for frames in client.incoming.batches(count):
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

    def _wait_for_room(self, client: _Client) -> None:
        while (before := client.outgoing.size) > BACKLOG_BYTES:
            if not self._changed.wait_for(lambda: client.outgoing.size < before, SEND_PATIENCE):
                client.give_up()
                with contextlib.suppress(OSError):
                    client.end.shutdown(socket.SHUT_RDWR)  # so that `receive` sees the end of the connection

    def _keep(self) -> None:
        if self._keeper is None:
            self._keeper = threading.Thread(target=self._send_kept, name="aiocg-sender", daemon=True)
            self._keeper.start()
        self._changed.notify_all()

    def _kept(self) -> list[_Client]:
        return [client for client in self._clients.values() if client.outgoing.size]

    def _send_kept(self) -> None:
        """Send kept replies whenever their clients can read."""
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
