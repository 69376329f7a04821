"""Dictionaries of values of other spaces."""

from typing import Any

from aiocg.compat.compiler_gym.spaces.named import Named
from aiocg.compat.gym import spaces

__all__ = ["Dict"]


class Dict(Named, spaces.Dict):
    """Dictionaries of values of other spaces.

    Args:
        spaces: by key.
        name: of the space.
    """

    def __init__(self, spaces: Any, name: str) -> None:
        super().__init__(spaces)
        self.name = name
