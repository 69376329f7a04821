"""ZeroMQ sockets: addresses, options, and sending and receiving multiparts."""

import re
from collections.abc import Sequence
from typing import Final

import zmq

from aiocg.transport import limits
from aiocg.transport.codec import Frame
from aiocg.transport.errors import AddressError
from aiocg.transport.security import ClientSecurity, ServerSecurity
from aiocg.transport.unix import milliseconds

# ZeroMQ's flags as plain numbers, because each `&` or `|` of two enum members runs some ten lines of Python.
READABLE: Final = int(zmq.POLLIN)
WRITABLE: Final = int(zmq.POLLOUT)
AT_ONCE: Final = int(zmq.DONTWAIT)
_MORE: Final = int(zmq.SNDMORE)

ZERO_COPY_BYTES: Final = 64 * 1024
"""Frames of this size or more are sent without a copy, which costs a message to another thread for each."""

CURVE_BYTES: Final = 33
"""Bytes that CURVE adds to each frame."""

SILENCE_SECONDS: Final = 15.0
"""If data is not acknowledged for this long, the kernel cuts the connection, and ZeroMQ makes another one.

ZeroMQ's heartbeats are not used: up to libzmq 4.3.5 they abort the process (`Assertion failed: !_io_error`) if a
connection breaks while its receiving queue is full."""

HANDSHAKE_SECONDS: Final = 10.0
"""A connection that is not authenticated after this time is cut."""

BACKLOG: Final = 512
"""Number of connections that may wait to be accepted."""

KEEPALIVE: Final = ((zmq.TCP_KEEPALIVE, 1), (zmq.TCP_KEEPALIVE_IDLE, 5), (zmq.TCP_KEEPALIVE_INTVL, 5))
"""The kernel also probes idle connections; times are in seconds."""

_TCP_ADDRESS: Final = re.compile(r"tcp://(?:\[[^\]]+\]|[^\s:/\[\]]+):(\d{1,5})")

Socket = zmq.Socket[bytes]
Context = zmq.Context[Socket]


def open_socket(
    context: Context,
    kind: int,
    address: str,
    security: ClientSecurity | ServerSecurity,
    *,
    queued: int,
    max_frame_bytes: int = limits.MAX_FRAME_BYTES,
) -> Socket:
    """Make a socket for an address, neither bound nor connected yet.

    Args:
        context: the ZeroMQ context.
        kind: type of the socket.
        address: the address.
        security: keys.
        queued: capacity of the queues in both directions of each peer, in multiparts.
        max_frame_bytes: a peer that sends a larger frame is disconnected.

    Raises:
        AddressError: if the address cannot be used.
        SecurityError: if this machine's libzmq does not support CURVE.
    """
    _check_address(address)
    socket = context.socket(kind)
    socket.setsockopt(zmq.LINGER, 0)
    socket.setsockopt(zmq.SNDHWM, queued)
    socket.setsockopt(zmq.RCVHWM, queued)
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
    left = len(frames)
    for frame in frames:
        left -= 1
        copy = len(frame) < ZERO_COPY_BYTES or not memoryview(frame).readonly
        socket.send(frame, flags | _MORE if left else flags, copy)


def receive_multipart(socket: Socket, flags: int) -> list[Frame]:
    """Receive one multipart: its first frame as bytes, the others as views of ZeroMQ's memory."""
    frame = socket.recv(flags, copy=False)
    frames: list[Frame] = [frame.bytes]
    while frame.more:
        frame = socket.recv(copy=False)
        frames.append(memoryview(frame.buffer).toreadonly())
    return frames
