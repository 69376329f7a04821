"""The sockets between a client and its workers: the only module that knows ZeroMQ.

A worker binds one ROUTER, a client connects one DEALER to each of its workers. Each multipart message is one
batch (see `codec`). In a client, everything sent within one turn of the event loop is one batch; in a worker,
all answers given to one `send`.
"""

import asyncio
import contextlib
import os
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Batch, Frame, reply_codec, request_codec
from aiocg.transport.errors import (
    AddressError,
    ChannelClosedError,
    LocalProtocolError,
    ProtocolError,
    RemoteProtocolError,
)
from aiocg.transport.messages import Failure, FailureCode, Reply, Request

REQUEST_BATCHES: Final = 16
"""Batches of requests in each of ZeroMQ's two queues. Few, so that what a slow worker has not taken yet stays
in the channel, where it is counted, and grows together into larger batches."""

REPLY_BATCHES: Final = 1024
"""Batches of replies in each queue. Many, so that a worker works on while the client's loop is busy; their
number is bounded by that of the requests not answered yet."""

ZERO_COPY_BYTES: Final = 64 * 1024
"""Frames from this size on are sent without a copy, which costs a message to another thread for each."""

TURN_MESSAGES: Final = 2048
"""Replies handled in one turn of the event loop, some milliseconds' work; the rest waits for the next."""

TURN_BATCHES: Final = 64
"""Batches of requests that a worker takes at once before it works on them."""

SEND_PATIENCE: Final = 30.0
"""Seconds a worker waits for a client that is alive but takes no replies, before it drops them."""

CLOSE_PATIENCE: Final = 1.0
"""Seconds that the last replies of a closing worker have to leave its process."""

DRAIN_PATIENCE: Final = 0.01
"""Seconds to wait for ZeroMQ's own thread to hand over what a dead worker has left in the kernel's buffer."""

Socket = zmq.Socket[bytes]
_contexts: dict[int, zmq.Context[Socket]] = {}


def _client_context() -> zmq.Context[Socket]:
    """Return the context of all clients of this process.

    A forked child gets its own; the parent's is kept, so that it is never closed there, but not touched.
    """
    pid = os.getpid()
    if pid not in _contexts:
        _contexts[pid] = zmq.Context()
    return _contexts[pid]


def _socket(context: zmq.Context[Socket], kind: int, address: str, *, sends: int, receives: int) -> Socket:
    """Make a socket whose queues hold so many batches, and check the address that it is for."""
    path = address.removeprefix("ipc://")
    if path == address or not path:
        raise AddressError(f"{address!r} is not an address; only ipc://PATH is supported")
    length = len(os.fsencode(path))
    if length > zmq.IPC_PATH_MAX_LEN:
        raise AddressError(
            f"the socket path {path!r} has {length} bytes, more than the {zmq.IPC_PATH_MAX_LEN} that "
            "this system allows; choose a shorter directory, for example with TMPDIR"
        )
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, sends)
    socket.setsockopt(zmq.RCVHWM, receives)
    socket.setsockopt(zmq.MAXMSGSIZE, limits.MAX_FRAME_BYTES)
    return socket


def _send(socket: Socket, frames: Sequence[Frame], flags: int) -> None:
    """Send one multipart; only its first frame can fail. Large immutable frames are not copied."""
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        copy = len(frame) < ZERO_COPY_BYTES or not memoryview(frame).readonly
        socket.send(frame, flags | (zmq.SNDMORE if index < last else 0), copy=copy)


def _receive(socket: Socket, flags: int, heads: int) -> list[Frame]:
    """Receive one multipart: so many frames at its head as bytes, the others as views of ZeroMQ's memory."""
    frames: list[Frame] = [socket.recv(flags)]
    while socket.getsockopt(zmq.RCVMORE):
        if len(frames) < heads:
            frames.append(socket.recv())
        else:
            frames.append(memoryview(socket.recv(copy=False).buffer).toreadonly())
    return frames


