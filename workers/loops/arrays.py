"""Arrays that begin where vectors do: one that crosses a line of the cache takes twice as long to read or write."""

import math

import numpy as np
from numpy.typing import NDArray

__all__ = ["aligned"]

ALIGNMENT = 64  # bytes: a line of the cache, and the longest vector


def aligned(shape: tuple[int, ...]) -> NDArray[np.float32]:
    """Return a new array of `float32`, in C order, with nothing particular in it."""
    size = 4 * math.prod(shape)
    room = np.empty(size + ALIGNMENT, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    return room[first : first + size].view(np.float32).reshape(shape)
