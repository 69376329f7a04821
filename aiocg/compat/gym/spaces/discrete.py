"""The space `Discrete`."""

from typing import Any

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["Discrete"]


class Discrete(SeedsAsList, gymnasium_spaces.Discrete):
    """The numbers from 0 on, or from `start`; samples are of Python's own type, so that JSON takes them."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw a number."""
        return int(super().sample(mask, probability))
