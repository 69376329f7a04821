"""The arithmetic of views: indices, pseudo-random permutations, shares and draws."""

import bisect
import hashlib
import math
import operator
import random
import struct
from array import array
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

LARGEST = 1 << 63  # beyond it `len` fails
FEW = 128  # numbers
ROUNDS = 5  # of two steps each; with 4 the tests find nothing amiss
ROUNDS_OF_FEW = 12  # the fewer places there are, the less a step changes

_MASK = (1 << 64) - 1


class Permutation:
    """A pseudo-random permutation of the numbers below a size, in constant memory.

    Args:
        size: how many numbers, at most 2**63 - 1.
        seed: any whole number.
        name: of what is permuted. Permutations of different sizes, seeds or names are unrelated.
    """

    __slots__ = ("_columns", "_keys", "_rows", "_size")

    def __init__(self, size: int, seed: int, name: str = "") -> None:
        if not 0 <= size < LARGEST:
            raise ValueError(f"a permutation has from 0 to 2**63 - 1 numbers, not {size}")
        self._size = size
        self._rows = max(2, 2 * math.ceil(math.isqrt(size) / 2))
        self._columns = -(-size // self._rows)
        rounds = ROUNDS if size >= FEW else ROUNDS_OF_FEW
        secret = hashlib.shake_128(f"{size} {operator.index(seed)} {name}".encode()).digest(16 * rounds)
        self._keys = tuple(struct.iter_unpack("<QQ", secret))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: int) -> int:
        """Return the number at a place.

        Raises:
            IndexError: when there is no such place; places are not counted from the end.
        """
        self._check(place)
        while True:
            row, column = divmod(place, self._columns)
            for stir_row, stir_column in self._keys:
                row = (row + _mix(column ^ stir_row)) % self._rows
                column = (column + _mix(row ^ stir_column)) % self._columns
            place = row * self._columns + column
            if place < self._size:
                return place

    def index(self, number: int) -> int:
        """Return the place of a number.

        Raises:
            IndexError: when it is not below the size.
        """
        self._check(number)
        while True:
            row, column = divmod(number, self._columns)
            for stir_row, stir_column in reversed(self._keys):
                column = (column - _mix(row ^ stir_column)) % self._columns
                row = (row - _mix(column ^ stir_row)) % self._rows
            number = row * self._columns + column
            if number < self._size:
                return number

    def __iter__(self) -> Iterator[int]:
        return map(self.__getitem__, range(self._size))

    def _check(self, number: int) -> None:
        if not 0 <= number < self._size:
            raise IndexError(f"{number} is not from 0 to {self._size - 1}")


def _mix(value: int) -> int:
    """Scatter the bits of a number: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014)."""
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31


class _NumpyGenerator(Protocol):
    """The methods used of `numpy.random.Generator`."""

    def integers(self, low: Any, /) -> Any:
        """Draw an integer from 0 up to, not including, `low`."""

    def random(self) -> Any:
        """Draw a float from [0, 1)."""


RandomGenerator = random.Random | _NumpyGenerator


def random_index(rng: RandomGenerator | None, size: int) -> int:
    """Draw an index below `size`; with no generator, one seeded by the operating system."""
    if rng is None:
        return random.randrange(size)
    return rng.randrange(size) if isinstance(rng, random.Random) else int(rng.integers(size))


def random_fraction(rng: RandomGenerator | None) -> float:
    """Draw a float from [0, 1)."""
    return random.random() if rng is None else float(rng.random())


Places: TypeAlias = "range | Permutation | array[int]"  # arrays take no brackets before Python 3.12
"""The numbers of benchmarks, in order; those of an array ascend."""


def index_of(number: int, places: Places) -> int | None:
    """Return where a number is, None if it is not there."""
    if isinstance(places, array):
        index = bisect.bisect_left(places, number)
        return index if index < len(places) and places[index] == number else None
    if isinstance(places, range):
        return places.index(number) if number in places else None
    return places.index(number) if number < len(places) else None


def parts(total: int, shares: Mapping[str, float]) -> Iterator[tuple[str, slice]]:
    """Divide a number of places by shares, in order; each part is less than one away from its exact share.

    The remainder of rounding down goes to those that lost most.
    """
    exact = [Fraction(str(share)) for share in shares.values()]  # 0.1 is meant, not the nearest sum of powers of two
    quotas = [total * share / sum(exact) for share in exact]
    sizes = [math.floor(quota) for quota in quotas]
    by_loss = sorted(range(len(quotas)), key=lambda index: sizes[index] - quotas[index])
    for index in by_loss[: total - sum(sizes)]:
        sizes[index] += 1
    start = 0
    for name, size in zip(shares, sizes, strict=True):
        yield name, slice(start, start + size)
        start += size
