"""The status page: a few bytes of shared memory in which a worker says what it is executing, and what it has done.

The worker writes before and after every operation; the supervisor reads it at any time, above all after the worker
has died or stopped answering, to know whom to blame. The memory is an anonymous file handed down as a descriptor, so
nothing is left behind whoever dies. Its counts are read for metrics, without the worker having to answer.
"""

import mmap
import os
import struct
import time
from dataclasses import dataclass
from typing import Self

NO_CANDIDATE = -1
SEVERAL = -2  # candidates, for which something is prepared at once

# Fields go in and out of the page by slices, which the processor copies eight bytes or more at a time; `pack_into`
# would write zeros first and then byte after byte, all of it visible to the reader.
_SEQUENCE = struct.Struct("<Q")
_FIELDS = struct.Struct("<QQQqdd")  # client, session, request, candidate, started, deadline
_END = _SEQUENCE.size + _FIELDS.size
_COUNTS = struct.Struct("<QQQQdQQ")  # as in `Counts`
_END_OF_COUNTS = _END + _COUNTS.size
_NOTHING = _FIELDS.pack(0, 0, 0, NO_CANDIDATE, 0.0, 0.0)
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
        """Is this the same piece of work, whatever clock the times are of?"""
        return (self.client, self.request, self.candidate) == (other.client, other.request, other.candidate)


@dataclass(frozen=True, slots=True)
class Counts:
    """What a worker has and has done, as of its last batch of requests.

    Attributes:
        sessions, benchmarks: that it holds.
        requests: that it has carried out since it started.
        failures: how many of them failed.
        compiler_seconds: time spent in the compiler since it started.
        bytes_received, bytes_sent: of requests and replies.
    """

    sessions: int = 0
    benchmarks: int = 0
    requests: int = 0
    failures: int = 0
    compiler_seconds: float = 0.0
    bytes_received: int = 0
    bytes_sent: int = 0


class StatusPage:
    """One worker's page. The writer makes the sequence number odd while it writes, so a reader can tell."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._memory = mmap.mmap(descriptor, _SIZE)
        self._sequence = 0

    @classmethod
    def create(cls) -> Self:
        """Make a page; its `descriptor` is to be inherited by the worker."""
        descriptor = os.memfd_create("aiocg-status", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, _SIZE)
        return cls(descriptor)

    def begin(self, client: int, session: int, request: int, timeout: float, candidate: int = NO_CANDIDATE) -> None:
        """Say that a request, or one candidate of it, starts now and may take `timeout` seconds."""
        now = time.monotonic()
        self._write(_FIELDS.pack(client, session, request, candidate, now, now + timeout))

    def end(self) -> None:
        """Say that nothing is being executed."""
        self._write(_NOTHING)

    def count(self, *counts: float) -> None:
        """Say what has been done: the values of a `Counts`, in its order."""
        self._memory[_END:_END_OF_COUNTS] = _COUNTS.pack(*counts)

    def counts(self) -> Counts:
        """Return what has been done."""
        return Counts(*_COUNTS.unpack_from(self._memory, _END))

    def _write(self, fields: bytes) -> None:
        memory, sequence = self._memory, self._sequence
        memory[: _SEQUENCE.size] = _SEQUENCE.pack(sequence + 1)
        memory[_SEQUENCE.size : _END] = fields
        memory[: _SEQUENCE.size] = _SEQUENCE.pack(sequence + 2)
        self._sequence = sequence + 2

    def read(self) -> tuple[int, Execution | None]:
        """Return the sequence number, which changes with every write, and what is being executed.

        A worker that died while writing leaves an odd sequence number; what it had written is returned then.
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
