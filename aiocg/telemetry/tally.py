"""What has happened to a worker slot since it was made: plain numbers, counted where it happens."""

from collections import Counter
from dataclasses import dataclass, field

from aiocg.supervision import describe_death
from aiocg.transport.messages import FailureCode
from aiocg.transport.status import Counts

__all__ = ["CODES", "NodeTally", "Tally"]

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


@dataclass(slots=True)
class NodeTally:
    """Numbers of a node, by public keys of clients; none ever falls.

    Attributes:
        attached: processes of clients that have attached.
        expired: of them, those whose lease ran out.
        starts: workers that were to be started.
        refused: workers that were not started, for what they are or for a limit.
        deaths: workers that are gone, by key and cause.
        requests, failures, compiler_seconds, bytes_received, bytes_sent: of the workers that are gone.
    """

    attached: Counter[str] = field(default_factory=Counter)
    expired: Counter[str] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    deaths: Counter[tuple[str, str]] = field(default_factory=Counter)
    requests: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    compiler_seconds: dict[str, float] = field(default_factory=dict)
    bytes_received: Counter[str] = field(default_factory=Counter)
    bytes_sent: Counter[str] = field(default_factory=Counter)

    def died(self, key: str, status: int, counts: Counts | None) -> None:
        """Count a worker that is gone, and add what it had done."""
        self.deaths[key, describe_death(status, None)] += 1
        if counts is not None:
            self.requests[key] += counts.requests
            self.failures[key] += counts.failures
            self.compiler_seconds[key] = self.compiler_seconds.get(key, 0.0) + counts.compiler_seconds
            self.bytes_received[key] += counts.bytes_received
            self.bytes_sent[key] += counts.bytes_sent
