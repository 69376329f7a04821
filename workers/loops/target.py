"""What a back end is: it makes kernels of nests, which run and are timed."""

import math
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.nest import Nest

__all__ = ["Arrays", "Kernel", "Roof", "Target", "Timing"]

Arrays = Sequence[NDArray[np.float32]]  # one for each of `Computation.tensors`, in that order


class Timing(NamedTuple):
    """How long one run of a kernel took.

    Attributes:
        seconds: the median of the samples.
        low, high: their first and third quartile.
        samples: how many there were.
        runs: how many runs of the kernel each sample is the mean of.
    """

    seconds: float
    low: float
    high: float
    samples: int
    runs: int


class Roof(NamedTuple):
    """What a device can do at most, as measured.

    Attributes:
        flops: multiplications and additions of `float32` a second.
        bandwidths: bytes a second that a copy moves, read and written, with the size of what it works on in bytes, by
            size; it falls where a cache ends.
    """

    flops: float
    bandwidths: tuple[tuple[int, float], ...]


class Kernel(Protocol):
    """A compiled computation.

    Attributes:
        source: what was compiled, for people to read: LLVM IR, or CUDA C with the launches.
    """

    source: str

    def run(self, arrays: Arrays) -> None:
        """Carry out all stages once, in place: inputs are read, the other arrays are written whole."""

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        """Warm up, then time; nothing else that this library measures runs on the device meanwhile.

        Args:
            arrays: as for `run`.
            samples: how many to take, at least 1; they become fewer when one run takes longer than its share.
            seconds: about how long to measure in all; each sample is of as many runs as fit.
            deadline: until when to wait for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when others measure on the device until the deadline.
        """


class Target(Protocol):
    """A device that kernels are made for.

    Attributes:
        name: `cpu` or `cuda`.
        description: which one it is and how it is used, such as the model, its threads and the vectors' length.
    """

    name: str
    description: str

    def compile(self, computation: Computation, nests: Sequence[Nest]) -> Kernel:
        """Compile a nest for each stage. Several threads may do so at once.

        Raises:
            CompilationError: with `FailureCode.ACTION` when the device cannot carry out these nests.
        """

    def roof(self, deadline: float = math.inf) -> Roof:
        """Return what the device can do, which takes seconds when it was not measured before.

        Args:
            deadline: until when to wait for the device, in seconds of the monotonic clock.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when others measure on the device until the deadline.
        """
