"""Unix sockets for both ends of a stream: addresses, options, timeouts."""

import os
import socket
from typing import Final

from aiocg.transport.errors import AddressError

MAX_PATH_BYTES: Final = 107
"""Length of a socket's path on Linux."""

SOCKET_BYTES: Final = 4 * 1024 * 1024
"""Size of the system's buffer in each direction, as far as the system allows it."""


def socket_path(address: str) -> str:
    """Return the path in an `ipc://` address, which a socket can have.

    Raises:
        AddressError: if the address cannot be used.
    """
    path = address.removeprefix("ipc://")
    if path == address or not path:
        raise AddressError(f"{address!r} is not an address; only ipc://PATH is supported")
    length = len(os.fsencode(path))
    if length > MAX_PATH_BYTES:
        raise AddressError(
            f"the socket path {path!r} has {length} bytes, more than the {MAX_PATH_BYTES} that this system allows; "
            "choose a shorter directory, for example with TMPDIR"
        )
    return path


def prepared(end: socket.socket) -> socket.socket:
    """Set the options of one end of a connection, and make it non-blocking."""
    end.setblocking(False)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SOCKET_BYTES)
    return end


def milliseconds(seconds: float | None) -> int:
    """Return a duration in whole milliseconds for `poll`, rounded up; -1, which means for ever, for None."""
    return -1 if seconds is None else -int(-seconds * 1000 // 1)
