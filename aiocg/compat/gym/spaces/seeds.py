"""What Gym's spaces return from `seed`."""

from typing import Any

from gymnasium import spaces as gymnasium_spaces

__all__ = ["SeedsAsList", "gymnasium_spaces"]


class SeedsAsList:
    """A space whose `seed` returns a list, in front of Gymnasium's in the bases."""

    def seed(self, seed: Any = None) -> Any:
        """Seed the sampling; return the seeds as a list.

        Args:
            seed: a number, or None for an unpredictable one.
        """
        return _flat(super().seed(seed))  # type: ignore[misc]


def _flat(given: Any) -> list[Any]:
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, (list, tuple)):
        return [seed for one in given for seed in _flat(one)]
    return [given]
