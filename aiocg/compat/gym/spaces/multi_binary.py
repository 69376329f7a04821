"""The space `MultiBinary`."""

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["MultiBinary"]


class MultiBinary(SeedsAsList, gymnasium_spaces.MultiBinary):
    """Gymnasium's `MultiBinary`, whose `seed` returns a list."""
