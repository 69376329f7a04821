"""Folders for what compilers write, which go when they are left, or else soon after their owner was killed.

A folder is locked as long as its owner lives: the system frees the lock however that ends. So whoever finds one that is
not locked may remove it: the next process that needs such a folder does, and the janitor of a runtime whose process is
gone. A process that ends of its own accord takes along what its threads have not left. This file is also run by itself,
so it imports nothing but the standard library.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator

__all__ = ["scratch_folder", "sweep"]

PREFIX = "aiocg-scratch-"
ATTEMPTS = 100  # to make a folder that nobody removes before it is locked; to learn what a process is
EXIT_PATIENCE = 1.0  # seconds that a process that ends waits for a thread that is just making a folder

_owners: dict[str, int] = {}  # the process that made each folder in use here: children by fork know of their parent's
_making = threading.Lock()


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """Make an empty folder below the one for temporary files, and remove it with all that is in it.

    Raises:
        OSError: when there is no room for it.
    """
    _sweep_once()
    with _making:
        path, lock = _make()
        _owners[path] = os.getpid()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _owners.pop(path, None)
        os.close(lock)


def parent_folder() -> str:
    """Return what `tempfile.gettempdir` does, which tries by making a file: that would stay if we were killed then."""
    if tempfile.tempdir is None:
        for path in (os.environ.get("TMPDIR"), "/tmp"):
            if path and os.path.isabs(path) and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
                return path
    return tempfile.gettempdir()


def sweep() -> None:
    """Remove the folders whose owners are gone, and end what still works for them."""
    parent = parent_folder()
    with contextlib.suppress(OSError):
        for name in os.listdir(parent):
            if name.startswith(PREFIX):
                with contextlib.suppress(OSError):  # it is in use, somebody else's, or gone
                    _sweep(os.path.join(parent, name))


@functools.cache
def _sweep_once() -> None:
    sweep()
    atexit.register(_remove_own)
    os.register_at_fork(after_in_child=_renew_lock)


def _remove_own() -> None:
    """Remove what daemon threads still use when the process ends, and let them make no more."""
    _making.acquire(timeout=EXIT_PATIENCE)  # never released
    for path, owner in list(_owners.items()):
        if owner == os.getpid():
            _end_users(path)
            shutil.rmtree(path, ignore_errors=True)


def _renew_lock() -> None:
    global _making
    _making = threading.Lock()  # whoever held it is not in this process


def _make() -> tuple[str, int]:
    for _ in range(ATTEMPTS):
        path = tempfile.mkdtemp(prefix=PREFIX, dir=parent_folder())
        with contextlib.suppress(FileNotFoundError, BlockingIOError):  # it is being swept
            return path, _lock(path)
    raise OSError(f"folders made in {parent_folder()} vanish at once")


def _lock(path: str) -> int:
    """Open and lock a folder.

    Raises:
        BlockingIOError: when somebody has locked it.
        OSError: when it is not there, not ours, or not a folder.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            raise PermissionError(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:  # the file system has no locks, so that nobody sweeps there, either
            return descriptor
        os.stat(path)  # or it was removed before we had the lock
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        if os.fstat(descriptor).st_uid != os.geteuid():
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _end_users(path)
        shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _end_users(path: str) -> None:
    """Kill the compilers that an owner who was killed has left behind: their arguments name the folder."""
    for name in os.listdir("/proc"):
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(path) in _arguments(name) or os.readlink(f"/proc/{name}/cwd").startswith(path):
                    os.kill(int(name), signal.SIGKILL)


def _arguments(process: str) -> bytes:
    """Return what a process was started with; one that is just becoming another program tells it a moment later."""
    for _ in range(ATTEMPTS):
        with open(f"/proc/{process}/cmdline", "rb") as file:
            arguments = file.read()
        if arguments:
            break
        os.readlink(f"/proc/{process}/exe")  # which the kernel's own threads and the dead have not
        time.sleep(0.001)
    return arguments
