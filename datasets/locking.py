"""Locks between processes, and files and folders that appear at once and complete."""

import contextlib
import errno
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

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


@contextlib.contextmanager
def replacing(target: Path, mode: int = 0o600) -> Iterator[IO[bytes]]:
    """Open a new file that takes the target's place when the block ends; after an error the target is as it was.

    Raises:
        OSError: when the file cannot be written.
    """
    try:
        descriptor, temporary = tempfile.mkstemp(prefix=f".new-{target.name[:100]}-", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(target)) from None  # the name that the caller knows
    try:
        with open(descriptor, "w+b") as file:
            os.fchmod(descriptor, mode)
            yield file
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def make_folder(target: Path, fill: Callable[[Path], object], waiting_for: str) -> None:
    """Make a folder by a function that fills an empty one; do nothing if it is there already.

    Safe in several threads and processes at once; leftovers of killed processes are removed.

    Args:
        waiting_for: shown while another one does the same.

    Raises:
        OSError: when it cannot be written.
        Cancelled: when the event of `cancellable` was set.
    """
    with locked(target.with_name(f".{target.name}.lock"), waiting_for):
        if target.exists():
            return
        folder = target.with_name(f".new-{target.name}")
        if folder.exists():
            remove_tree(folder)
        folder.mkdir()
        try:
            fill(folder)
            folder.rename(target)
        except BaseException:
            with contextlib.suppress(OSError):  # the next one removes it
                remove_tree(folder)
            raise


def remove_tree(folder: Path) -> None:
    """Remove a folder with its content, showing progress if it takes long.

    Raises:
        OSError: when something cannot be removed.
    """
    with progress(f"Removing {folder}"):
        shutil.rmtree(folder)
