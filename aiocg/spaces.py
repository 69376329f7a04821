"""Action and observation spaces, as Gymnasium spaces made from what a worker declares."""

import copy
import operator
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.transport.messages import ActionSpaceSpec, ObservationSpec

__all__ = ["ActionSpace", "Binary", "ObservationSpace", "Scalar", "Text"]


class Scalar(gymnasium.Space[Any]):
    """A single number.

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
        kinds = (int, np.integer) if self.dtype.kind in "iu" else (int, float, np.number)
        if isinstance(x, bool) or not isinstance(x, kinds):
            return False
        return bool((self.low is None or x >= self.low) and (self.high is None or x <= self.high))

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a number, uniform within the bounds or, where unbounded, within a million of the bound there is."""
        low = self.low if self.low is not None else (self.high or 0) - 1_000_000
        high = self.high if self.high is not None else low + 1_000_000
        assert self.dtype is not None
        if self.dtype.kind in "iu":
            return int(self.np_random.integers(int(low), int(high), endpoint=True))
        return float(self.np_random.uniform(low, high))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scalar) and (self.low, self.high, self.dtype) == (other.low, other.high, other.dtype)

    def __hash__(self) -> int:
        return hash((self.low, self.high, str(self.dtype)))

    def __repr__(self) -> str:
        return f"Scalar({self.low}, {self.high}, {self.dtype})"


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


class ActionSpace(gymnasium.spaces.Discrete):
    """A discrete space whose actions have names.

    Attributes:
        name: of the space.
        names: the actions' names; an action is an index into them.
        descriptions: one line for each.
    """

    def __init__(self, spec: ActionSpaceSpec) -> None:
        super().__init__(len(spec.actions))
        self.name = spec.name
        self.names = tuple(action.name for action in spec.actions)
        self.descriptions = tuple(action.description for action in spec.actions)
        self._indices = {alias: i for i, action in enumerate(spec.actions) for alias in action.aliases}
        self._indices |= {name: i for i, name in enumerate(self.names)}

    def unseeded(self) -> Self:
        """Return a space with the same actions and a random stream of its own."""
        space = copy.copy(self)
        space._np_random = None  # type: ignore[assignment]  # Gymnasium makes it on first use
        return space

    def index(self, action: Any) -> int:
        """Return the index of an action given by index or by name.

        Raises:
            UnknownName: when no action has the name.
            InvalidAction: when the index is out of range, or the action is neither a name nor an index.
        """
        if isinstance(action, str):
            try:
                return self._indices[action]
            except KeyError:
                raise UnknownName("action", action, self._indices) from None
        try:
            index = operator.index(action)
        except TypeError:
            raise InvalidAction(f"an action is an index or a name, not {type(action).__name__}: {action!r}") from None
        if isinstance(action, bool) or not 0 <= index < self.n:
            raise InvalidAction(f"action {action!r} is not in the range 0 to {self.n - 1}")
        return int(index)

    def indices(self, actions: Any) -> tuple[int, ...]:
        """Return the indices of one action, or of several in a list or tuple."""
        if type(actions) is int and 0 <= actions < len(self.names):  # most calls by far, and `n` is one of NumPy's
            return (actions,)
        if isinstance(actions, str) or not isinstance(actions, Iterable):
            return (self.index(actions),)
        if isinstance(actions, np.ndarray) and actions.ndim == 0:
            return (self.index(actions[()]),)
        return tuple([self.index(action) for action in actions])

    def to_string(self, actions: Iterable[Any]) -> str:
        """Return actions as a comma-separated list of names."""
        return ",".join(self.names[self.index(action)] for action in actions)

    def from_string(self, text: str) -> list[int]:
        """Return the indices of a comma-separated list of names, as `to_string` writes it."""
        return [self.index(name) for name in _split_pipeline(text)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __repr__(self) -> str:
        return f"ActionSpace({self.name!r}, {self.n} actions)"


def _split_pipeline(text: str) -> list[str]:
    """Split at the commas that are outside of `<...>` and `(...)`."""
    names, depth, start = [], 0, 0
    for position, character in enumerate(text + ","):
        if character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        elif character == "," and depth <= 0:
            names.append(text[start:position].strip())
            start = position + 1
    return [name for name in names if name]


@dataclass(frozen=True, slots=True)
class ObservationSpace:
    """What can be observed, and what is known about its values.

    Attributes:
        name: of the space.
        space: a Gymnasium space that contains every value.
        deterministic: the same state always gives the same value.
        platform_dependent: the value depends on the machine.
        default: what an observation is after an error.
        description: one line.
        keys: names of the elements, where they have names.
    """

    name: str
    space: "gymnasium.Space[Any]"
    deterministic: bool
    platform_dependent: bool
    default: Any
    description: str
    keys: tuple[str, ...] = ()

    @classmethod
    def from_spec(cls, spec: ObservationSpec) -> "ObservationSpace":
        """Make a space of what a worker declares."""
        space = _gymnasium_space(spec)
        default = spec.default if spec.default is not None else _default(spec)
        return cls(spec.name, space, spec.deterministic, spec.platform_dependent, default, spec.description, spec.keys)


def _gymnasium_space(spec: ObservationSpec) -> "gymnasium.Space[Any]":
    if spec.kind == "text":
        return Text()
    if spec.kind == "binary":
        return Binary()
    if spec.kind == "mapping":
        return gymnasium.spaces.Dict({key: Scalar(spec.low, spec.high, spec.dtype) for key in spec.keys})
    if spec.kind == "array":
        low, high = _array_bounds(spec)
        return gymnasium.spaces.Box(low, high, spec.shape, np.dtype(spec.dtype).type)
    return Scalar(spec.low, spec.high, spec.dtype)


def _array_bounds(spec: ObservationSpec) -> tuple[float, float]:
    return (-np.inf if spec.low is None else spec.low), (np.inf if spec.high is None else spec.high)


def _default(spec: ObservationSpec) -> Any:
    """Return a value of the space for want of a declared one: zeros, or nothing."""
    if spec.kind == "text":
        return ""
    if spec.kind == "binary":
        return b""
    if spec.kind == "mapping":
        return dict.fromkeys(spec.keys, 0)
    if spec.kind == "array":
        return np.zeros(spec.shape, spec.dtype)
    return 0
