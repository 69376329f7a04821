"""Chooses the worker for a new session: a pure function of how busy each one is."""

from collections.abc import Sequence
from dataclasses import dataclass


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
