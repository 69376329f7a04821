"""A crash signal ends a worker only at a fault of its own: one that somebody sends to it has no effect.

The signals are blocked. At a fault the kernel unblocks the signal and kills, and `abort` does the same, but a signal
that is sent stays pending. What a worker starts has them unblocked, as programs may send such a signal to themselves.
"""

import faulthandler
import signal
import subprocess
from typing import Any

CRASH_SIGNALS = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
)


def block_crash_signals() -> None:
    """Block them in this thread and those that it starts, to be called before there are others.

    Where Python's `faulthandler` is on, they are left to it, which could not report a fault otherwise.
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
