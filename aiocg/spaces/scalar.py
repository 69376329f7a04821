"""Spaces of single values: numbers, nothing, and permutations."""

import math
import operator
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


class Permutation(Keyed[npt.NDArray[np.int64]]):
    """The permutations of `size` consecutive numbers, which are numbered from 0 to `count` - 1.

    The numbering is CompilerGym's: its digits, in the mixed radix `size`, `size` - 1, ..., 1 with the least significant
    first, say which of the numbers that are left comes next, and the last of those takes its place.

    Args:
        size: how many numbers.
        start: the smallest of them.
    """

    def __init__(self, size: int, start: int = 0) -> None:
        if size < 0:
            raise ValueError(f"the size of a permutation is 0 or more, not {size}")
        self.size = size
        self.start = start
        super().__init__((size,), np.int64)

    @property
    def count(self) -> int:
        """How many permutations there are."""
        return math.factorial(self.size)

    @property
    def is_np_flattenable(self) -> bool:
        """A permutation is an array of numbers."""
        return True

    def contains(self, x: Any) -> bool:
        """Is `x` a list, tuple or array of ints that has each number once?"""
        if not isinstance(x, (list, tuple)) and not (isinstance(x, np.ndarray) and x.ndim == 1):
            return False
        if any(isinstance(item, (bool, np.bool_)) or not isinstance(item, (int, np.integer)) for item in x):
            return False
        return len(x) == self.size and set(map(int, x)) == set(range(self.start, self.start + self.size))

    def sample(self, mask: Any = None, probability: Any = None) -> npt.NDArray[np.int64]:
        """Draw a permutation: int64 of shape `(size,)`."""
        return self.np_random.permutation(self.size).astype(np.int64) + self.start

    def number(self, permutation: Sequence[int]) -> int:
        """Return the number of a permutation.

        Raises:
            ValueError: when it is not one of this space.
        """
        if not self.contains(permutation):
            raise ValueError(f"{permutation!r} does not have each of {self.size} numbers from {self.start} on once")
        left = list(range(self.size))
        places = list(range(self.size))  # where in `left` each number is
        number, weight = 0, 1
        for item in permutation:
            place = places[int(item) - self.start]
            number += place * weight
            weight *= len(left)
            last = left.pop()
            if place < len(left):
                left[place], places[last] = last, place
        return number

    def permutation(self, number: int) -> npt.NDArray[np.int64]:
        """Return the permutation with a number: int64 of shape `(size,)`.

        Raises:
            ValueError: when there is none with it.
        """
        rest = operator.index(number)
        if not 0 <= rest < self.count:
            raise ValueError(f"{number} is not the number of a permutation of {self.size}")
        left = list(range(self.size))
        items = []
        while left:
            rest, place = divmod(rest, len(left))
            items.append(left[place] + self.start)
            last = left.pop()
            if place < len(left):
                left[place] = last
        return np.array(items, np.int64)

    def _key(self) -> tuple[Any, ...]:
        return self.size, self.start
