"""A random order of any number of things that is computed place by place, never written down.

The numbers below n are laid out in a rectangle of an even number of rows. A Feistel network stirs it: in turn the row
moves by an amount that depends on the column, then the column by one that depends on the row. Each such step can be
undone, so the whole is a permutation of the rectangle. Where it leads to one of the few places beyond n, it is applied
again until it does not, which makes it a permutation of the numbers below n (Black and Rogaway, "Ciphers with arbitrary
finite domains", 2002). An odd number of rows and columns would leave half of the permutations out: the even ones only.

Everything is arithmetic on whole numbers, so the order is the same on every machine, and the tests pin it down.
"""

import hashlib
import math
import operator
import struct
from collections.abc import Iterator

__all__ = ["Permutation"]

LARGEST = 1 << 63  # beyond it `len` fails
FEW = 128  # numbers
ROUNDS = 5  # of two steps each; with 4 the tests find nothing amiss
ROUNDS_OF_FEW = 12  # the fewer places there are, the less a step changes

_MASK = (1 << 64) - 1


class Permutation:
    """The numbers below a size in an order that the seed decides: a sequence in constant memory.

    Args:
        size: how many numbers, at most 2**63 - 1.
        seed: any whole number.
        name: what it is an order of. Orders of different sizes, seeds or names have nothing to do with each other.
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
