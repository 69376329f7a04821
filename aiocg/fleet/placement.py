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

    Sessions weigh first, since each will bring requests; requests in flight break ties.
    """
    candidates = [index for index, load in enumerate(loads) if load.usable]
    return min(candidates, key=lambda i: (loads[i].sessions, loads[i].pending, i), default=None)
