"""ZeroMQ's sockets between machines: addresses, options, and how multiparts are sent and received."""

import re
from collections.abc import Sequence
from typing import Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError
from aiocg.transport.security import ClientSecurity, ServerSecurity

__all__ = [
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
    security: ClientSecurity | ServerSecurity,
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
        security: keys.
        sends: multiparts that it keeps for each peer until they are sent.
        receives: multiparts that it keeps of each peer until they are read.
        max_frame_bytes: size of a frame for which a peer is cut off.

    Raises:
        AddressError: when the address cannot be used so.
        SecurityError: when this machine's libzmq has no CURVE.
    """
    _check_address(address)
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, sends)
    socket.setsockopt(zmq.RCVHWM, receives)
    socket.setsockopt(zmq.MAXMSGSIZE, max_frame_bytes + CURVE_BYTES)
    try:
        security.apply(socket)
    except BaseException:
        socket.close(linger=0)
        raise
    for option, value in KEEPALIVE:
        socket.setsockopt(option, value)
    socket.setsockopt(zmq.IPV6, int("[" in address))
    socket.setsockopt(zmq.BACKLOG, BACKLOG)
    socket.setsockopt(zmq.HANDSHAKE_IVL, milliseconds(HANDSHAKE_SECONDS))
    socket.setsockopt(zmq.TCP_MAXRT, milliseconds(SILENCE_SECONDS))
    return socket


def _check_address(address: str) -> None:
    match = _TCP_ADDRESS.fullmatch(address)
    if match is None or int(match[1]) > 65535:
        raise AddressError(f"{address!r} is not an address; it must be tcp://HOST:PORT, [HOST] for IPv6")


def send_multipart(socket: Socket, frames: Sequence[Frame], flags: int) -> None:
    """Send one multipart; only its first frame can fail. Large immutable frames are not copied."""
    last = len(frames) - 1
    for index, frame in enumerate(frames):
        copy = len(frame) < ZERO_COPY_BYTES or not memoryview(frame).readonly
        socket.send(frame, flags | (zmq.SNDMORE if index < last else 0), copy=copy)


def receive_multipart(socket: Socket, flags: int) -> list[Frame]:
    """Receive one multipart: its first frame as bytes, the others as views of ZeroMQ's memory."""
    frames: list[Frame] = [socket.recv(flags)]
    while socket.getsockopt(zmq.RCVMORE):
        frames.append(memoryview(socket.recv(copy=False).buffer).toreadonly())
    return frames


def milliseconds(seconds: float | None) -> int:
    """Return a duration as ZeroMQ has it, where -1 is for ever."""
    return -1 if seconds is None else -int(-seconds * 1000 // 1)
