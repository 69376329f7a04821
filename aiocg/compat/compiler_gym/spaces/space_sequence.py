"""Lists of values of one space."""

from collections.abc import Collection
from typing import Any

from aiocg.compat.gym.spaces import Space

__all__ = ["SpaceSequence"]

MORE = 32  # how much longer than the shortest a sample gets where there is no longest


class SpaceSequence(Space[Any]):
    """Lists of values of one space.

    Args:
        name: of the space.
        space: contains each element.
        size_range: the shortest and the longest length, inclusive; None is any.
    """

    def __init__(self, name: str, space: Space[Any], size_range: tuple[int, int | None] = (0, None)) -> None:
        super().__init__()
        self.name = name
        self.space = space
        self.size_range = size_range

    def contains(self, x: Any) -> bool:
        """Is `x` a collection of such values, of a length within the bounds?"""
        shortest, longest = self.size_range
        if not isinstance(x, Collection) or len(x) < shortest or (longest is not None and len(x) > longest):
            return False
        return all(self.space.contains(element) for element in x)

    def sample(self, mask: Any = None, probability: Any = None) -> list[Any]:
        """Draw a list."""
        shortest, longest = self.size_range
        length = self.np_random.integers(shortest, shortest + MORE if longest is None else longest, endpoint=True)
        return [self.space.sample() for _ in range(length)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpaceSequence):
            return False
        return (self.name, self.size_range, self.space) == (other.name, other.size_range, other.space)

    def __hash__(self) -> int:
        return hash((self.name, self.size_range))
