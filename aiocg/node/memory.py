"""Notices that this process grows as it should not.

A message of ZeroMQ's may have any number of frames, and nobody sees one before it is complete: a client that is let in
and never ends a message fills the node's memory. Nothing says which connection it is, but a link outlives its
connection, so all can be cut.
"""

import contextlib
import resource
from pathlib import Path

__all__ = ["MemoryWatch"]

GROWTH = 512 << 20  # bytes by which the process may grow
RELIEF = 2.0  # seconds in which memory may be given back after an alarm

_STATM = Path("/proc/self/statm")


class MemoryWatch:
    """Looks at the resident memory of this process; pure but for that."""

    def __init__(self) -> None:
        self._usual = self.resident()
        self._relieved: float | None = None  # when it is to be seen what an alarm has brought

    @staticmethod
    def resident() -> int:
        """Return how much memory the process has, in bytes."""
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()

    def alarmed(self, now: float) -> bool:
        """Say whether the process has grown too much since it began, or since the last alarm.

        What is not given back after an alarm counts as usual from then on. When all descriptors are in use, as when
        strangers hold many connections open, there is nothing to be seen, and no alarm.
        """
        with contextlib.suppress(OSError):
            return self._look(now)
        return False

    def _look(self, now: float) -> bool:
        if self._relieved is not None:
            if now < self._relieved:
                return False
            self._usual, self._relieved = max(self._usual, self.resident()), None
        if self.resident() <= self._usual + GROWTH:
            return False
        self._relieved = now + RELIEF
        return True
