"""Spaces of orders that things can be put in."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = ["Permutation"]


class Permutation(gymnasium.Space[npt.NDArray[np.int64]]):
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permutation) and (self.size, self.start) == (other.size, other.start)

    def __hash__(self) -> int:
        return hash((self.size, self.start))

    def __repr__(self) -> str:
        return f"Permutation({self.size}, {self.start})"
