"""Gymnasium's spaces with the behaviour of Gym 0.21: `Discrete.sample` gives an int, `seed` a list."""

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces as gymnasium_spaces
from gymnasium.spaces.utils import flatdim, flatten, flatten_space, unflatten

__all__ = [
    "Box",
    "Dict",
    "Discrete",
    "MultiBinary",
    "MultiDiscrete",
    "SeedsAsList",
    "Space",
    "Tuple",
    "apart",
    "flatdim",
    "flatten",
    "flatten_space",
    "gymnasium_spaces",
    "unflatten",
]


class SeedsAsList:
    """A mixin whose `seed` returns a list; it comes before Gymnasium's class in the bases."""

    def seed(self, seed: Any = None) -> Any:
        """Seed the sampling; return the seeds as a list."""
        return _flat(super().seed(seed))  # type: ignore[misc]


def apart(space: Any) -> Any:
    """Return a copy of a space with a random stream of its own.

    The stream depends only on the seed of the original and on how many copies were made before.
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


Space = gymnasium.Space


class Box(SeedsAsList, gymnasium_spaces.Box):
    """Arrays within bounds; `contains` also accepts lists, which it converts."""

    def contains(self, x: Any) -> bool:
        if not isinstance(x, np.ndarray):
            try:
                x = np.asarray(x, dtype=self.dtype)
            except (TypeError, ValueError, OverflowError):
                return False
        return bool(super().contains(x))

    def __eq__(self, other: object) -> bool:
        """Return whether shapes and bounds agree; as in gym, the type of the numbers does not matter."""
        if not isinstance(other, gymnasium_spaces.Box) or self.shape != other.shape:
            return False
        return bool(np.allclose(self.low, other.low) and np.allclose(self.high, other.high))


class Dict(SeedsAsList, gymnasium_spaces.Dict):
    """Dictionaries of values of other spaces; `seed` returns a list."""


class Discrete(SeedsAsList, gymnasium_spaces.Discrete):
    """The integers from `start` (0 by default); samples are Python ints, which JSON can store."""

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        return int(super().sample(mask, probability))


class MultiBinary(SeedsAsList, gymnasium_spaces.MultiBinary):
    """Gymnasium's `MultiBinary`, whose `seed` returns a list."""


class MultiDiscrete(SeedsAsList, gymnasium_spaces.MultiDiscrete):
    """Gymnasium's `MultiDiscrete`, whose `seed` returns a list."""


class Tuple(SeedsAsList, gymnasium_spaces.Tuple):  # type: ignore[type-arg] # no generic before Gymnasium 1.3
    """Tuples of values of other spaces; `seed` returns a list."""