def _milliseconds(seconds: float | None) -> int:
    return -1 if seconds is None else -int(-seconds * 1000 // 1)


class ClientChannel:
    """A client's connection to one worker, driven by the running asyncio loop.

    Everything happens in the loop's thread. Nothing blocks, and nothing is dropped: what the worker does not
    take yet waits here.

    Attributes:
        address: where the worker listens.
        closed: whether `close` was called.
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
            address: `ipc://` and a path.
            on_replies: called with each batch of replies.
            on_error: called with a `RemoteProtocolError` when a batch cannot be decoded, after which the
                channel goes on, and with a `zmq.ZMQError` when the socket failed and has been closed.

        Raises:
            AddressError: when the address cannot be used.
        """
        self.address = address
        self.closed = False
        self._on_replies = on_replies
        self._on_error = on_error
        self._codec = reply_codec()
        self._batches: deque[Batch[Request]] = deque()
        self._turn_handle: asyncio.Handle | None = None
        self._loop = asyncio.get_running_loop()
        context = _client_context()
        self._socket = _socket(context, zmq.DEALER, address, sends=REQUEST_BATCHES, receives=REPLY_BATCHES)
        # The worker may bind after this. Not zmq.IMMEDIATE: it discards unread replies when a worker dies.
        self._socket.setsockopt(zmq.RECONNECT_IVL, 10)
        self._socket.setsockopt(zmq.RECONNECT_IVL_MAX, 200)
        self._socket.connect(address)
        self._fd = int(self._socket.getsockopt(zmq.FD))
        self._loop.add_reader(self._fd, self._turn)

    @property
    def messages_queued(self) -> int:
        """Requests that ZeroMQ has not taken yet."""
        return sum(batch.messages for batch in self._batches)

    @property
    def bytes_queued(self) -> int:
        """Encoded size in bytes of the requests that ZeroMQ has not taken yet."""
        return sum(batch.size for batch in self._batches)

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
        if self._turn_handle is None:
            self._turn_handle = self._loop.call_soon(self._turn)

    def receive_pending(self, patience: float = DRAIN_PATIENCE) -> None:
        """Hand every reply that has arrived to `on_replies` now; meant for after the worker's death.

        Args:
            patience: seconds to wait for one more batch, blocking; then it is taken that there are none.
        """
        while not self.closed and self._socket.poll(_milliseconds(patience)):
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
        self._socket.close(linger=0)
        self._batches.clear()

    def _turn(self) -> None:
        """Send and receive what is possible now.

        The descriptor signals changes, not states: after a send or a receive it may stay silent although
        there is more to do. So this ends only when `EVENTS` says that nothing is left, or with another turn
        scheduled.
        """
        if self._turn_handle is not None:
            self._turn_handle.cancel()
            self._turn_handle = None
        try:
            self._send_batches()
            budget = TURN_MESSAGES
            while not self.closed:
                events = int(self._socket.getsockopt(zmq.EVENTS))
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
            try:
                _send(self._socket, self._batches[0].frames(), zmq.DONTWAIT)
            except zmq.Again:
                return
            self._batches.popleft()

    def _receive_batch(self) -> int:
        """Receive one batch, hand it over, and return the number of its replies."""
        try:
            frames = _receive(self._socket, zmq.DONTWAIT, heads=1)
        except zmq.Again:
            return 0
        try:
            replies = self._codec.decode(frames)
        except RemoteProtocolError as error:
            self._call(self._on_error, error)
            return 1
        self._call(self._on_replies, replies)
        return len(replies)

    def _call(self, callback: Callable[[Any], None], argument: Any) -> None:
        try:
            callback(argument)
        except Exception as error:  # a callback's bug must not lose the batches behind this one
            self._loop.call_exception_handler(
                {"message": f"callback of the channel to {self.address} failed", "exception": error}
            )


class WorkerChannel:
    """A worker's end of the connections of all its clients; blocking."""

    def __init__(self, address: str) -> None:
        """Bind the address.

        Raises:
            AddressError: when the address cannot be bound.
        """
        self.address = address
        self.closed = False
        self._owner = os.getpid()
        self._codec = request_codec()
        context = self._context = zmq.Context()  # not shared: `close` must be able to wait for it
        self._socket = _socket(context, zmq.ROUTER, address, sends=REPLY_BATCHES, receives=REQUEST_BATCHES)
        self._socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # report a full queue, do not drop silently
        self._socket.setsockopt(zmq.SNDTIMEO, _milliseconds(SEND_PATIENCE))
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self._socket.close(linger=0)
            self._context.term()
            raise AddressError(
                f"cannot listen on {address}: {error}; its directory must exist and be writable"
            ) from error

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return everything at hand, waiting for the first batch; an empty list after `timeout` seconds.

        A batch that cannot be decoded is reported in its place, as the error, with the client that sent it.
        """
        batches: list[tuple[bytes, list[Request] | ProtocolError]] = []
        self._socket.setsockopt(zmq.RCVTIMEO, _milliseconds(timeout))
        flags = 0
        while len(batches) < TURN_BATCHES:
            try:
                client, *frames = _receive(self._socket, flags, heads=2)
            except zmq.Again:
                break
            flags = zmq.DONTWAIT
            try:
                batches.append((bytes(client), self._codec.decode(frames)))
            except RemoteProtocolError as error:
                batches.append((bytes(client), error))
        return batches

    def send(self, client: bytes, replies: Sequence[Reply]) -> bool:
        """Send replies to a client, together; say whether they could be handed over.

        A reply that cannot be encoded goes out as a `Failure` of its request instead. A client that is gone
        loses its replies, and so does one that has not taken any for `SEND_PATIENCE` seconds.
        """
        batch: Batch[Reply] = Batch()
        for reply in replies:
            if batch.full:
                if not self._send_batch(client, batch):
                    return False
                batch = Batch()
            self._add(batch, reply)
        return not batch.messages or self._send_batch(client, batch)

    def close(self) -> None:
        """Remove the socket's file and close, once the last replies are on their way; may be called twice."""
        if self.closed:
            return
        self.closed = True
        if os.getpid() == self._owner:  # a forked child must not take its parent's address away
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self.address.removeprefix("ipc://"))
            self._socket.close(linger=_milliseconds(CLOSE_PATIENCE))
            self._context.term()

    def _add(self, batch: Batch[Reply], reply: Reply) -> None:
        try:
            batch.add(reply)
        except LocalProtocolError as error:
            if error.request is None:
                raise
            batch.add(Failure(error.request, FailureCode.INTERNAL, str(error)))

    def _send_batch(self, client: bytes, batch: Batch[Reply]) -> bool:
        try:
            _send(self._socket, [client, *batch.frames()], 0)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise
        return True
