"""What Gym's spaces return from `seed`."""

import copy
from typing import Any

from gymnasium import spaces as gymnasium_spaces

__all__ = ["SeedsAsList", "apart", "gymnasium_spaces"]


class SeedsAsList:
    """A space whose `seed` returns a list, in front of Gymnasium's in the bases."""

    def seed(self, seed: Any = None) -> Any:
        """Seed the sampling; return the seeds as a list.

        Args:
            seed: a number, or None for an unpredictable one.
        """
        return _flat(super().seed(seed))  # type: ignore[misc]


def apart(space: Any) -> Any:
    """Return a copy of a space that draws other values than the space and its other copies.

    What they draw is the same whenever the space was seeded the same.
    """
    copied = copy.deepcopy(space)
    source = space.np_random.bit_generator.seed_seq
    copied.seed(int(source.spawn(1)[0].generate_state(1)[0]))
    return copied


def _flat(given: Any) -> list[Any]:
    if isinstance(given, dict):
        given = tuple(given.values())
    if isinstance(given, (list, tuple)):
        return [seed for one in given for seed in _flat(one)]
    return [given]
