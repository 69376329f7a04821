"""Takes from Python what it has on Linux and not on macOS; at the head of PYTHONPATH, from all that are started, too.

The documentation of `os`, `signal`, `socket` and so on says what that is. Files of /proc are not there, either, and
what the C library has on Linux alone cannot be called. Where both do the same, nothing is changed.
"""

import ctypes
import errno
import fcntl
import functools
import mmap
import os
import resource
import select
import signal
import sys
import time
from typing import Any

del select.epoll  # before `selectors` chooses it

import socket  # noqa: E402

HIDDEN = ("/proc", "/sys", "/dev/shm")
SYMBOLS = ("prctl", "sched_setaffinity", "mallopt", "malloc_trim", "gettid", "mremap")
LONGEST = 103  # bytes of a socket's path
LINUX = {  # beginnings of names
    os: (
        *("EFD_", "GRND_", "MFD_", "O_LARGEFILE", "O_NOATIME", "O_PATH", "O_RSYNC", "O_TMPFILE", "P_PIDFD", "RWF_"),
        *("POSIX_FADV_", "SCHED_", "XATTR_", "copy_file_range", "eventfd", "fdatasync", "getrandom", "getresuid"),
        *("getresgid", "getxattr", "listxattr", "memfd_create", "pidfd_open", "pipe2", "posix_fadvise"),
        *("posix_fallocate", "removexattr", "sched_get", "sched_set", "sched_rr", "setresuid", "setresgid"),
        *("setxattr", "splice", "waitid"),
    ),
    signal: ("SIGPWR", "SIGRT", "SIGSTKFLT", "pidfd_send_signal", "sigtimedwait", "sigwaitinfo"),
    resource: ("RLIMIT_MSGQUEUE", "RLIMIT_NICE", "RLIMIT_RT", "RLIMIT_SIGPENDING", "RUSAGE_THREAD", "prlimit"),
    socket: (
        *("MSG_CMSG_CLOEXEC", "MSG_NOSIGNAL", "SOCK_CLOEXEC", "SOCK_NONBLOCK", "SOCK_SEQPACKET", "SO_PASSCRED"),
        *("SO_PEERCRED", "TCP_KEEPIDLE", "TCP_USER_TIMEOUT"),
    ),
    time: ("CLOCK_BOOTTIME", "CLOCK_TAI", "pthread_getcpuclockid"),
    mmap: ("MADV_DO", "MADV_HUGE", "MAP_DENYWRITE", "MAP_POPULATE"),
    fcntl: ("F_ADD_SEALS", "F_GETPIPE_SZ", "F_OFD_", "F_SETPIPE_SZ"),
}


def hidden(path: Any) -> bool:
    """Say whether a file is one of Linux's own."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    text = os.fsdecode(path)
    return text in HIDDEN or text.startswith(tuple(f"{one}/" for one in HIDDEN))


def refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """Raise at what does not work elsewhere."""
    if event in ("open", "os.listdir", "os.scandir") and hidden(arguments[0]):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), arguments[0])
    if event in ("socket.bind", "socket.connect") and isinstance(arguments[1], str | bytes):
        address = os.fsencode(arguments[1])
        if address.startswith(b"\0") or len(address) > LONGEST:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), arguments[1])


def refusing(function: Any) -> Any:
    """Return a function of a path that finds none of Linux's own files."""

    @functools.wraps(function)
    def call(path: Any, *arguments: Any, **named: Any) -> Any:
        refuse("open", (path,))
        return function(path, *arguments, **named)

    return call


def set_limit(limit: int, values: tuple[int, int]) -> None:
    """Set a limit other than that of address space, which macOS has by name alone."""
    if limit == resource.RLIMIT_AS:
        raise ValueError("current limit exceeds maximum limit")
    _setrlimit(limit, values)


class Library(ctypes.CDLL):
    """A shared library without what only that of Linux has."""

    def __getattr__(self, name: str) -> Any:
        if name in SYMBOLS:
            raise AttributeError(f"dlsym(RTLD_DEFAULT, {name}): symbol not found")
        return super().__getattr__(name)


for module, beginnings in LINUX.items():
    for name in [one for one in vars(module) if one.startswith(beginnings)]:
        delattr(module, name)
for name in ("stat", "lstat", "readlink"):
    setattr(os, name, refusing(getattr(os, name)))
_setrlimit, resource.setrlimit = resource.setrlimit, set_limit
ctypes.CDLL = Library  # type: ignore[misc]
sys.addaudithook(refuse)
