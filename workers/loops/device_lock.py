"""One measurement at a time on each device of this machine, whichever process makes it.

The lock is one on a file, which the system gives back when its holder dies. Its place is the same for everyone on the
machine, so it is not in TMPDIR, and anyone can open it.
"""

import fcntl
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["DeviceBusyError", "held"]

FOLDER = Path("/tmp")
SHORTEST, LONGEST = 0.001, 0.02  # seconds between two tries


class DeviceBusyError(Exception):
    """Others measured on the device until the deadline."""


@contextmanager
def held(device: str, deadline: float = math.inf, folder: Path = FOLDER) -> Iterator[None]:
    """Hold a device of this machine.

    Args:
        device: such as `cpu` or `cuda-0`; part of a file's name.
        deadline: until when to wait, in seconds of the monotonic clock.
        folder: where the lock is.

    Raises:
        DeviceBusyError: if the device is not free before the deadline.
        OSError: if the file cannot be opened.
    """
    descriptor = _open(folder / f"aiocg-measures-on-{device}.lock")
    try:
        _wait(descriptor, device, deadline)
        yield
    finally:
        os.close(descriptor)


def _open(path: Path) -> int:
    """Open the file, for reading: the system lets nobody write, or create, what another user has made in /tmp."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # somebody may have made a pipe of that name
    while True:
        try:
            return os.open(path, flags)
        except FileNotFoundError:
            pass
        try:
            descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            continue
        os.fchmod(descriptor, 0o444)  # whatever the umask is
        return descriptor


def _wait(descriptor: int, device: str, deadline: float) -> None:
    pause = SHORTEST
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            left = deadline - time.monotonic()
        if left <= 0:
            raise DeviceBusyError(f"others measured on {device} all the time")
        time.sleep(min(pause, left))
        pause = min(2 * pause, LONGEST)
