"""What has happened to a worker slot since it was made: plain numbers, counted where it happens."""

from collections import Counter
from dataclasses import dataclass, field

from aiocg.transport.messages import FailureCode

__all__ = ["CODES", "Tally"]

CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER = "crashed", "deadline", "cancelled", "quarantined", "other"
CODES = frozenset(
    {value for name, value in vars(FailureCode).items() if name.isupper()}
    | {CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER}
)  # a worker of somebody else's machine may send any, which must not become as many numbers


@dataclass(slots=True)
class Tally:
    """Numbers of one slot, through all its processes; none ever falls.

    Attributes:
        starts: processes that were started.
        deaths: processes that ended, by cause.
        resent: requests that were sent again to the next process.
        rebuilt: sessions that were rebuilt on another process.
        lost: sessions that are beyond rebuilding.
        failures: requests that failed, by code: of a `Failure`, or those above.
        compiler_seconds: that processes which have ended spent in the compiler.
        bytes_sent, bytes_received: to and from processes which have ended.
    """

    starts: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    resent: int = 0
    rebuilt: int = 0
    lost: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    compiler_seconds: float = 0.0
    bytes_sent: int = 0
    bytes_received: int = 0

    def failed(self, code: str) -> None:
        """Count a request that failed."""
        self.failures[code if code in CODES else OTHER] += 1
