"""The numbers from 0 on."""

from aiocg.compat.compiler_gym.spaces.named import Named
from aiocg.compat.gym import spaces

__all__ = ["Discrete"]


class Discrete(Named, spaces.Discrete):
    """The numbers from 0 on.

    Args:
        n: how many.
        name: of the space.
    """

    def __init__(self, n: int, name: str) -> None:
        super().__init__(n)
        self.name = name
