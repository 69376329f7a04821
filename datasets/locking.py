"""One process at a time: a lock that lies in a file, and vanishes with the process that holds it."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path

from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress

__all__ = ["locked"]

POLL_INTERVAL = 0.1  # seconds between looks at the cancellation event


@contextlib.contextmanager
def locked(path: Path, waiting_for: str) -> Iterator[None]:
    """Hold a lock that one thread of one process has at a time; the system frees it when its holder dies.

    Args:
        path: the lock file; made when it is not there, with its folder, and left there.
        waiting_for: what is shown while another one holds it, such as "Waiting for another download of x".

    Raises:
        OSError: when the file cannot be made, or its file system has no locks.
        Cancelled: when the event of `cancellable` is set while waiting.
    """
    from filelock import FileLock, Timeout  # here, because most programs install nothing

    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except NotImplementedError:
        raise OSError(errno.ENOLCK, "the file system has no locks", str(path)) from None
    except Timeout:
        with progress(waiting_for):
            while not lock.is_locked:
                check_cancelled()
                with contextlib.suppress(Timeout):
                    lock.acquire(timeout=POLL_INTERVAL)
    try:
        yield
    finally:
        lock.release()
