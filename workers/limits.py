"""Limits of a worker process, and its end."""

import contextlib
import ctypes
import os
import resource
import signal

from aiocg.transport.system import UNKNOWN_LIMIT

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_prctl = getattr(ctypes.CDLL(None, use_errno=True), "prctl", None)  # Linux's


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; elsewhere than on Linux that is left to the janitor.

    Args:
        parent: process id of the parent; if the parent is already dead, this process exits at once.
    """
    if _prctl is not None:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, so that they can be found and ended, where Linux runs."""
    if _prctl is not None:
        _prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def limit_address_space(size: int) -> None:
    """Make allocations beyond `size` bytes of address space fail; 0 means no limit."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        with contextlib.suppress(*UNKNOWN_LIMIT):
            resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def disable_core_dumps() -> None:
    """Write no core dumps, because compilers crash often and a dump with libLLVM is large."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
