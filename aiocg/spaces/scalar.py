"""Spaces of single values: numbers, and nothing."""

from collections.abc import Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt

T = TypeVar("T")

_TYPES: dict[str, tuple[type, ...]] = {
    "b": (bool, np.bool_),
    "i": (int, np.integer),
    "u": (int, np.integer),
    "f": (int, float, np.integer, np.floating),
}


class Keyed(gymnasium.Space[T]):
    """A space that equals those of its type with the same key, and is shown by it."""

    def _key(self) -> tuple[Any, ...]:
        return ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Keyed) and type(other) is type(self) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash((type(self), *self._key()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(str, self._key()))})"


class Scalar(Keyed[Any]):
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

    def _key(self) -> tuple[Any, ...]:
        return self.low, self.high, self.dtype


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


class NoObservation(Keyed[None]):
    """The observation space of an environment that observes nothing by default; its one element is None."""

    def __init__(self) -> None:
        super().__init__(None, None)

    @property
    def is_np_flattenable(self) -> bool:
        """There is nothing to flatten."""
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> None:
        """Return None."""

    def contains(self, x: Any) -> bool:
        """Is `x` None?"""
        return x is None
