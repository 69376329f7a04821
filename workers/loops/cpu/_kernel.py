"""Compiled kernels: run once, or timed."""

import contextlib
import ctypes
import math
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np

from aiocg.transport.messages import FailureCode
from aiocg.transport.system import processors
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import _device_lock as device_lock
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._target import Arrays, Timing, check_arrays
from aiocg.workers.loops.cpu._driver import BARRIER_BYTES, NAME
from aiocg.workers.loops.cpu._jit import Code

T = TypeVar("T")


class Team:
    """Threads that run functions simultaneously.

    Attributes:
        threads: the number of threads.
    """

    _pool: ThreadPoolExecutor
    _started: bool

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._renew()
        os.register_at_fork(after_in_child=self._renew)

    def together(self, call: Callable[[int], T], threads: int) -> list[T]:
        """Call a function with 0, 1, ... simultaneously, one call per thread, and return the results in that order.

        The calls may wait for each other; the threads do nothing else until all have returned.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if the system refuses a thread; nothing has been called
                then.
        """
        with self._busy:
            if threads > 1:
                self._start()
            return [one.result() for one in [self._pool.submit(call, number) for number in range(threads)]]

    def _start(self) -> None:
        """Start all threads, since a call whose partners are missing would wait forever."""
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
        """Start over in a forked process, which has none of its parent's threads."""
        self._started = False
        self._busy = threading.Lock()
        self._seats = iter(range(self.threads))
        self._pool = ThreadPoolExecutor(self.threads, "kernel", self._sit)

    def _sit(self) -> None:
        """Pin this thread to a core, if the system permits."""
        cores = processors()
        with contextlib.suppress(OSError, AttributeError):
            os.sched_setaffinity(0, {cores[next(self._seats) % len(cores)]})


NANO = 1e-9  # seconds
ENOUGH = 0.5  # fraction of one sample's time; a warm-up of this length shows how many runs fit
DEVICE = "cpu"

# Called through ctypes, which releases the GIL.
_DRIVE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class CpuKernel:
    """A computation compiled for the CPU.

    Attributes:
        source: the LLVM IR before optimisation.
        threads: the number of threads that run it.
    """

    def __init__(self, computation: Computation, code: Code, team: Team, threads: int) -> None:
        self.source = code.ir
        self.threads = threads
        self._computation = computation
        self._code = code  # keeps the function alive
        self._drive = _DRIVE(code.address(NAME))
        self._team = team

    def run(self, arrays: Arrays) -> None:
        """Run all stages once, in place: inputs are read, all other arrays are written."""
        check_arrays(self._computation, arrays)
        self._nanoseconds(arrays, 1)

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time; see `Kernel.time` in `aiocg.workers.loops._target`."""
        taken, runs = self.sample(arrays, samples=samples, seconds=seconds, deadline=deadline)
        low, median, high = (float(value) for value in np.percentile(taken, (25, 50, 75)))
        return Timing(median, low, high, len(taken), runs)

    def sample(
        self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf
    ) -> tuple[list[float], int]:
        """Return the samples that `time` summarises, in seconds, and the number of runs that each averages."""
        check_arrays(self._computation, arrays)
        with device_lock.held(DEVICE, deadline):
            runs, taken = self._warm_up(arrays, seconds / samples / NANO)
            if runs == 1 and NANO * taken >= seconds:
                return [NANO * taken], 1  # warming up took all the time
            fitting = max(1, min(samples, round(seconds / (NANO * taken * runs))))
            return [NANO * self._nanoseconds(arrays, runs) / runs for _ in range(fitting)], runs

    def _warm_up(self, arrays: Arrays, nanoseconds: float) -> tuple[int, float]:
        """Return how many runs fit into some time, at least 1, and how long one run takes."""
        runs = 1
        while True:
            taken = max(1, self._nanoseconds(arrays, runs))
            fitting = max(1, int(runs * nanoseconds / taken))
            if taken >= ENOUGH * nanoseconds:
                return fitting, taken / runs
            runs = min(fitting, 16 * runs)

    def _nanoseconds(self, arrays: Arrays, runs: int) -> int:
        """Run this many times; return the nanoseconds since all threads had started."""
        barrier = (ctypes.c_char * BARRIER_BYTES)()
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))

        def call(thread: int) -> int:
            return int(self._drive(ctypes.addressof(pointers), ctypes.addressof(barrier), thread, self.threads, runs))

        return self._team.together(call, self.threads)[0]
