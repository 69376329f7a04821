"""Arrays within bounds."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces.named import Named
from aiocg.compat.gym import spaces

__all__ = ["Box"]


class Box(Named, spaces.Box):
    """Arrays within bounds.

    Args:
        low, high: bounds, inclusive: numbers, or arrays of the shape.
        name: of the space.
        shape: of the arrays, if the bounds are numbers.
        dtype: of the arrays.
    """

    def __init__(
        self, low: Any, high: Any, name: str, shape: Iterable[int] | None = None, dtype: Any = np.float32
    ) -> None:
        super().__init__(low=low, high=high, shape=None if shape is None else tuple(shape), dtype=dtype)
        self.name = name
