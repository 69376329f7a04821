"""Random numbers as Gym 0.21 made them: NumPy's old generator, with `randint` and `rand`."""

import os

import numpy as np

from aiocg.compat.gym import error

__all__ = ["create_seed", "np_random"]


def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Return a generator, and the seed that it got.

    Args:
        seed: not negative; None for one of the system's.

    Raises:
        Error: when the seed is not a number, or negative.
    """
    seed = create_seed(seed)
    return np.random.RandomState(np.random.SeedSequence(seed).generate_state(8)), seed


def create_seed(a: int | None = None, max_bytes: int = 8) -> int:
    """Return a seed: the one given, or one of the system's.

    Args:
        a: not negative, or None.
        max_bytes: how long one of the system's is.

    Raises:
        Error: when the seed is not a number, or negative.
    """
    if a is None:
        return int.from_bytes(os.urandom(max_bytes), "little")
    if isinstance(a, bool) or not isinstance(a, (int, np.integer)) or a < 0:
        raise error.Error(f"a seed is a number that is not negative, or None, not {a!r}")
    return int(a)
