"""A space of actions that can be written as text."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.gym.spaces import Space

__all__ = ["ActionSpace"]


class ActionSpace(Space[Any]):
    """A space around another, by which lists of actions become text and come back.

    Attributes:
        wrapped: the other.
    """

    def __init__(self, space: Space[Any]) -> None:
        super().__init__()
        self.wrapped = space

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "wrapped":
            raise AttributeError(name)
        return getattr(self.wrapped, name)

    def __getitem__(self, name: str) -> Any:
        return self.wrapped[name]  # type: ignore[index]

    @property
    def np_random(self) -> Any:
        """The source of what it draws, the other space's."""
        return self.wrapped.np_random

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an action."""
        return self.wrapped.sample()

    def seed(self, seed: Any = None) -> Any:
        """Seed the drawing."""
        return self.wrapped.seed(seed)

    def contains(self, x: Any) -> bool:
        """Is `x` an action?"""
        return self.wrapped.contains(x)

    def to_string(self, actions: Iterable[Any]) -> str:
        """Return actions as text: as the other space does or, if it does not, with commas between them."""
        write = getattr(self.wrapped, "to_string", None)
        return ",".join(map(str, actions)) if write is None else str(write(actions))

    def from_string(self, string: str) -> Any:
        """Return the actions of a text."""
        read = getattr(self.wrapped, "from_string", None)
        if read is not None:
            return read(string)
        dtype = self.wrapped.dtype
        assert dtype is not None, "a space whose values cannot be written"
        return [dtype.type(word) for word in string.split(",") if word]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, ActionSpace):
            return bool(self.wrapped == other.wrapped)
        return bool(self.wrapped == other)

    def __hash__(self) -> int:
        return hash(self.wrapped)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.wrapped})"
