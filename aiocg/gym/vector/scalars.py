"""Tells Gymnasium's vectors, and ours, that single numbers are put together as arrays. Importing this does it."""

import copy
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector.utils import (
    batch_space,
    concatenate,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)

from aiocg.spaces import Scalar

__all__ = ["batched"]


@batch_space.register(Scalar)
def batched(space: Scalar, n: int = 1) -> Box:
    """Return the space of arrays of so many numbers of a space."""
    assert space.dtype is not None
    truth = space.dtype.kind == "b"
    low = space.low if space.low is not None else 0 if truth else -np.inf
    high = space.high if space.high is not None else 1 if truth else np.inf
    return Box(low, high, (n,), space.dtype.type, seed=copy.deepcopy(space.np_random))


# To these it makes no difference what is known about a number.
_INDIFFERENT: tuple[Any, ...] = (
    concatenate,
    create_empty_array,
    create_shared_memory,
    read_from_shared_memory,
    write_to_shared_memory,
)
for _function in _INDIFFERENT:
    _function.register(Scalar, _function.dispatch(Discrete))
