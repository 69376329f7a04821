"""The space `Tuple`."""

from typing import Any

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["Tuple"]


class Tuple(SeedsAsList, gymnasium_spaces.Tuple[Any]):
    """Tuples of values of other spaces; `seed` returns a list."""
