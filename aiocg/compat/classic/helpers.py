"""Gym's errors, its random number generator, and other helpers that scripts import."""

import os

import numpy as np
from gymnasium.error import (
    DeprecatedEnv,
    Error,
    InvalidAction,
    NameNotFound,
    NamespaceNotFound,
    ResetNeeded,
    UnregisteredEnv,
    VersionNotFound,
)
from gymnasium.utils import EzPickle

__all__ = [
    "DeprecatedEnv",
    "Error",
    "EzPickle",
    "InvalidAction",
    "NameNotFound",
    "NamespaceNotFound",
    "ResetNeeded",
    "UnregisteredEnv",
    "VersionNotFound",
    "np_random",
]

__version__ = VERSION = "0.21.0"


def np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Return a legacy NumPy generator, as Gym 0.21 does, and its seed; the system provides the seed if None."""
    if seed is None:
        seed = int.from_bytes(os.urandom(8), "little")
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise Error(f"a seed must be a non-negative integer or None, not {seed!r}")
    return np.random.RandomState(np.random.SeedSequence(int(seed)).generate_state(8)), int(seed)
