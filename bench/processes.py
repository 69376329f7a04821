"""Processor time of processes, ours and others, as Linux tells them."""

import gc
import os
import resource
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

TICKS = os.sysconf("SC_CLK_TCK")  # per second
IDLE_COLUMNS = (3, 4)  # of the first line of /proc/stat: idle, and waiting for a disk


@dataclass(frozen=True, slots=True)
class MachineUse:
    """Who has used the machine's processors until now, in seconds.

    Attributes:
        when: time of the reading.
        all: everybody, hypervisor included.
        ours: this process and those of its children that have ended.
    """

    when: float
    all: float
    ours: float

    @classmethod
    def read(cls) -> Self:
        """Read the counters."""
        ticks = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
        busy = sum(ticks) - sum(ticks[column] for column in IDLE_COLUMNS)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        ours = time.process_time() + children.ru_utime + children.ru_stime
        return cls(time.perf_counter(), busy / TICKS, ours)

    def others_since(self, earlier: Self) -> float:
        """Return the share of the machine, 0 to 1, that others have used since an earlier reading."""
        capacity = (self.when - earlier.when) * (os.cpu_count() or 1)
        others = (self.all - earlier.all) - (self.ours - earlier.ours)
        return min(1.0, max(0.0, others / capacity))


def processor_seconds(pids: Iterable[int]) -> float:
    """Return the processor time that all threads of living processes have used, to the nanosecond."""
    return sum(time.clock_gettime(_processor_clock(pid)) for pid in pids)


def children(pid: int) -> list[int]:
    """Return the process ids of the children of a process of one thread."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main_thread_seconds(pid: int) -> float:
    """Return the processor time of a process's first thread; up to date where that thread is waiting."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[0]) / 1e9


def _processor_clock(pid: int) -> int:
    """Return what `clock_getcpuclockid` does; Python has it for threads only."""
    return (~pid << 3) | 2


class CollectorClock:
    """Adds up the time that this process spends collecting garbage, from when it is made until `close`.

    Attributes:
        seconds: the sum so far.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._started = 0.0
        gc.callbacks.append(self._collecting)

    def _collecting(self, phase: str, _: dict[str, Any]) -> None:
        if phase == "start":
            self._started = time.thread_time()
        else:
            self.seconds += time.thread_time() - self._started

    def close(self) -> None:
        """Stop watching."""
        gc.callbacks.remove(self._collecting)
