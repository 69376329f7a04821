"""Spaces of values that may have any length: text, bytes, arrays, lists of text, and JSON."""

from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt

__all__ = ["Binary", "Json", "Text", "Texts", "VariableArray"]


class Text(gymnasium.Space[str]):
    """Any text, of any length."""

    def contains(self, x: Any) -> bool:
        """Is `x` a str?"""
        return isinstance(x, str)

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw some lower-case letters."""
        return "".join(chr(c) for c in self.np_random.integers(97, 123, size=int(self.np_random.integers(0, 40))))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text)

    def __hash__(self) -> int:
        return hash(Text)

    def __repr__(self) -> str:
        return "Text()"


class Binary(gymnasium.Space[bytes]):
    """Any bytes, of any length."""

    def contains(self, x: Any) -> bool:
        """Is `x` bytes?"""
        return isinstance(x, bytes)

    def sample(self, mask: Any = None, probability: Any = None) -> bytes:
        """Draw some bytes."""
        return self.np_random.bytes(int(self.np_random.integers(0, 40)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binary)

    def __hash__(self) -> int:
        return hash(Binary)

    def __repr__(self) -> str:
        return "Binary()"


class Texts(gymnasium.Space[list[str]]):
    """Any list of text, of any length."""

    def contains(self, x: Any) -> bool:
        """Is `x` a list or tuple of str?"""
        return isinstance(x, (list, tuple)) and all(isinstance(item, str) for item in x)

    def sample(self, mask: Any = None, probability: Any = None) -> list[str]:
        """Draw up to eight words."""
        lengths = self.np_random.integers(0, 12, size=int(self.np_random.integers(0, 9)))
        return ["".join(chr(c) for c in self.np_random.integers(97, 123, size=int(length))) for length in lengths]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Texts)

    def __hash__(self) -> int:
        return hash(Texts)

    def __repr__(self) -> str:
        return "Texts()"


class VariableArray(gymnasium.Space[npt.NDArray[Any]]):
    """Arrays of one dtype whose shape is fixed except for the lengths given as -1.

    Args:
        low, high: bounds of the elements, inclusive; None is unbounded.
        shape: such as `(-1,)` or `(-1, 200)`.
        dtype: NumPy name of the elements' type.
    """

    def __init__(self, low: float | None, high: float | None, shape: Sequence[int], dtype: str) -> None:
        self.low = low
        self.high = high
        self.lengths = tuple(shape)
        super().__init__(None, np.dtype(dtype))

    def contains(self, x: Any) -> bool:
        """Is `x` an array of that dtype and shape within the bounds?"""
        if not isinstance(x, np.ndarray) or x.dtype != self.dtype or x.ndim != len(self.lengths):
            return False
        if any(length not in (-1, there) for length, there in zip(self.lengths, x.shape, strict=True)):
            return False
        return bool((self.low is None or (x >= self.low).all()) and (self.high is None or (x <= self.high).all()))

    def sample(self, mask: Any = None, probability: Any = None) -> npt.NDArray[Any]:
        """Draw an array with up to eight elements along each variable axis."""
        shape = [int(self.np_random.integers(0, 9)) if length == -1 else length for length in self.lengths]
        low = self.low if self.low is not None else (self.high or 0) - 1000
        high = self.high if self.high is not None else low + 1000
        assert self.dtype is not None
        if self.dtype.kind in "iu":
            return self.np_random.integers(int(low), int(high), size=shape, endpoint=True).astype(self.dtype)
        return self.np_random.uniform(low, high, size=shape).astype(self.dtype)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, VariableArray) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.low, self.high, self.lengths, str(self.dtype)

    def __repr__(self) -> str:
        return f"VariableArray({self.low}, {self.high}, {self.lengths}, {self.dtype})"


class Json(gymnasium.Space[Any]):
    """Anything that JSON can say."""

    def contains(self, x: Any) -> bool:
        """Is `x` None, a bool, a number, text, or a list or dict (with text as keys) of such?"""
        if isinstance(x, (list, tuple)):
            return all(self.contains(item) for item in x)
        if isinstance(x, dict):
            return all(isinstance(key, str) and self.contains(value) for key, value in x.items())
        return x is None or isinstance(x, (bool, int, float, str))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an object with up to four numbers."""
        count = int(self.np_random.integers(0, 5))
        return {chr(97 + i): int(self.np_random.integers(0, 1000)) for i in range(count)}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Json)

    def __hash__(self) -> int:
        return hash(Json)

    def __repr__(self) -> str:
        return "Json()"
