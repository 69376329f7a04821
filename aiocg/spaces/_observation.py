"""Observation spaces: Gymnasium spaces from a worker's declarations, and spaces of single values."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt

from aiocg.transport.messages import ObservationSpec

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


# ------------------------------ Spaces of values that may have any length: text, bytes, arrays, lists of text, and JSON

SizeRange = tuple[int, int | None]
"""Shortest and longest length, inclusive; None is any."""

MORE = 32  # how much longer than the shortest a sample gets where there is no longest


class _Sized(Keyed[Any]):
    """A space of values with bounded length."""

    def __init__(self, size_range: SizeRange = (0, None)) -> None:
        shortest, longest = size_range
        if shortest < 0 or (longest is not None and longest < shortest):
            raise ValueError(f"a size range is (shortest, longest or None), and not negative; not {size_range}")
        self.size_range = (shortest, longest)
        super().__init__()

    def _fits(self, length: int) -> bool:
        shortest, longest = self.size_range
        return shortest <= length and (longest is None or length <= longest)

    def _draw_length(self) -> int:
        shortest, longest = self.size_range
        most = shortest + MORE if longest is None else min(longest, shortest + MORE)
        return int(self.np_random.integers(shortest, most, endpoint=True))

    def _key(self) -> tuple[Any, ...]:
        return (self.size_range,)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.size_range == (0, None) else self.size_range})"


class Text(_Sized):
    """Text, of any length or of one within bounds (in characters)."""

    def contains(self, x: Any) -> bool:
        """Is `x` a str of a length within the bounds?"""
        return isinstance(x, str) and self._fits(len(x))

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """Draw some lower-case letters."""
        return "".join(map(chr, self.np_random.integers(97, 123, size=self._draw_length())))


class Binary(_Sized):
    """Bytes, any number or one within bounds."""

    def contains(self, x: Any) -> bool:
        """Is `x` bytes, as many as the bounds allow?"""
        return isinstance(x, bytes) and self._fits(len(x))

    def sample(self, mask: Any = None, probability: Any = None) -> bytes:
        """Draw some bytes."""
        return self.np_random.bytes(self._draw_length())


class SpaceSequence(_Sized):
    """Lists of values of one space, of any length or of one within bounds.

    With a `Scalar` these are lists of numbers within a range. Gymnasium's own `Sequence` has no bounds on the length.

    Args:
        space: contains each element.
        size_range: the shortest and the longest length, inclusive; None is any.
    """

    def __init__(self, space: "gymnasium.Space[Any]", size_range: SizeRange = (0, None)) -> None:
        self.space = space
        super().__init__(size_range)

    def seed(self, seed: Any = None) -> Any:
        """Seed the lengths and the elements.

        Args:
            seed: an int for both, as `gymnasium.spaces.Sequence` takes it, or None for unpredictable samples.
        """
        seeded = super().seed(seed)
        return seeded, self.space.seed(None if seed is None else int(self.np_random.integers(2**31)))

    def contains(self, x: Any) -> bool:
        """Is `x` a list, a tuple or an array along whose first axis all are contained, within the bounds?"""
        if not isinstance(x, (list, tuple)) and not (isinstance(x, np.ndarray) and x.ndim):
            return False
        return self._fits(len(x)) and all(self.space.contains(element) for element in x)

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        """Draw a list."""
        return [self.space.sample() for _ in range(self._draw_length())]

    def _key(self) -> tuple[Any, ...]:
        return self.space, self.size_range

    def __hash__(self) -> int:
        return hash((type(self), self.size_range))  # not all spaces can be hashed

    __repr__ = Keyed.__repr__


class Texts(Keyed[list[str]]):
    """Any list of text, of any length."""

    def contains(self, x: Any) -> bool:
        """Is `x` a list or tuple of str?"""
        return isinstance(x, (list, tuple)) and all(isinstance(item, str) for item in x)

    def sample(self, mask: Any = None, probability: Any = None) -> list[str]:
        """Draw up to eight words."""
        lengths = self.np_random.integers(0, 12, size=int(self.np_random.integers(0, 9)))
        return ["".join(chr(c) for c in self.np_random.integers(97, 123, size=int(length))) for length in lengths]


class VariableArray(Keyed[npt.NDArray[Any]]):
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
        assert self.dtype is not None
        shape = [int(self.np_random.integers(0, 9)) if length == -1 else length for length in self.lengths]
        return draw(self.np_random, self.low, self.high, self.dtype, shape)

    def _key(self) -> tuple[Any, ...]:
        return self.low, self.high, self.lengths, self.dtype


class Json(Keyed[Any]):
    """Any JSON value."""

    def contains(self, x: Any) -> bool:
        """Is `x` None, a bool, a finite number, text, or a list or dict (with text as keys) of such?"""
        try:
            return _is_json(x)
        except RecursionError:  # too deep for whatever reads it
            return False

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an object with up to four numbers."""
        count = int(self.np_random.integers(0, 5))
        return {chr(97 + i): int(self.np_random.integers(0, 1000)) for i in range(count)}


