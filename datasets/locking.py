"""A file lock between processes, and a thread lock that is free in forks."""

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from aiocg.datasets.process import check_cancelled
from aiocg.datasets.progress import progress

POLL_INTERVAL = 0.1  # seconds between looks at the cancellation event


@contextlib.contextmanager
def locked(path: Path, waiting_for: str) -> Iterator[None]:
    """Hold a file lock, exclusive between threads and processes; the system frees it when its holder dies.

    Args:
        path: the lock file; created with its folder if missing, and never removed.
        waiting_for: shown while waiting, such as "Waiting for another download of x".

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


class ForkedLock:
    """A lock that is free in a fork of the process, where the thread that held it does not exist.

    The protected data must be usable as that thread left it, since the fork starts the computation anew. The first
    use in a fork creates a new lock, so that processes that do not fork pay nothing.
    """

    __slots__ = ("__weakref__", "_forks", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._forks = _forks

    def __enter__(self) -> None:
        if self._forks != _forks:
            with _renewing:
                if self._forks != _forks:
                    self._lock, self._forks = threading.Lock(), _forks
        self._lock.acquire()

    def __exit__(self, *exc_info: object) -> None:
        self._lock.release()


_forks = 0  # that lie between the first process and this one
_renewing = threading.Lock()  # held for a moment only, but it might be just that one


def _forked() -> None:
    global _forks, _renewing
    _forks += 1
    _renewing = threading.Lock()


os.register_at_fork(after_in_child=_forked)
