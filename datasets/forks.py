"""A lock for what a fork of the process may inherit while another thread holds it."""

import os
import threading

__all__ = ["ForkedLock"]


class ForkedLock:
    """A lock that is free in a fork of the process, where the thread that held it does not exist.

    What it protects must be usable as that thread has left it: whoever begins a computation there begins it again. The
    one who asks first in the fork is given a new lock, so that this costs nothing where nobody forks.
    """

    __slots__ = ("_forks", "_lock")

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
