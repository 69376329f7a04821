"""Features of Linux, and their substitutes elsewhere, such as on macOS."""

import os
import platform
import re
import resource
from pathlib import Path

PROCESSORS = Path("/proc/cpuinfo")
"""Linux's description of the processors."""

HAS_PIDFD = hasattr(os, "pidfd_open")
"""Whether the end of a process is an event that a poll waits for."""

DESCRIPTORS = "/proc/self/fd" if os.path.isdir("/proc/self/fd") else "/dev/fd"
"""A folder with the files that this process has open, by the numbers of their descriptors."""

UNKNOWN_LIMIT: tuple[type[Exception], ...] = () if hasattr(resource, "prlimit") else (ValueError,)
"""What `setrlimit` raises for a limit that the system does not know, as macOS does for address space."""


def processors() -> list[int]:
    """Return the numbers of the processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def processor_name(description: Path = PROCESSORS) -> str:
    """Return the processor's name as Linux reports it; on other systems, as Python does."""
    try:
        text = description.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    found = re.search(r"^(?:model name|Model|cpu model|cpu)\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()


def unnamed_file(name: str) -> int:
    """Open a file without a name, in memory where that is possible, which no child inherits.

    Args:
        name: what tools that list open files call it.
    """
    if hasattr(os, "memfd_create"):
        return os.memfd_create(name, os.MFD_CLOEXEC)
    import tempfile  # slow to import

    with tempfile.TemporaryFile(prefix=f"{name}-") as file:
        return os.dup(file.fileno())
