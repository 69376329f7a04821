"""Being the only process that does something, as far as the others let one."""

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator

__all__ = ["locked"]

_LOOK = 0.02  # seconds between two


@contextlib.contextmanager
def locked(path: str, patience: float) -> Iterator[bool]:
    """Have a lock for a context, and tell whether one has it: a process that was stopped may keep it for ever.

    Args:
        path: of the lock's file, which is made with its folder where that can be.
        patience: seconds to wait for those who have it.
    """
    lock = -1
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        yield lock >= 0 and _lock(lock, time.monotonic() + patience)
    finally:
        if lock >= 0:
            os.close(lock)


def _lock(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EINTR) or time.monotonic() > deadline:
                return False
            time.sleep(_LOOK)
        else:
            return True
