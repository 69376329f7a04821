"""Spaces of single numbers."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = ["Scalar", "draw"]

_TYPES: dict[str, tuple[type, ...]] = {
    "b": (bool, np.bool_),
    "i": (int, np.integer),
    "u": (int, np.integer),
    "f": (int, float, np.integer, np.floating),
}


class Scalar(gymnasium.Space[Any]):
    """A single number, or a truth value.

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
        if not isinstance(x, _TYPES[self.dtype.kind]) or (isinstance(x, bool) and self.dtype.kind != "b"):
            return False
        value: Any = x
        return bool((self.low is None or value >= self.low) and (self.high is None or value <= self.high))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a number, uniform within the bounds or, where unbounded, within a million of the bound there is."""
        assert self.dtype is not None
        return draw(self.np_random, self.low, self.high, self.dtype, ()).item()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and (self.low, self.high, self.dtype) == (other.low, other.high, other.dtype)

    def __hash__(self) -> int:
        return hash((self.low, self.high, str(self.dtype)))

    def __repr__(self) -> str:
        return f"Scalar({self.low}, {self.high}, {self.dtype})"


def draw(
    rng: np.random.Generator, low: float | None, high: float | None, dtype: "np.dtype[Any]", shape: Sequence[int]
) -> npt.NDArray[Any]:
    """Draw an array of numbers, uniform within bounds or, where unbounded, within a million of the bound there is."""
    if dtype.kind == "b":
        return rng.integers(0, 2, size=shape).astype(dtype)
    least = low if low is not None else (high or 0) - 1_000_000
    most = high if high is not None else least + 1_000_000
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        least, most = max(int(np.ceil(least)), limits.min), min(int(np.floor(most)), limits.max)
        return np.asarray(rng.integers(least, most, size=shape, dtype=dtype, endpoint=True))
    drawn = np.asarray(rng.uniform(least, most, size=shape)).astype(dtype)
    # A number of fewer digits may have been rounded over a bound.
    wide = drawn.astype(np.float64)
    drawn = np.where(wide < least, np.nextafter(drawn, dtype.type(np.inf)), drawn)
    return np.where(wide > most, np.nextafter(drawn, dtype.type(-np.inf)), drawn)
