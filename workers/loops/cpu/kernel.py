"""Compiled kernels: run once, or timed."""

import ctypes
import math

import numpy as np

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import device_lock
from aiocg.workers.loops.cpu.driver import BARRIER_BYTES, NAME
from aiocg.workers.loops.cpu.jit import Code
from aiocg.workers.loops.cpu.team import Team
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.target import Arrays, Timing

__all__ = ["CpuKernel"]

NANO = 1e-9  # seconds
ENOUGH = 0.5  # of the time for one sample: a warm-up of so long says how many runs fit
DEVICE = "cpu"

# Called through ctypes, which releases the interpreter's lock.
_DRIVE = ctypes.CFUNCTYPE(
    ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64
)


class CpuKernel:
    """A computation compiled for the processor.

    Attributes:
        source: the LLVM IR that was compiled, before optimisation.
        threads: how many carry it out.
    """

    def __init__(self, computation: Computation, code: Code, team: Team, threads: int) -> None:
        self.source = code.ir
        self.threads = threads
        self._computation = computation
        self._code = code  # keeps the function alive
        self._drive = _DRIVE(code.address(NAME))
        self._team = team

    def run(self, arrays: Arrays) -> None:
        """Carry out all stages once, in place: inputs are read, the other arrays are written whole."""
        self._check(arrays)
        self._nanoseconds(arrays, 1)

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time; nothing else that this library measures runs on the processor meanwhile.

        Args:
            arrays: as for `run`.
            samples: how many to take, at least 1; they become fewer when one run takes longer than its share.
            seconds: about how long to measure in all; each sample is of as many runs as fit.
            deadline: until when to wait for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when others measure on the device until the deadline.
        """
        taken, runs = self.sample(arrays, samples=samples, seconds=seconds, deadline=deadline)
        low, median, high = (float(value) for value in np.percentile(taken, (25, 50, 75)))
        return Timing(median, low, high, len(taken), runs)

    def sample(
        self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf
    ) -> tuple[list[float], int]:
        """Return the samples that `time` sums up, in seconds, and of how many runs each is the mean."""
        self._check(arrays)
        try:
            with device_lock.held(DEVICE, deadline):
                runs, taken = self._warm_up(arrays, seconds / samples / NANO)
                if runs == 1 and NANO * taken >= seconds:
                    return [NANO * taken], 1  # all the time there is has gone into warming up
                fitting = max(1, min(samples, round(seconds / (NANO * taken * runs))))
                return [NANO * self._nanoseconds(arrays, runs) / runs for _ in range(fitting)], runs
        except device_lock.DeviceBusyError as error:
            raise CompilationError(FailureCode.OBSERVATION, str(error)) from error

    def _warm_up(self, arrays: Arrays, nanoseconds: float) -> tuple[int, float]:
        """Return how many runs fit into some time, at least 1, and how long one takes."""
        runs = 1
        while True:
            taken = max(1, self._nanoseconds(arrays, runs))
            fitting = max(1, int(runs * nanoseconds / taken))
            if taken >= ENOUGH * nanoseconds:
                return fitting, taken / runs
            runs = min(fitting, 16 * runs)

    def _nanoseconds(self, arrays: Arrays, runs: int) -> int:
        """Run so often, and return how long it took from when all threads were there."""
        barrier = (ctypes.c_char * BARRIER_BYTES)()
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))

        def call(thread: int) -> int:
            return int(self._drive(ctypes.addressof(pointers), ctypes.addressof(barrier), thread, self.threads, runs))

        return self._team.together(call, self.threads)[0]

    def _check(self, arrays: Arrays) -> None:
        for tensor, array in zip(self._computation.tensors, arrays, strict=True):
            if array.dtype != np.float32 or array.shape != tensor.shape or not array.flags.c_contiguous:
                raise ValueError(f"{tensor.name} must be a contiguous array of float32 of shape {tensor.shape}")
