"""Counters of worker slots and nodes, for metrics; they never decrease."""

from collections import Counter
from dataclasses import dataclass, field

from aiocg.fleet.supervision import describe_death
from aiocg.transport.messages import FailureCode
from aiocg.transport.status import Counts

__all__ = ["CODES", "NodeTally", "Tally"]

CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER = "crashed", "deadline", "cancelled", "quarantined", "other"
CODES = frozenset(
    {value for name, value in vars(FailureCode).items() if name.isupper()}
    | {CRASHED, OVERDUE, CANCELLED, QUARANTINED, OTHER}
)  # a remote worker may send any code; unknown ones are counted together


@dataclass(slots=True)
class Tally:
    """Counters of one slot, over all its processes.

    Attributes:
        starts: processes started.
        deaths: processes that ended, by cause.
        resent: requests sent again to the next process.
        rebuilt: sessions rebuilt on another process.
        lost: sessions that could not be rebuilt.
        failures: requests that failed, by code: of a `Failure`, or one of those above.
        compiler_seconds: time that ended processes spent in the compiler.
        bytes_sent, bytes_received: traffic with ended processes.
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
    """Counters of a node, by the clients' public keys.

    Attributes:
        attached: client processes that attached.
        expired: client processes whose lease ran out.
        starts: workers requested.
        refused: workers not started, because of their kind or a limit.
        deaths: workers that ended, by key and cause.
        requests, failures, compiler_seconds, bytes_received, bytes_sent: totals of the workers that ended.
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
        """Count a worker that ended, and add its totals."""
        self.deaths[key, describe_death(status, None)] += 1
        if counts is not None:
            self.requests[key] += counts.requests
            self.failures[key] += counts.failures
            self.compiler_seconds[key] = self.compiler_seconds.get(key, 0.0) + counts.compiler_seconds
            self.bytes_received[key] += counts.bytes_received
            self.bytes_sent[key] += counts.bytes_sent
