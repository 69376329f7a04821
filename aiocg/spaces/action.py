"""Action spaces, made from what a worker declares."""

import copy
import operator
from collections.abc import Iterable, Iterator
from typing import Any, Self

import gymnasium
import numpy as np

from aiocg.errors import InvalidAction, UnknownName
from aiocg.transport.messages import ActionSpaceSpec

__all__ = ["ActionSpace"]


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
