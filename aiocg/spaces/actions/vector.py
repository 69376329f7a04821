"""What spaces have in common whose actions are vectors of small integers."""

import abc
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction
from aiocg.spaces.actions.space import ActionSpace, check_order
from aiocg.transport.messages import Action

__all__ = ["VectorActions"]


class VectorActions(ActionSpace, gymnasium.spaces.MultiDiscrete):
    """A space of vectors of int64, shape (length,), each element with a range of its own.

    One action is such a vector, as an array or a list of ints, or a text; several are a list of those, or an array of
    two dimensions.
    """

    @abc.abstractmethod
    def encode_vector(self, vector: Sequence[int]) -> Action:
        """Return an action whose vector is in the ranges, in the form that travels."""

    @abc.abstractmethod
    def encode_text(self, text: str) -> Action:
        """Return an action given as text in the form that travels.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """

    def encode(self, actions: Any) -> tuple[Action, ...]:
        """Return one action, or each of several, in the form that travels.

        Raises:
            UnknownName, InvalidAction: when it is not an action of this space.
        """
        if not isinstance(actions, Mapping):
            check_order(actions)
        if _is_one(actions):
            return (self._encode(actions),)
        return tuple([self._encode(action) for action in actions])

    def _encode(self, action: Any) -> Action:
        return self.encode_text(action) if isinstance(action, str) else self.encode_vector(self._vector(action))

    def _vector(self, action: Any) -> list[int]:
        """Return the elements of an action."""
        try:
            vector = [operator.index(element) for element in action]
        except TypeError:
            raise InvalidAction(f"an action of {self.name} is a vector or a text, not {action!r}") from None
        ranges = self.nvec.tolist()
        if len(vector) != len(ranges):
            raise InvalidAction(f"an action of {self.name} has {len(ranges)} elements, not {len(vector)}: {action!r}")
        for position, (element, count) in enumerate(zip(vector, ranges, strict=True)):
            if not 0 <= element < count:
                raise InvalidAction(f"element {position} of {action!r} is not in the range 0 to {count - 1}")
        return vector

    def draw(self, rng: np.random.Generator) -> tuple[int, ...]:
        """Draw a vector, as a tuple."""
        return tuple(int(rng.integers(count)) for count in self.nvec)

    def contains(self, x: Any) -> bool:
        """Is `x` a vector within the ranges?"""
        try:
            return gymnasium.spaces.MultiDiscrete.contains(self, x)
        except (ValueError, TypeError, OverflowError):  # lists of different lengths, or of anything but numbers
            return False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.nvec.tolist()})"


def _is_one(actions: Any) -> bool:
    if isinstance(actions, np.ndarray):
        return actions.ndim == 1 and actions.size > 0 and actions.dtype.kind in "iu"
    if isinstance(actions, (str, Mapping)) or not isinstance(actions, Iterable):
        return True
    return isinstance(actions, Sequence) and len(actions) > 0 and all(isinstance(x, (int, np.integer)) for x in actions)
