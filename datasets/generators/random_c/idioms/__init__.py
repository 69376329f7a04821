"""Idioms of real code, with random details."""

from collections.abc import Callable, Iterator
from operator import methodcaller

from aiocg.datasets.generators.random_c._scope import Function
from aiocg.datasets.generators.random_c._values import Rng
from aiocg.datasets.generators.random_c.idioms._drawn import DRAWN, Idiom, Kit, tables


def _idioms() -> Iterator[Idiom]:
    for name, table in tables().items():
        yield from [DRAWN.get(name) or methodcaller("write", name)] * table.get("often", 1)


IDIOMS: tuple[Idiom, ...] = tuple(_idioms())


def idiom(rng: Rng, name: Callable[[str], str], limit: int) -> Function:
    """Write one of the idioms.

    Args:
        rng: decides which, and its details.
        name: makes a new name of a word.
        limit: how many instructions a call may execute; idioms that have a choice keep below.
    """
    return rng.choice(IDIOMS)(Kit(rng, name, limit))
