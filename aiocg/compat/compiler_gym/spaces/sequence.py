"""Text, bytes, and lists of numbers of any length."""

from typing import Any

import numpy as np

from aiocg.compat.compiler_gym.spaces.common import issubdtype
from aiocg.compat.compiler_gym.spaces.scalar import Scalar
from aiocg.compat.gym.spaces import Space

__all__ = ["Sequence"]


class Sequence(Space[Any]):
    """Text, bytes, or sequences of one type of element.

    Args:
        name: of the space.
        size_range: the shortest and the longest length, inclusive; None is any.
        dtype: `str` or `bytes` for such, else the type of the elements.
        opaque_data_format: what the text or the bytes are, if they stand for something else.
        scalar_range: contains each element, if there are bounds.
    """

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
        self.name = name
        self.size_range = size_range
        self.dtype = dtype
        self.opaque_data_format = opaque_data_format
        self.scalar_range = scalar_range

    def contains(self, x: Any) -> bool:
        """Is `x` of that type, of a length within the bounds, and are all elements in their range?"""
        shortest, longest = self.size_range
        try:
            length = len(x)
        except TypeError:
            return False
        if length < shortest or (longest is not None and length > longest):
            return False
        if self.dtype in (str, bytes):
            return isinstance(x, self.dtype)
        if hasattr(x, "dtype"):
            if not issubdtype(x.dtype, self.dtype):
                return False
            return self._within(x)
        if self.scalar_range is not None:
            return all(self.scalar_range.contains(element) for element in x)
        return all(self._fits(element) for element in x)

    def _fits(self, element: Any) -> bool:
        try:
            return issubdtype(type(element), self.dtype)
        except TypeError:
            return False

    def _within(self, array: Any) -> bool:
        bounds = self.scalar_range
        if bounds is None:
            return True
        return bool(
            (bounds.min is None or np.all(array >= bounds.min)) and (bounds.max is None or np.all(array <= bounds.max))
        )

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Cannot be done.

        Raises:
            NotImplementedError: always; what is behind such a space, a program's text for one, cannot be drawn.
        """
        raise NotImplementedError(f"the space {self.name} cannot be sampled")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash((self.name, self.size_range))

    def _key(self) -> tuple[Any, ...]:
        dtype = np.dtype(self.dtype)
        return self.name, self.size_range, dtype, self.opaque_data_format, self.scalar_range

    def __repr__(self) -> str:
        shortest, longest = self.size_range
        name = getattr(self.dtype, "__name__", str(self.dtype))
        opaque = f" -> {self.opaque_data_format}" if self.opaque_data_format else ""
        return f"{name}_list<>[{int(shortest)},{'inf' if longest is None else longest}]){opaque}"
