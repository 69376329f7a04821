"""Ways to make a list smaller while something remains true of it. Pure: they ask, somebody else tests.

A strategy is a generator. It yields candidates, smaller lists in order of preference; it is sent the index of the first
of them that still holds, or None when none does; and it returns the smallest list that it found. Nothing is asked that
need not be known, and a strategy knows nothing of environments, so that tests can answer by hand.
"""

import itertools
import math
import random
from collections.abc import Callable, Generator, Sequence
from typing import TypeVar

__all__ = ["Strategy", "bisect_prefix", "bisect_suffix", "delta_debug", "one_by_one", "random_removal"]

T = TypeVar("T")
Search = Generator[Sequence[tuple[T, ...]], int | None, tuple[T, ...]]
Strategy = Callable[[tuple[T, ...]], Search[T]]


def delta_debug(items: tuple[T, ...]) -> Search[T]:
    """Remove ever smaller parts until no single item can be removed: the result is 1-minimal.

    This is ddmin (Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, 2002) without its test of
    the parts themselves: with two parts these are the complements, and with more they seldom hold.
    """
    parts = 2
    while items:
        parts = min(parts, len(items))
        bounds = [len(items) * part // parts for part in range(parts + 1)]
        complements = [items[:start] + items[end:] for start, end in itertools.pairwise(bounds)]
        found = yield complements
        if found is not None:
            items = complements[found]
            parts = max(parts - 1, 2)
        elif parts == len(items):
            break
        else:
            parts *= 2
    return items


def bisect_prefix(items: tuple[T, ...]) -> Search[T]:
    """Find the shortest prefix that holds, given that whatever is longer than one that holds does too.

    It takes no more than log2(n) + 1 questions. Where it is not so, the result still holds, but need not be shortest.
    """
    shortest = yield from _bisect(items, lambda length: items[:length])
    return items[:shortest]


def bisect_suffix(items: tuple[T, ...]) -> Search[T]:
    """Find the shortest suffix that holds; as `bisect_prefix`, from the other end."""
    shortest = yield from _bisect(items, lambda length: items[len(items) - length :])
    return items[len(items) - shortest :]


def _bisect(
    items: tuple[T, ...], part: Callable[[int], tuple[T, ...]]
) -> Generator[Sequence[tuple[T, ...]], int | None, int]:
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        if (yield [part(middle)]) is not None:
            high = middle
        else:
            low = middle + 1
    return high


def one_by_one(items: tuple[T, ...]) -> Search[T]:
    """Try to remove each item, last first, until none can be removed: 1-minimal, after some n squared / 2 questions."""
    reduced = True
    while reduced:
        reduced = False
        for index in reversed(range(len(items))):
            without = items[:index] + items[index + 1 :]
            if (yield [without]) is not None:
                items, reduced = without, True
    return items


def random_removal(
    seed: int = 0, *, rounds: float = 5.0, discard: float = 0.75, decay: float = 0.75, shortest: int = 5
) -> Strategy[T]:
    """Return a strategy that removes items at random: a quick first cut of very long lists of which little matters.

    Args:
        seed: of its choices.
        rounds: how many questions there may be, in terms of log2 of the list's length.
        discard: the share of the items that it tries to remove at first, and again after each success.
        decay: by how much that becomes less after each failure; it ends when removing a single one has failed.
        shortest: it leaves a list alone that is shorter.
    """

    def strategy(items: tuple[T, ...]) -> Search[T]:
        rng = random.Random(seed)
        share = discard
        for _ in range(int(math.log2(max(len(items), 1)) * rounds)):
            if len(items) < shortest:
                break
            count = min(math.ceil(len(items) * share), len(items))
            removed = set(rng.sample(range(len(items)), count))
            candidate = tuple(item for index, item in enumerate(items) if index not in removed)
            if (yield [candidate]) is not None:
                items, share = candidate, discard
            elif count == 1:
                break
            else:
                share *= decay
        return items

    return strategy
