"""The interface of back ends, which compile nests into kernels and time them."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._nest import Nest
from aiocg.workers.loops._rules import Rules
from aiocg.workers.loops._schedule import Layout, Schedule

Arrays = Sequence[NDArray[np.float32]]  # one for each of `Computation.tensors`, in that order


def check_arrays(computation: Computation, arrays: Arrays) -> None:
    """Check the arrays of a computation's tensors.

    Raises:
        ValueError: if one is not a contiguous array of `float32` of its tensor's shape.
    """
    for tensor, array in zip(computation.tensors, arrays, strict=True):
        if array.dtype != np.float32 or array.shape != tensor.shape or not array.flags.c_contiguous:
            raise ValueError(f"{tensor.name} must be a contiguous array of float32 of shape {tensor.shape}")


class Timing(NamedTuple):
    """The run time of a kernel.

    Attributes:
        seconds: the median of the samples.
        low, high: the first and third quartile.
        samples: the number of samples.
        runs: the number of runs that each sample averages.
    """

    seconds: float
    low: float
    high: float
    samples: int
    runs: int


class Roof(NamedTuple):
    """The measured roofline of a device.

    Attributes:
        flops: multiplications and additions of `float32` per second.
        bandwidths: pairs of a copy's working set in bytes and its bytes read and written per second, sorted by size;
            the rate drops beyond each cache.
    """

    flops: float
    bandwidths: tuple[tuple[int, float], ...]


class Kernel(Protocol):
    """A compiled computation.

    Attributes:
        source: the compiled code, for reading: LLVM IR, or CUDA C with the launches.
    """

    source: str

    def run(self, arrays: Arrays) -> None:
        """Run all stages once, in place: inputs are read, all other arrays are written."""

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time, holding the lock of the device.

        Args:
            arrays: as for `run`.
            samples: the number of samples, at least 1; fewer are taken if one run takes longer than its share.
            seconds: the approximate total time; each sample averages as many runs as fit.
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """


class Target(Protocol):
    """A device that runs kernels.

    Attributes:
        name: `cpu` or `cuda`.
        description: the device and its configuration, such as the model, the threads and the vector length.
        rules: what loops it can carry out.
    """

    name: str
    description: str
    rules: Rules

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> Kernel:
        """Compile a nest for each stage. Several threads may do so at once.

        Raises:
            CompilationError: with `FailureCode.ACTION` if the device cannot run these nests.
        """

    def templates(self, schedule: Schedule) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement of an initial schedule that are likely to be fast, the likeliest first."""

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return the roofline of the device; measuring it takes seconds the first time.

        Args:
            deadline: the time limit of waiting for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if others measure on the device until the deadline.
        """
