"""Tuples of values of other spaces."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.spaces.named import Named
from aiocg.compat.gym import spaces

__all__ = ["Tuple"]


class Tuple(Named, spaces.Tuple):
    """Tuples of values of other spaces.

    Args:
        spaces: in their order.
        name: of the space.
    """

    def __init__(self, spaces: Iterable[Any], name: str) -> None:
        super().__init__(spaces)
        self.name = name
