"""Detects abnormal growth of this process.

A ZeroMQ message may have any number of frames and is delivered only when complete, so an admitted client that never
ends a message fills the node's memory. Its connection cannot be identified, but as links survive their connections, all
connections can be cut.
"""

import contextlib
import resource
import sys
from pathlib import Path

GROWTH = 512 << 20  # bytes of growth that raise an alarm
RELIEF = 2.0  # seconds after an alarm in which memory may be freed

_STATM = Path("/proc/self/statm")


def _peak() -> int:
    """Return the most resident memory that the process has had, in bytes; far cheaper than what it has now."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


class MemoryWatch:
    """Watches the resident memory of this process."""

    def __init__(self) -> None:
        self._usual = self.resident()
        self._relieved: float | None = None  # when to measure the effect of an alarm

    @staticmethod
    def resident() -> int:
        """Return the resident memory of the process in bytes; where the system does not say it, the most there was."""
        if not _STATM.exists():
            most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            return most if sys.platform == "darwin" else most << 10
        return int(_STATM.read_bytes().split()[1]) * resource.getpagesize()

    def alarmed(self, now: float) -> bool:
        """Return whether the process has grown too much since its start or the last alarm.

        Memory that is not freed after an alarm counts as normal from then on. If all descriptors are in use, because
        strangers hold many connections open, memory cannot be measured, and there is no alarm.
        """
        with contextlib.suppress(OSError):
            return self._look(now)
        return False

    def _look(self, now: float) -> bool:
        if self._relieved is not None:
            if now < self._relieved:
                return False
            self._usual, self._relieved = max(self._usual, self.resident()), None
        if _peak() <= self._usual + GROWTH or self.resident() <= self._usual + GROWTH:
            return False
        self._relieved = now + RELIEF
        return True
