"""The threads that carry out kernels, each on a processor of its own as far as there are enough."""

import contextlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

__all__ = ["Team"]

T = TypeVar("T")


class Team:
    """Some threads that do everything together.

    Attributes:
        threads: how many.
    """

    _pool: ThreadPoolExecutor
    _started: bool

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def together(self, call: Callable[[int], T], threads: int) -> list[T]:
        """Call a function with 0, 1, ... in as many threads at once, and return the results in that order.

        The calls may wait for each other: nothing else is done by these threads until all have returned.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when the system refuses a thread; nothing was called then.
        """
        with self._busy:
            if threads > 1:
                self._start()
            return [one.result() for one in [self._pool.submit(call, number) for number in range(threads)]]

    def _start(self) -> None:
        """Have all threads: a call whose companion can never come would wait for it for ever."""
        if self._started:
            return
        go = threading.Event()
        try:
            for _ in range(self.threads):
                self._pool.submit(go.wait)
        except RuntimeError as error:
            raise CompilationError(
                FailureCode.OBSERVATION, f"{self.threads} threads cannot be started: {error}", reason="threads"
            ) from error
        finally:
            go.set()
        self._started = True

    def _renew(self) -> None:
        """Begin anew; a process that was forked off has none of its parent's threads."""
        self._started = False
        self._busy = threading.Lock()
        self._seats = iter(range(self.threads))
        self._pool = ThreadPoolExecutor(self.threads, "kernel", self._sit)

    def _sit(self) -> None:
        """Bind this thread to a processor, where the system lets it."""
        processors = sorted(os.sched_getaffinity(0))
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, {processors[next(self._seats) % len(processors)]})
