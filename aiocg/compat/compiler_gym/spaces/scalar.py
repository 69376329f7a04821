"""Single numbers."""

from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces.common import issubdtype
from aiocg.compat.gym.spaces import Space

__all__ = ["Scalar"]


class Scalar(Space[Any]):
    """A single number, or a truth value.

    Args:
        name: of the space.
        min, max: bounds, inclusive; None is unbounded.
        dtype: of the numbers: Python's or NumPy's type.
    """

    dtype: Any

    def __init__(self, name: str, min: Any = None, max: Any = None, dtype: Any = np.float64) -> None:
        super().__init__()
        self.name = name
        self.min = min
        self.max = max
        self.dtype = dtype

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a number, uniform within the bounds; those that there are not are taken for 0 and 1."""
        least = 0 if self.min is None else self.min
        most = 1 if self.max is None else self.max
        if np.dtype(self.dtype).kind in "iu":
            return self.dtype(self.np_random.integers(least, most, endpoint=True))
        return self.dtype(self.np_random.uniform(least, most))

    def contains(self, x: Any) -> bool:
        """Is `x` a number of that type within the bounds?"""
        try:
            fits = issubdtype(type(x), self.dtype)
        except TypeError:  # it is no number at all
            return False
        return bool(fits and (self.min is None or x >= self.min) and (self.max is None or x <= self.max))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Scalar):
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.min, self.max, np.dtype(self.dtype)

    def __repr__(self) -> str:
        name = getattr(self.dtype, "__name__", str(self.dtype))
        if self.min is None and self.max is None:
            return name
        return f"{name}<{'-inf' if self.min is None else self.min},{'inf' if self.max is None else self.max}>"
