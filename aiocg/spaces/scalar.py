"""Spaces of single numbers."""

from typing import Any

import gymnasium
import numpy as np

__all__ = ["Scalar"]


class Scalar(gymnasium.Space[Any]):
    """A single number.

    Args:
        low, high: bounds, inclusive; None is unbounded.
        dtype: NumPy name of the number's type, such as `"int64"`.
    """

    def __init__(self, low: float | None, high: float | None, dtype: str) -> None:
        self.low = low
        self.high = high
        super().__init__((), np.dtype(dtype))

    @property
    def is_np_flattenable(self) -> bool:
        """A scalar is an array of one."""
        return True

    def contains(self, x: Any) -> bool:
        """Is `x` a number of the right kind within the bounds?"""
        assert self.dtype is not None
        kinds = (int, np.integer) if self.dtype.kind in "iu" else (int, float, np.number)
        if isinstance(x, bool) or not isinstance(x, kinds):
            return False
        return bool((self.low is None or x >= self.low) and (self.high is None or x <= self.high))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a number, uniform within the bounds or, where unbounded, within a million of the bound there is."""
        low = self.low if self.low is not None else (self.high or 0) - 1_000_000
        high = self.high if self.high is not None else low + 1_000_000
        assert self.dtype is not None
        if self.dtype.kind in "iu":
            return int(self.np_random.integers(int(low), int(high), endpoint=True))
        return float(self.np_random.uniform(low, high))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and (self.low, self.high, self.dtype) == (other.low, other.high, other.dtype)

    def __hash__(self) -> int:
        return hash((self.low, self.high, str(self.dtype)))

    def __repr__(self) -> str:
        return f"Scalar({self.low}, {self.high}, {self.dtype})"
