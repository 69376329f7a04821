"""Idioms of real code, with random details."""

from collections.abc import Callable

from aiocg.datasets.generators.random_c.idioms import arrays, matrices, numbers, sorting, structures, text
from aiocg.datasets.generators.random_c.idioms.kit import Idiom, Kit
from aiocg.datasets.generators.random_c.rng import Rng
from aiocg.datasets.generators.random_c.scope import Function

__all__ = ["IDIOMS", "idiom"]

IDIOMS: tuple[Idiom, ...] = (  # those that are there twice are drawn more often
    *numbers.IDIOMS,
    *arrays.IDIOMS,
    *sorting.IDIOMS,
    *matrices.IDIOMS,
    *text.IDIOMS,
    *structures.IDIOMS,
)


def idiom(rng: Rng, name: Callable[[str], str], limit: int) -> Function:
    """Write one of the idioms.

    Args:
        rng: decides which, and its details.
        name: makes a new name of a word.
        limit: how many instructions a call may execute; idioms that have a choice keep below.
    """
    return rng.choice(IDIOMS)(Kit(rng, name, limit))
