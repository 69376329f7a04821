"""Multiparts over ZeroMQ's sockets: addresses, options, sending and receiving."""

import os
import re
from collections.abc import Sequence
from typing import Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError
from aiocg.transport.security import ClientSecurity, ServerSecurity

__all__ = [
    "BoundWire",
    "ConnectedWire",
    "Context",
    "Socket",
    "is_remote",
    "milliseconds",
    "open_socket",
    "receive_multipart",
    "send_multipart",
]

ZERO_COPY_BYTES: Final = 64 * 1024
"""Frames from this size on are sent without a copy, which costs a message to another thread for each."""

CURVE_BYTES: Final = 33
"""What CURVE adds to each frame."""

SILENCE_SECONDS: Final = 15.0
"""When what was sent has not been acknowledged for so long, the kernel cuts the connection, and another one is made.

Not ZeroMQ's heartbeats: they abort the process (`Assertion failed: !_io_error`, libzmq 4.3.5 and before) when a
connection breaks while its receiving queue is full."""

HANDSHAKE_SECONDS: Final = 10.0
"""Who has not proved by then who it is, is cut."""

BACKLOG: Final = 512
"""Connections that may wait to be accepted."""

KEEPALIVE: Final = ((zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 5), (zmq.TCP_KEEPALIVE_INTVL, 5))
"""The kernel asks, too, when there is nothing to send; in seconds."""

_TCP_ADDRESS: Final = re.compile(r"tcp://(?:\[[^\]]+\]|[^\s:/\[\]]+):(\d{1,5})")

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


def is_remote(address: str) -> bool:
    """Say whether an address leads to other machines."""
    return address.startswith("tcp://")


def open_socket(
    context: Context,
    kind: int,
    address: str,
    security: ClientSecurity | ServerSecurity | None = None,
    *,
    sends: int,
    receives: int,
    max_frame_bytes: int = limits.MAX_FRAME_BYTES,
) -> Socket:
    """Make a socket for an address, neither bound nor connected yet.

    Args:
        context: of ZeroMQ.
        kind: type of the socket.
        address: what it is for.
        security: keys; a `tcp://` address must have them and others must not.
        sends: multiparts that it keeps for each peer until they are sent.
        receives: multiparts that it keeps of each peer until they are read.
        max_frame_bytes: size of a frame for which a peer is cut off.

    Raises:
        AddressError: when the address cannot be used so.
        SecurityError: when this machine's libzmq has no CURVE.
    """
    _check_address(address, security)
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, sends)
    socket.setsockopt(zmq.RCVHWM, receives)
    socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes if security is None else max_frame_bytes + CURVE_BYTES)
    if security is not None:
        try:
            security.apply(socket)
        except BaseException:
            socket.close(linger=0)
            raise
        _set_network_options(socket, address)
    return socket


def _check_address(address: str, security: object) -> None:
    if is_remote(address):
        match = _TCP_ADDRESS.fullmatch(address)
        if match is None or int(match[1]) > 65535:
            raise AddressError(f"{address!r} is not an address; it must be tcp://HOST:PORT, [HOST] for IPv6")
        if security is None:
            raise AddressError(
                f"{address} has no keys: whatever is not ipc:// is encrypted and both sides prove who they are, on the "
                "same machine too; make a pair with `aiocg keys new` and pass security="
            )
        return
    path = address.removeprefix("ipc://")
    if path == address or not path:
        raise AddressError(f"{address!r} is not an address; only ipc://PATH and tcp://HOST:PORT are supported")
    if security is not None:
        raise AddressError(f"{address} takes no keys: whoever can reach the socket's folder may use it")
    length = len(os.fsencode(path))
    if length > zmq.IPC_PATH_MAX_LEN:
        raise AddressError(
            f"the socket path {path!r} has {length} bytes, more than the {zmq.IPC_PATH_MAX_LEN} that "
            "this system allows; choose a shorter directory, for example with TMPDIR"
        )


