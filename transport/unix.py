"""Unix sockets as both ends of a stream need them: addresses, options, sending."""

import os
import socket
from typing import Final

from aiocg.transport.errors import AddressError
from aiocg.transport.framing import Outgoing

__all__ = ["milliseconds", "prepared", "send_some", "socket_path"]

MAX_PATH_BYTES: Final = 107
"""Length of a socket's path on Linux."""

SOCKET_BYTES: Final = 4 * 1024 * 1024
"""What the system may keep for the other side in each direction, as far as it allows that."""


def socket_path(address: str) -> str:
    """Return the path in an address.

    Raises:
        AddressError: when the address cannot be used.
    """
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


def prepared(end: socket.socket) -> socket.socket:
    """Set the options of one end of a connection, which does not block from then on."""
    end.setblocking(False)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return end


def send_some(end: socket.socket, outgoing: Outgoing) -> int:
    """Send what the socket takes at once; return how many bytes that were, 0 when it takes none now.

    Raises:
        ConnectionError: when the other side is gone.
        OSError: when the system cannot send.
    """
    try:
        count = end.sendmsg(outgoing.parts())
    except BlockingIOError:
        return 0
    outgoing.taken(count)
    return count


def milliseconds(seconds: float) -> int:
    """Return a duration as `poll` has it, rounded up."""
    return -int(-seconds * 1000 // 1)