def _is_json(x: Any) -> bool:
    if isinstance(x, (list, tuple)):
        return all(_is_json(item) for item in x)
    if isinstance(x, dict):
        return all(isinstance(key, str) and _is_json(value) for key, value in x.items())
    if isinstance(x, float):
        return math.isfinite(x)
    return x is None or isinstance(x, (bool, int, str))


# ---------------------------------------------------- Observation spaces: Gymnasium spaces from a worker's declarations


@dataclass(frozen=True, slots=True)
class ObservationSpace:
    """An observation, and what is known about its values.

    Most are computed by the worker. Those with `sources` are derived from other observations by the client; add your
    own with `Env.add_observation_space`.

    Attributes:
        name: of the space.
        space: a Gymnasium space that contains every value.
        deterministic: the same state always gives the same value.
        platform_dependent: the value depends on the machine.
        default: the value after an error.
        description: one line.
        keys: names of the elements, where they have names.
        sources: for a space that the client derives from others: their names.
        translate: computes a value from one of each source, in that order.
        prepare: prepares for `translate`, such as by a download; called in a thread before the first value is computed.
            Idempotent.
    """

    name: str
    space: "gymnasium.Space[Any]"
    deterministic: bool
    platform_dependent: bool
    default: Any
    description: str
    keys: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    translate: Callable[..., Any] | None = None
    prepare: Callable[[], object] | None = None

    @classmethod
    def from_spec(cls, spec: ObservationSpec) -> "ObservationSpace":
        """Make a space of what a worker declares.

        Raises:
            ValueError: if its type or bounds are wrong.
        """
        try:
            space, default = _declared(spec)
        except (TypeError, ValueError, OverflowError, AssertionError) as error:
            raise ValueError(f"the observation space {spec.name!r} is declared wrongly: {error}") from error
        default = default if spec.default is None else spec.default
        return cls(spec.name, space, spec.deterministic, spec.platform_dependent, default, spec.description, spec.keys)


def _declared(spec: ObservationSpec) -> "tuple[gymnasium.Space[Any], Any]":
    """Return the space of what is declared, and the default if none is declared: zeros, or an empty value."""
    match spec.kind:
        case "text":
            return Text(), ""
        case "texts":
            return Texts(), []
        case "binary":
            return Binary(), b""
        case "json":
            return Json(), None
        case "mapping":
            numbers: dict[str, gymnasium.Space[Any]] = {
                key: Scalar(spec.low, spec.high, spec.dtype) for key in spec.keys
            }
            return gymnasium.spaces.Dict(numbers), dict.fromkeys(spec.keys, 0)
        case "record":
            fields = {field.name: _declared(field) for field in spec.fields}
            spaces, defaults = ({name: pair[index] for name, pair in fields.items()} for index in (0, 1))
            return gymnasium.spaces.Dict(spaces), defaults
        case "array":
            zeros = np.zeros([max(length, 0) for length in spec.shape], spec.dtype)
            if -1 in spec.shape:
                return VariableArray(spec.low, spec.high, spec.shape, spec.dtype), zeros
            low, high = (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)
            return gymnasium.spaces.Box(low, high, spec.shape, zeros.dtype.type), zeros
        case _:
            return Scalar(spec.low, spec.high, spec.dtype), 0
