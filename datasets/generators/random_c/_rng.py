"""Random numbers that are the same on every machine and under every Python."""

from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")

_MASK = 2**64 - 1


class Rng:
    """SplitMix64: 64 bits of state that grow by a constant, and are stirred for each draw.

    Args:
        seed: any whole number; the lower 64 bits count.
    """

    def __init__(self, seed: int) -> None:
        self._state = seed & _MASK

    def bits(self) -> int:
        """Draw 64 bits."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = (self._state ^ self._state >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & _MASK
        return mixed ^ mixed >> 31

    def below(self, bound: int) -> int:
        """Draw a number from 0 up to, not including, `bound`."""
        return self.bits() * bound >> 64

    def between(self, low: int, high: int) -> int:
        """Draw a number from `low` to `high`, both included."""
        return low + self.below(high - low + 1)

    def chance(self, percent: int) -> bool:
        """Say yes in so many cases of a hundred."""
        return self.below(100) < percent

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of the options."""
        return options[self.below(len(options))]

    def weighted(self, options: Sequence[tuple[int, T]]) -> T:
        """Draw one of the options, each as often as its weight says."""
        position = self.below(sum(weight for weight, _ in options))
        for weight, option in options:
            position -= weight
            if position < 0:
                return option
        raise AssertionError("weights are positive")

    def sample(self, options: Sequence[T], count: int) -> list[T]:
        """Draw so many different options, or all if there are not so many, in random order."""
        rest = list(options)
        return [rest.pop(self.below(len(rest))) for _ in range(min(count, len(rest)))]
