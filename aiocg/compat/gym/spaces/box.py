"""The space `Box`."""

from typing import Any

import numpy as np

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["Box"]


class Box(SeedsAsList, gymnasium_spaces.Box):
    """Arrays within bounds; a list counts as the array that it can be made into."""

    def contains(self, x: Any) -> bool:
        """Is `x` an array, or a list, of that shape within the bounds?"""
        if not isinstance(x, np.ndarray):
            try:
                x = np.asarray(x, dtype=self.dtype)
            except (TypeError, ValueError, OverflowError):
                return False
        return bool(super().contains(x))
