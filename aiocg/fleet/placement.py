"""Chooses the worker for a new session: pure functions of how busy each one is."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

SAMPLE = 8  # workers of a large cluster that are looked at for a program, and as many others


@dataclass(frozen=True, slots=True)
class WorkerLoad:
    """How busy one worker is."""

    usable: bool  # False once its slot is given up
    sessions: int
    pending: int  # requests without a reply


def choose_worker(loads: Sequence[WorkerLoad]) -> int | None:
    """Return the index of the least loaded usable worker, None if there is none.

    Sessions weigh first, since each will bring requests, then requests in flight. Ties are broken by the order of the
    workers, forwards and backwards in turn (0, 1, 1, 0, 0, 1 ...). So no worker always gets the same programs
    where these are dealt out to environments in turn, or by size.
    """
    candidates = [index for index, load in enumerate(loads) if load.usable]
    fewest = min((loads[index].sessions for index in candidates), default=0)
    order = -1 if fewest % 2 else 1
    return min(candidates, key=lambda i: (loads[i].sessions, loads[i].pending, order * i), default=None)


def choose_first(loads: Sequence[WorkerLoad]) -> int | None:
    """Return the index of the least loaded usable worker, the first of several; None if there is none."""
    candidates = [index for index, load in enumerate(loads) if load.usable]
    return min(candidates, key=lambda i: (loads[i].sessions, loads[i].pending, i), default=None)


def candidates(program: str, serial: int, count: int) -> list[int]:
    """Return the workers that a new session may get, those first that should have its program already.

    The order is that of rendezvous hashing, in which more or fewer workers change little. Of many workers only some
    are candidates, by the program and by a serial number: the least loaded of some that were drawn is hardly more
    loaded than the least loaded of all.

    Args:
        program: name of the program.
        serial: different for each session.
        count: number of workers.
    """
    if count <= 2 * SAMPLE:
        return sorted(range(count), key=lambda index: blake2b(f"{program} {index}".encode(), digest_size=8).digest())
    drawn = blake2b(program.encode()).digest() + blake2b(f"{program} {serial}".encode()).digest()
    size = len(drawn) // (2 * SAMPLE)
    return list(dict.fromkeys(int.from_bytes(drawn[i : i + size]) % count for i in range(0, len(drawn), size)))
