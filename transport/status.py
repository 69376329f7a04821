"""The status page: shared memory in which a worker records what it is executing, and its counters.

The worker writes before and after every operation. The supervisor reads the page at any time, above all after the
worker has died or stopped answering, to find the request to blame. The memory is an anonymous file, inherited as a
descriptor, so nothing is left behind whichever process dies. Metrics read the counters without asking the worker.
"""

import mmap
import os
import struct
import time
from dataclasses import dataclass
from typing import Self

from aiocg.transport.system import unnamed_file

NO_CANDIDATE = -1
SEVERAL = -2  # in place of a candidate's index: several are being prepared at once
BEAT = 0.25  # seconds of a worker's life that each beat on its page stands for

# Fields are read and written as slices, which are copied in units of eight bytes or more; `pack_into` would first write
# zeros and then single bytes, all visible to the reader.
_SEQUENCE = struct.Struct("<Q")
_FIELDS = struct.Struct("<QQQqdd")  # client, session, request, candidate, started, deadline
_END = _SEQUENCE.size + _FIELDS.size
_COUNTS = struct.Struct("<QQQQdQQ")  # as in `Counts`
_END_OF_COUNTS = _END + _COUNTS.size
_BEATS = struct.Struct("<Q")
_END_OF_BEATS = _END_OF_COUNTS + _BEATS.size
_SIZE = mmap.PAGESIZE


@dataclass(frozen=True, slots=True)
class Execution:
    """What a worker is executing: numbers as on the wire, times on the monotonic clock in seconds."""

    client: int
    session: int
    request: int
    candidate: int  # index within an `Expand`, SEVERAL, or NO_CANDIDATE
    started: float
    deadline: float

    def is_same(self, other: "Execution") -> bool:
        """Is this the same execution, even if the times are from another clock?"""
        return (self.client, self.request, self.candidate) == (other.client, other.request, other.candidate)


@dataclass(frozen=True, slots=True)
class Counts:
    """A worker's counters, as of its last batch of requests.

    Attributes:
        sessions, benchmarks: numbers of sessions and benchmarks in memory.
        requests: requests executed since the start.
        failures: requests that failed.
        compiler_seconds: time spent in the compiler since the start.
        bytes_received, bytes_sent: size of requests and replies.
    """

    sessions: int = 0
    benchmarks: int = 0
    requests: int = 0
    failures: int = 0
    compiler_seconds: float = 0.0
    bytes_received: int = 0
    bytes_sent: int = 0


class StatusPage:
    """One worker's page. The sequence number is odd while the worker writes, so that readers can tell."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._sequence = self._beats = 0

    @classmethod
    def create(cls) -> Self:
        """Create a page; the worker must inherit its `descriptor`."""
        descriptor = unnamed_file("aiocg-status")
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def begin(self, client: int, session: int, request: int, timeout: float, candidate: int = NO_CANDIDATE) -> None:
        """Record that a request, or one candidate of it, starts now and may take `timeout` seconds."""
        now, memory = time.monotonic(), self._memory
        fields = _FIELDS.pack(client, session, request, candidate, now, now + timeout)
        memory[: _SEQUENCE.size] = _SEQUENCE.pack(self._sequence + 1)
        memory[_SEQUENCE.size : _END] = fields
        self._sequence += 2
        memory[: _SEQUENCE.size] = _SEQUENCE.pack(self._sequence)

    def end(self) -> None:
        """Record that nothing is being executed."""
        self.begin(0, 0, 0, 0.0)  # requests are numbered from 1

    def count(self, *counts: float) -> None:
        """Record the counters: the values of a `Counts`, in its order."""
        self._memory[_END:_END_OF_COUNTS] = _COUNTS.pack(*counts)

    def counts(self) -> Counts:
        """Return the counters."""
        return Counts(*_COUNTS.unpack_from(self._memory, _END))

    def beat(self) -> None:
        """Record that the worker has run for another `BEAT` seconds."""
        self._beats += 1
        self._memory[_END_OF_COUNTS:_END_OF_BEATS] = _BEATS.pack(self._beats)

    def beats(self) -> int:
        """Return the number of beats."""
        return int(_BEATS.unpack_from(self._memory, _END_OF_COUNTS)[0])

    def read(self) -> tuple[int, Execution | None]:
        """Return the sequence number, which changes with every write, and what is being executed.

        If the worker died while writing, the sequence number is odd, and the execution is as far as it was written.
        """
        for _ in range(100):
            data = self._memory[:_END]
            if data[0] % 2 == 0 and self._memory[: _SEQUENCE.size] == data[: _SEQUENCE.size]:
                break
        (sequence,) = _SEQUENCE.unpack_from(data)
        client, session, request, candidate, started, deadline = _FIELDS.unpack_from(data, _SEQUENCE.size)
        if not request:
            return sequence, None
        return sequence, Execution(client, session, request, candidate, started, deadline)

    def close(self) -> None:
        """Unmap the page and close its descriptor; idempotent."""
        if self.descriptor >= 0:
            self._memory.close()
            os.close(self.descriptor)
            self.descriptor = -1
