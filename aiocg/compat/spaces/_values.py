"""CompilerGym's value spaces. They have names, and spaces with different names are not equal."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from aiocg.compat.classic import _spaces as spaces
from aiocg.compat.classic._spaces import Space
from aiocg.spaces import Keyed
from aiocg.spaces import SpaceSequence as OwnSpaceSequence


def issubdtype(subtype: Any, supertype: Any) -> bool:
    """Return whether one type can represent every value of another exactly."""
    if isinstance(subtype, type) and isinstance(supertype, type) and issubclass(subtype, supertype):
        return True
    narrow, wide = np.dtype(subtype), np.dtype(supertype)
    if narrow == wide:
        return True
    if not np.issubdtype(np.result_type(narrow, wide), wide):
        return False
    if narrow.kind in "iu" and wide.kind == "f":  # NumPy considers int64 to float64 safe, but it loses digits
        return bool(np.iinfo(narrow).max <= 2 ** (np.finfo(wide).nmant + 1))
    return True


class Named:
    """A mixin that makes equality depend on the name; it comes first in the bases."""

    name: str

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Named) or not isinstance(self, type(other)) or self.name != other.name:
            return False
        return bool(super().__eq__(other))

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.name))


class Scalar(Keyed[Any]):
    """A single number or bool."""

    dtype: Any

    def __init__(self, name: str, min: Any = None, max: Any = None, dtype: Any = np.float64) -> None:
        super().__init__()
        self.name, self.min, self.max, self.dtype = name, min, max, dtype

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        least, most = 0 if self.min is None else self.min, 1 if self.max is None else self.max
        if np.dtype(self.dtype).kind in "iu":
            return self.dtype(self.np_random.integers(least, most, endpoint=True))
        return self.dtype(self.np_random.uniform(least, most))

    def contains(self, x: Any) -> bool:
        try:
            fits = issubdtype(type(x), self.dtype)
        except TypeError:  # it is not a number
            return False
        return bool(fits and (self.min is None or x >= self.min) and (self.max is None or x <= self.max))

    def _key(self) -> tuple[Any, ...]:
        return self.name, self.min, self.max, np.dtype(self.dtype)

    def __repr__(self) -> str:
        name = getattr(self.dtype, "__name__", str(self.dtype))
        if self.min is None and self.max is None:
            return name
        return f"{name}<{'-inf' if self.min is None else self.min},{'inf' if self.max is None else self.max}>"


class Sequence(Keyed[Any]):
    """Text, bytes, or sequences of elements of one type."""

    dtype: Any

    def __init__(
        self,
        name: str,
        size_range: tuple[int, int | None] = (0, None),
        dtype: Any = bytes,
        opaque_data_format: str | None = None,
        scalar_range: Scalar | None = None,
    ) -> None:
        super().__init__()
        self.name, self.size_range, self.dtype = name, size_range, dtype
        self.opaque_data_format, self.scalar_range = opaque_data_format, scalar_range

    def contains(self, x: Any) -> bool:
        shortest, longest = self.size_range
        try:
            length = len(x)
        except TypeError:
            return False
        if length < shortest or (longest is not None and length > longest):
            return False
        if self.dtype in (str, bytes):
            return isinstance(x, self.dtype)
        bounds = self.scalar_range or Scalar("", dtype=self.dtype)
        if np.dtype(self.dtype).kind in "iu" and all(type(element) is int for element in x):
            limits = np.iinfo(self.dtype)
            low = limits.min if bounds.min is None else bounds.min
            high = limits.max if bounds.max is None else bounds.max
            return all(low <= element <= high for element in x)
        if not hasattr(x, "dtype"):
            return all(bounds.contains(element) for element in x)
        low, high = (bounds.min is None or np.all(x >= bounds.min)), (bounds.max is None or np.all(x <= bounds.max))
        return bool(issubdtype(x.dtype, self.dtype) and low and high)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        raise NotImplementedError(f"the space {self.name} cannot be sampled")

    def _key(self) -> tuple[Any, ...]:
        dtype = np.dtype(self.dtype)
        return self.name, self.size_range, dtype, self.opaque_data_format, self.scalar_range

    def __repr__(self) -> str:
        shortest, longest = self.size_range
        name = getattr(self.dtype, "__name__", str(self.dtype))
        opaque = f" -> {self.opaque_data_format}" if self.opaque_data_format else ""
        return f"{name}_list<>[{int(shortest)},{'inf' if longest is None else longest}]){opaque}"


class SpaceSequence(Named, OwnSpaceSequence):
    """Lists of elements of one space."""

    def __init__(self, name: str, space: Space[Any], size_range: tuple[int, int | None] = (0, None)) -> None:
        super().__init__(space, size_range)
        self.name = name


class Permutation(Sequence):
    """The permutations of a range of integers."""

    def __init__(self, name: str, scalar_range: Scalar) -> None:
        kind = np.dtype(scalar_range.dtype)
        if kind.kind not in "iu":
            raise TypeError(f"a permutation is of integers, but {scalar_range.name!r} is a range of {kind}")
        if scalar_range.min is None or scalar_range.max is None or scalar_range.min > scalar_range.max:
            ends = f"from {scalar_range.min} to {scalar_range.max}"
            raise TypeError(f"a permutation is of a finite range, but {scalar_range.name!r} goes {ends}")
        count = scalar_range.max - scalar_range.min + 1
        super().__init__(name=name, size_range=(count, count), dtype=scalar_range.dtype, scalar_range=scalar_range)

    def contains(self, x: Any) -> bool:
        return super().contains(x) and len({int(number) for number in x}) == len(x)

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        assert self.scalar_range is not None
        return self.np_random.permutation(self.size_range[0]) + self.scalar_range.min


class Box(Named, spaces.Box):
    """Arrays within bounds."""

    def __init__(
        self, low: Any, high: Any, name: str, shape: Iterable[int] | None = None, dtype: Any = np.float32
    ) -> None:
        super().__init__(low=low, high=high, shape=None if shape is None else tuple(shape), dtype=dtype)
        self.name = name


class Dict(Named, spaces.Dict):
    """Dictionaries with values from other spaces."""

    def __init__(self, spaces: Any, name: str) -> None:
        super().__init__(spaces)
        self.name = name


class Discrete(Named, spaces.Discrete):
    """The integers from 0 to n - 1."""

    def __init__(self, n: int, name: str) -> None:
        super().__init__(n)
        self.name = name


class Tuple(Named, spaces.Tuple):
    """Tuples with elements from other spaces."""

    def __init__(self, spaces: Iterable[Any], name: str) -> None:
        super().__init__(spaces)
        self.name = name
