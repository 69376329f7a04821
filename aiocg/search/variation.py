"""How choices for the options of a compiler are drawn and changed by searches over whole command lines."""

import math
from collections.abc import Sequence

import numpy as np

from aiocg.transport.options import UNSET, Option

__all__ = ["Choices", "Variation"]

Choices = tuple[int, ...]
"""A choice for each option, -1 where it is not given."""

CHANGES = 4.0  # options that one change touches, on average
SPAN = 4.0  # powers of two that a number is drawn around what it is, or is by default


class Variation:
    """Random choices for some options.

    Most options of a compiler do little, some do harm, and a few that are drawn at random together are refused: of
    command lines that give every option, hardly any compiles. So how many options are given is itself drawn, by orders
    of magnitude, and what is changed is a few of them. Numbers are drawn by orders of magnitude as well: a range that
    ends at 2**31 is of interest near its beginning and near the compiler's own default.

    Attributes:
        starts: what needs no luck: no option given, and each optimisation level alone.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self._options = tuple(options)
        self._levels = [index for index, option in enumerate(options) if option.kind == "level"]
        nothing = (UNSET,) * len(self._options)
        self.starts: tuple[Choices, ...] = (
            nothing,
            *(
                (*nothing[:index], choice, *nothing[index + 1 :])
                for index in self._levels
                for choice in range(len(self._options[index]))
            ),
        )

    def draw(self, rng: np.random.Generator) -> Choices:
        """Draw a level, and from one option to all of them."""
        share = len(self._options) ** -rng.random()
        given = rng.random(len(self._options)) < share
        given[self._levels] = True
        return tuple(
            [self._choice(option, rng) if on else UNSET for option, on in zip(self._options, given, strict=True)]
        )

    def change(self, choices: Sequence[int], rng: np.random.Generator) -> Choices:
        """Return choices with some others among them, one at least: an option is dropped, given, or given otherwise."""
        changed = list(choices)
        for index in rng.integers(len(changed), size=rng.geometric(1 / CHANGES)):
            option, present = self._options[index], changed[index]
            if present != UNSET and rng.random() < 0.5:
                changed[index] = UNSET
            else:
                changed[index] = self._choice(option, rng, present)
        return tuple(changed)

    def _choice(self, option: Option, rng: np.random.Generator, present: int = UNSET) -> int:
        """Draw a choice of one option, where it is a number, at times near the present one."""
        words = len(option.texts)
        if not option.template or (words and rng.random() < 0.5):
            return int(rng.integers(words))
        low, high = option.low, option.high
        middle = low + present - words if present >= words else _number(option.initial)
        if middle is not None and rng.random() < 0.5:
            number = round(middle * math.exp2(rng.uniform(-SPAN, SPAN)))
        else:
            number = low + math.floor(math.pow(high - low + 2, rng.random())) - 1
        return words + min(max(number, low), high) - low


def _number(text: str) -> int | None:
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() else None
