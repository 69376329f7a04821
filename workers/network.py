"""Lets a node's worker listen for one remote client, with the keys and limits that the node passes to it."""

import os
import time
from pathlib import Path

from aiocg.transport import limits
from aiocg.transport.contents import ContentFolder
from aiocg.transport.errors import ProtocolError
from aiocg.transport.messages import Request
from aiocg.transport.security import ServerSecurity, WorkerKeys
from aiocg.transport.worker_sockets import WorkerChannel

BURST = 1.0  # an idle client may send as many requests at once as the rate allows in this many seconds


class PacedChannel(WorkerChannel):
    """A worker's channel with a limit on requests per second: it delays reading, and refuses nothing."""

    def __init__(
        self,
        address: str,
        security: ServerSecurity,
        *,
        max_frame_bytes: int = limits.MAX_FRAME_BYTES,
        requests_per_second: float = 0.0,
    ) -> None:
        """Bind the address; see `WorkerChannel`. A rate of 0 means no limit."""
        super().__init__(address, security, max_frame_bytes=max_frame_bytes)
        self._rate = requests_per_second
        self._paid_until = time.monotonic()  # when the rate allows everything read so far

    def receive(self, timeout: float | None) -> list[tuple[bytes, list[Request] | ProtocolError]]:
        """Return everything that has arrived, once the rate allows it; see `WorkerChannel.receive`."""
        if self._rate <= 0:
            return super().receive(timeout)
        now = time.monotonic()
        self._paid_until = max(self._paid_until, now - BURST)
        if self._paid_until > now:
            time.sleep(self._paid_until - now)
        batches = super().receive(timeout)
        count = sum(1 if isinstance(requests, ProtocolError) else len(requests) for _, requests in batches)
        self._paid_until += count / self._rate
        return batches


def listen(address: str, handed: int, announce: int | None) -> tuple[PacedChannel, int, ContentFolder | None]:
    """Listen at an address.

    Args:
        address: `tcp://HOST:PORT`, where port 0 means any free port.
        handed: inherited descriptor with the worker's keys and its client's limits; closed here.
        announce: descriptor to write the address to, as one line with the actual port; closed here.

    Returns:
        The channel, the client's maximum number of sessions, 0 for no limit, and where the content of programs is kept.

    Raises:
        SecurityError: if the descriptor does not contain keys.
        AddressError: if the address cannot be bound.
    """
    with open(handed, "rb") as file:
        keys = WorkerKeys.decode(file.read())
    largest = keys.limits.get("request_bytes", limits.MAX_FRAME_BYTES)
    channel = PacedChannel(
        address,
        keys.security(),
        max_frame_bytes=min(int(largest), limits.MAX_FRAME_BYTES),
        requests_per_second=keys.limits.get("requests_per_second", 0.0),
    )
    if announce is not None:
        with open(announce, "w", encoding="ascii") as pipe:
            pipe.write(f"{channel.address}\n")
    path, most = Path(os.fsdecode(keys.contents)), int(keys.limits.get("content_bytes", 0))
    return channel, int(keys.limits.get("sessions", 0)), ContentFolder(path, most) if keys.contents else None
