"""Limits and signals of a worker process, and its end."""

import contextlib
import ctypes
import faulthandler
import os
import resource
import signal
import subprocess
from typing import Any

from aiocg.transport.system import UNKNOWN_LIMIT

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", lambda *_: None)  # Linux's


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; elsewhere than on Linux that is left to the janitor.

    Args:
        parent: process id of the parent; if the parent is already dead, this process exits at once.
    """
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be found and ended, where Linux runs."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children() -> set[int]:
    """Return the process ids of our children, zombies included; none if the kernel does not list them."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # a thread has just ended, or the kernel was built without CONFIG_PROC_CHILDREN
        for task in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{task}/children") as file:
                found.update(map(int, file.read().split()))
    return found


def limit_address_space(size: int) -> None:
    """Make allocations beyond `size` bytes of address space fail; 0 means no limit."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        with contextlib.suppress(*UNKNOWN_LIMIT):
            resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def disable_core_dumps() -> None:
    """Write no core dumps, because compilers crash often and a dump with libLLVM is large."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
)


def block_crash_signals() -> None:
    """Block crash signals in this thread and those that it starts, to be called before there are others.

    A crash signal then ends a worker only at a fault of its own: the kernel unblocks the signal at a fault, as `abort`
    does, but one that another process sends stays pending. Processes that the worker starts have them unblocked. Where
    Python's `faulthandler` is on, they are left to it, which could not report a fault otherwise.
    """
    if faulthandler.is_enabled():
        return
    for number in CRASH_SIGNALS:
        signal.signal(number, _do_nothing)  # for those that come while a process is started; ends with exec
    signal.pthread_sigmask(signal.SIG_BLOCK, CRASH_SIGNALS)
    subprocess.Popen = _Popen  # type: ignore[misc]  # also for sessions of others, and `subprocess.run`


class _Popen(subprocess.Popen[Any]):
    """A process that is started with the crash signals unblocked, as a process inherits what its parent blocks."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        before = signal.pthread_sigmask(signal.SIG_UNBLOCK, CRASH_SIGNALS)
        try:
            super().__init__(*arguments, **options)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _do_nothing(number: int, frame: object) -> None:
    pass
