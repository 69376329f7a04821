"""What the drivers of both systems have in common: requests and replies, one JSON object a line, time and memory used.

Imported by scripts that run beside it, one of them in the old Python that the original needs: 3.8 to 3.10.
"""

import json
import os
import sys
import time
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")  # per second


class Channel:
    """Replies to whoever started this process, on what was standard output; what else is printed goes to stderr."""

    def __init__(self):
        self._out = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def reply(self, result):
        """Write one reply; end where nobody is left to read it."""
        try:
            self._out.write(json.dumps(result) + "\n")
            self._out.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), self._out.fileno())  # for what is still to be flushed
            raise SystemExit(1) from None

    def reply_error(self, error):
        """Say what went wrong."""
        self.reply({"error": f"{type(error).__name__}: {error}"})


def parse(line):
    """Return the operation and the arguments of a request."""
    request = json.loads(line)
    return request.pop("op"), request


def descendants():
    """Return the process ids of all processes below this one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(entry)
            if fields:
                parents[int(entry.name)] = int(fields[1])
    found = {os.getpid()}
    while True:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


class Spent:
    """What is done `with` it costs so much.

    Attributes:
        seconds: that pass.
        processor: seconds of processor time of this process and of all below it, also of those that ended meanwhile and
            were waited for. Those that live are read to the nanosecond, those that have ended in hundredths of seconds.
    """

    def __init__(self):
        self.seconds = self.processor = 0.0

    def __enter__(self):
        """Read the clocks, this process's last, so that reading costs nothing."""
        self._below = sum(map(_used, descendants()))
        self._own = _used(os.getpid())
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_):
        """Read them again, the other way round."""
        self.seconds = time.perf_counter() - self._began
        own = _used(os.getpid())
        self.processor = own - self._own + sum(map(_used, descendants())) - self._below


def occupied_bytes():
    """Return the memory of this process and all below it; pages that several share count once."""
    return sum(_proportional(pid) for pid in [os.getpid(), *descendants()])


def tool_seconds():
    """Return the processor time of programs that the processes below this one have run and waited for."""
    return sum(map(_of_ended, descendants()))


def _used(pid):
    """Return the processor time of a process, with threads and children that have ended."""
    try:
        return time.clock_gettime((~pid << 3) | 2) + _of_ended(pid)  # the clock that clock_getcpuclockid gives
    except OSError:
        return 0.0


def _of_ended(pid):
    fields = _stat(Path("/proc") / str(pid))
    return (int(fields[13]) + int(fields[14])) / TICKS if fields else 0.0


def _stat(folder):
    """Return the fields of a process from its state on, none if it has ended."""
    try:
        return (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _proportional(pid):
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))


def python_version():
    """Return the version of this Python."""
    return sys.version.split()[0]
