"""What a worker process may use, and when it must go."""

import ctypes
import os
import resource
import signal

_PR_SET_PDEATHSIG = 1


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent dies.

    Args:
        parent: process id of the parent. If it is gone already, the process exits at once.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def limit_address_space(size: int) -> None:
    """Let allocations beyond `size` bytes of address space fail, instead of the machine; 0 is no limit."""
    if size:
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def disable_core_dumps() -> None:
    """Compilers crash often here, and a dump of libLLVM's address space is large."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
