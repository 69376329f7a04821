"""Permutations as numbers."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["convert_number_to_permutation", "convert_permutation_to_number"]


def convert_number_to_permutation(n: int, permutation_size: int) -> npt.NDArray[Any]:
    """Return the n-th permutation of `range(permutation_size)`, int64 of that length, in an order of its own."""
    rest = list(range(permutation_size))
    result = np.zeros(permutation_size, dtype=np.int64)
    for place in range(permutation_size):
        n, chosen = divmod(n, len(rest))
        result[place] = rest[chosen]
        rest[chosen] = rest[-1]
        rest.pop()
    return result


def convert_permutation_to_number(permutation: Sequence[int]) -> int:
    """Return the number of a permutation: what `convert_number_to_permutation` undoes."""
    rest = list(range(len(permutation)))
    number, weight = 0, 1
    for element in permutation:
        chosen = rest.index(int(element))
        number += weight * chosen
        weight *= len(rest)
        rest[chosen] = rest[-1]
        rest.pop()
    return number
