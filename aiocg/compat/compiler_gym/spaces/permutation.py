"""Permutations of a range of numbers."""

from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces.scalar import Scalar
from aiocg.compat.compiler_gym.spaces.sequence import Sequence

__all__ = ["Permutation"]


class Permutation(Sequence):
    """Every order of the numbers of a range.

    Args:
        name: of the space.
        scalar_range: the range; from 1 to 3 for `[1, 2, 3]`, `[2, 1, 3]` and so on.

    Raises:
        TypeError: when the range is not one of whole numbers.
    """

    def __init__(self, name: str, scalar_range: Scalar) -> None:
        if np.dtype(scalar_range.dtype).kind not in "iu":
            raise TypeError(f"permutations are of whole numbers, not of {scalar_range.dtype}")
        count = scalar_range.max - scalar_range.min + 1
        super().__init__(name=name, size_range=(count, count), dtype=scalar_range.dtype, scalar_range=scalar_range)

    def contains(self, x: Any) -> bool:
        """Is `x` every number of the range once?"""
        return super().contains(x) and len({int(number) for number in x}) == len(x)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a permutation, each with the same probability."""
        assert self.scalar_range is not None
        return self.np_random.permutation(self.size_range[0]) + self.scalar_range.min

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Permutation) and super().__eq__(other)

    def __hash__(self) -> int:
        return super().__hash__()