def _set_network_options(socket: Socket, address: str) -> None:
    for option, value in KEEPALIVE:
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.IPV6, int("[" in address))
    socket.setsockopt(zmq.BACKLOG, BACKLOG)
    socket.setsockopt(zmq.HANDSHAKE_IVL, milliseconds(HANDSHAKE_SECONDS))
    socket.setsockopt(zmq.TCP_MAXRT, milliseconds(SILENCE_SECONDS))


def send_multipart(socket: Socket, frames: Sequence[Frame], flags: int) -> None:
    """Send one multipart; only its first frame can fail. Large immutable frames are not copied."""
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        copy = len(frame) < ZERO_COPY_BYTES or not memoryview(frame).readonly
        socket.send(frame, flags | (zmq.SNDMORE if index < last else 0), copy=copy)


def receive_multipart(socket: Socket, flags: int, heads: int) -> list[Frame]:
    """Receive one multipart: so many frames at its head as bytes, the others as views of ZeroMQ's memory."""
    frames: list[Frame] = [socket.recv(flags)]
    while socket.getsockopt(zmq.RCVMORE):
        if len(frames) < heads:
            frames.append(socket.recv())
        else:
            frames.append(memoryview(socket.recv(copy=False).buffer).toreadonly())
    return frames


def milliseconds(seconds: float | None) -> int:
    """Return a duration as ZeroMQ has it, where -1 is for ever."""
    return -1 if seconds is None else -int(-seconds * 1000 // 1)


class ConnectedWire:
    """A socket connected to one peer on this machine, where what is sent arrives or the peer is dead."""

    def __init__(self, socket: Socket) -> None:
        self.socket = socket

    def send(self, frames: list[Frame]) -> bool:
        """Send one batch; say whether it could be taken now."""
        try:
            send_multipart(self.socket, frames, zmq.DONTWAIT)
        except zmq.Again:
            return False
        return True

    def events(self) -> int:
        """Return whether there is something to receive (zmq.POLLIN) and a batch can be sent (zmq.POLLOUT)."""
        return int(self.socket.getsockopt(zmq.EVENTS))

    def receive(self) -> list[Frame] | None:
        """Receive a batch, None when there is none."""
        try:
            return receive_multipart(self.socket, zmq.DONTWAIT, heads=1)
        except zmq.Again:
            return None

    def close(self) -> None:
        """Close the socket at once."""
        self.socket.close(linger=0)


class BoundWire:
    """A socket bound on this machine, for several peers; each is given up on when it takes nothing.

    Attributes:
        address: where it listens.
    """

    def __init__(
        self, context: Context, address: str, *, sends: int, receives: int, patience: float, max_frame_bytes: int
    ) -> None:
        """Bind the address; `patience` is for how many seconds a peer is waited for that takes nothing.

        Raises:
            AddressError: when that is not possible.
        """
        self.address = address
        self.socket = open_socket(
            context, zmq.ROUTER, address, sends=sends, receives=receives, max_frame_bytes=max_frame_bytes
        )
        self.socket.setsockopt(zmq.ROUTER_MANDATORY, 1)  # report a full queue, do not drop silently
        self.socket.setsockopt(zmq.SNDTIMEO, milliseconds(patience))
        try:
            self.socket.bind(address)
        except zmq.ZMQError as error:
            self.socket.close(linger=0)
            raise AddressError(
                f"cannot listen on {address}: {error}; its directory must exist and be writable"
            ) from error

    def receive(self, flags: int) -> tuple[bytes, list[Frame]] | None:
        """Receive a batch and return it with its peer.

        Raises:
            zmq.Again: when there is none, or none in time.
        """
        client, *frames = receive_multipart(self.socket, flags, heads=2)
        return bytes(client), frames

    def send(self, client: bytes, frames: list[Frame]) -> bool:
        """Send one batch; say whether the peer has taken it."""
        try:
            send_multipart(self.socket, [client, *frames], 0)
        except zmq.Again:
            return False
        except zmq.ZMQError as error:
            if error.errno == zmq.EHOSTUNREACH:
                return False
            raise
        return True
