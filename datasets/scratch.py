"""Scratch folders for compilers, removed on exit or soon after their owner was killed.

A folder is locked while its owner lives: the system frees the lock in any case. An unlocked folder may be removed, by
the next process that needs one or by the janitor of a runtime whose process is gone. A process that exits normally
removes the folders that its threads still use. This file is also run as a script, so it imports only the standard
library.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import secrets
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

PREFIX = "aiocg-scratch-"
ATTEMPTS = 100  # to make a folder that nobody removes before it is locked; to learn what a process is
EXIT_PATIENCE = 1.0  # seconds that a process that ends waits for a thread that is just making a folder

_owners: dict[str, int] = {}  # the process that made each folder in use here: children by fork know of their parent's
_making = threading.Lock()


@contextlib.contextmanager
def scratch_folder() -> Iterator[str]:
    """Make an empty folder for temporary files, and remove it on exit; raise OSError when there is no room for it."""
    _sweep_once()
    with _making:
        path, lock = _make()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)
        _owners.pop(path, None)
        os.close(lock)


def write_below(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Write files below a folder, and make the folders between."""
    for name, content in files.items():
        path = Path(folder, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def parent_folder() -> str:
    """Return the folder of `tempfile.gettempdir`, which would test it with a file that remains if we are killed."""
    if tempfile.tempdir is None:
        for path in (os.environ.get("TMPDIR"), "/tmp"):
            if path and os.path.isabs(path) and os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
                return path
    return tempfile.gettempdir()


def sweep() -> None:
    """Remove the folders whose owners are gone, and kill what still uses them."""
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
    """Remove the folders of daemon threads at exit, and keep them from making more."""
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
        path = os.path.join(parent_folder(), PREFIX + secrets.token_hex(8))
        _owners[path] = os.getpid()  # before it is there, as a signal may end this process at any moment
        try:
            os.mkdir(path, 0o700)
            return path, _lock(path)
        except (FileNotFoundError, BlockingIOError):  # it is being swept
            del _owners[path]
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            del _owners[path]
            raise
    raise OSError(f"folders made in {parent_folder()} vanish at once")


def _lock(path: str) -> int:
    """Open and lock a folder itself, not a file in it, which `filelock` cannot do.

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
    """Kill compilers left behind by a killed owner: their arguments name the folder."""
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        if name.isdecimal() and int(name) != os.getpid():
            with contextlib.suppress(OSError):
                if os.fsencode(path) in _arguments(name) or os.readlink(f"/proc/{name}/cwd").startswith(path):
                    os.kill(int(name), signal.SIGKILL)


def _arguments(process: str) -> bytes:
    """Return the arguments of a process, retrying while it executes another program."""
    for _ in range(ATTEMPTS):
        with open(f"/proc/{process}/cmdline", "rb") as file:
            arguments = file.read()
        if arguments:
            break
        os.readlink(f"/proc/{process}/exe")  # which the kernel's own threads and the dead have not
        time.sleep(0.001)
    return arguments
