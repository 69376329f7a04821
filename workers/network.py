"""Lets a node's worker listen for one remote client, with the keys and limits that the node passes to it."""

import os
from pathlib import Path

from aiocg.transport import limits
from aiocg.transport.contents import ContentFolder
from aiocg.transport.security import WorkerKeys
from aiocg.workers.pace import PacedChannel


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
