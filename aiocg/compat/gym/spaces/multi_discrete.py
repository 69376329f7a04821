"""The space `MultiDiscrete`."""

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["MultiDiscrete"]


class MultiDiscrete(SeedsAsList, gymnasium_spaces.MultiDiscrete):
    """Gymnasium's `MultiDiscrete`, whose `seed` returns a list."""
