"""The space `Dict`."""

from aiocg.compat.gym.spaces.seeds import SeedsAsList, gymnasium_spaces

__all__ = ["Dict"]


class Dict(SeedsAsList, gymnasium_spaces.Dict):
    """Dictionaries of values of other spaces; `seed` returns a list."""
