"""Features of Linux, and their substitutes elsewhere, such as on macOS."""

import os
import resource

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
