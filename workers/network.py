"""How a worker of a node begins to listen: for one client elsewhere, with what the node hands down to it."""

from aiocg.transport import limits
from aiocg.transport.security import WorkerKeys
from aiocg.workers.pace import PacedChannel

__all__ = ["listen"]


def listen(address: str, handed: int, announce: int | None) -> tuple[PacedChannel, int]:
    """Listen at an address.

    Args:
        address: `tcp://HOST:PORT`, whose port may be 0 for any that is free.
        handed: inherited descriptor with the worker's keys and its client's limits; it is closed.
        announce: descriptor to which the address is written as one line, with the port; it is closed.

    Returns:
        the channel, and how many sessions the client may have, 0 for any number.

    Raises:
        SecurityError: when something else is handed down.
        AddressError: when nobody can listen there.
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
    return channel, int(keys.limits.get("sessions", 0))
