"""Random choices and mutations of compiler options."""

import contextlib
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from aiocg.transport.options import UNSET, Option, OptionReader, UnknownOption

Choices = tuple[int, ...]
"""A choice for each option, -1 where it is not given."""

MOST = 0.3  # of all options, the largest share that one change touches
DECAY = 1.5  # a change of k options has a probability of about k ** -DECAY
NUMBERS = 1 / 3  # how often an option with a number is drawn for a change, for each time that one with words is
LOUD = 0.75  # how often a flag that is on by default is switched off, rather than given for nothing
SPAN = 4.0  # powers of two that a number is drawn around what it is, or is by default
FAMILIAR = 1.0  # how likely a change is of options that are known to help, for each time that it is of others
HEADS = (1, 2, 4, 8, 16)  # how many of what is known searches begin with
KNOWN = (
    "-fno-asynchronous-unwind-tables",
    "-fno-move-loop-invariants",
    "-fno-tree-loop-optimize",
    "--param=sccvn-max-alias-queries-per-access=1",
    "--param=max-inline-functions-called-once-loop-depth=0",
    "-fno-tree-fre",
    "--param=logical-op-non-short-circuit=0",
    "-fno-if-conversion",
    "-fno-tree-loop-im",
    "-fno-caller-saves",
    "--param=vrp2-mode=vrp",
    "-fno-tree-reassoc",
    "-fno-shrink-wrap",
    "-fno-code-hoisting",
    "-fno-tree-slsr",
    "-fno-early-inlining",
    "-fno-schedule-insns2",
    "-fno-tree-dominator-opts",
    "-fno-tree-ch",
    "-fno-ivopts",
    "-fno-gcse",
    "-fno-tree-pre",
    "-fno-tree-vrp",
    "-fno-ipa-sra",
    "-fno-reorder-blocks",
    "-fira-region=all",
    "-fira-algorithm=priority",
    "-fno-tree-ter",
    "-fno-inline-small-functions",
    "-fno-jump-tables",
    "-fno-tree-switch-conversion",
    "-fno-split-wide-types",
    "-fno-tree-sink",
    "-fno-guess-branch-probability",
    "-fno-omit-frame-pointer",
    "-fipa-pta",
    "-fwrapv",
    "-fno-tree-loop-ivcanon",
    "-fno-tree-scev-cprop",
    "-ftree-vectorize",
    "-fno-ira-hoist-pressure",
    "-fira-loop-pressure",
    "--param=max-cse-insns=0",
    "--param=gcse-cost-distance-ratio=0",
    "--param=iv-always-prune-cand-set-bound=0",
    "--param=max-rtl-if-conversion-insns=0",
    "--param=max-jump-thread-duplication-stmts=1",
    "--param=max-iterations-to-track=0",
    "--param=max-completely-peel-times=1",
)
"""Words of GCC's options that make many programs smaller.

The first ones, but for unwind tables, were chosen one after the other by what each adds to those before it, over eight
of our programs, and are good together. The others do good to some programs, and are tried each for itself.
"""


class Variation:
    """Random choices for some options.

    Most options of a compiler do little, some do harm, and of command lines that give all of them few compile. So how
    many options are given is itself drawn, by orders of magnitude. How many a change touches is drawn from a power law,
    as in the fast genetic algorithm of Doerr et al. (GECCO 2017): mostly one or a few, and at times very many, since
    one of those that matter is found soonest by trying many at once. Numbers are drawn by orders of magnitude as well:
    a range that ends at 2**31 is of interest near its beginning and near the compiler's own default.

    Attributes:
        levels: each optimisation level alone.
        known: an option and its choice for each word of `KNOWN` that the compiler has.
        starts: what needs no luck: no option given, and each level.
        heads: -Oz, or -Os where there is none, with the first 1, 2, 4, 8 and 16 of `known`.
        shares: how likely each option is the one that a change of one option touches, as float64, shape (options,).
    """

    def __init__(self, options: Sequence[Option]) -> None:
        self._options = tuple(options)
        self._levels = [index for index, option in enumerate(options) if option.kind == "level"]
        weights = np.array([NUMBERS if option.template else 1.0 for option in options])
        self.known = tuple(self._read(KNOWN))
        self._known = dict(self.known)
        familiar = np.isin(np.arange(len(weights)), list(self._known))
        if 0 < len(self._known) < len(weights):
            weights[familiar] *= FAMILIAR * weights[~familiar].sum() / weights[familiar].sum()
        self.shares = weights / weights.sum()
        self.levels = tuple(
            self._line([(index, choice)]) for index in self._levels for choice in range(len(self._options[index]))
        )
        self.starts = (self._line(()), *self.levels)
        small = tuple(self._read(("-Oz",))) or tuple(self._read(("-Os",)))
        self.heads = tuple(self._line((*small, *self.known[:count])) for count in HEADS if self.known)

    def draw(self, rng: np.random.Generator) -> Choices:
        """Draw a level, and from one option to all of them."""
        share = len(self._options) ** -rng.random()
        given = rng.random(len(self._options)) < share
        given[self._levels] = True
        return tuple(
            [self._choice(option, rng) if on else UNSET for option, on in zip(self._options, given, strict=True)]
        )

    def change(self, choices: Sequence[int], rng: np.random.Generator) -> Choices:
        """Return choices with some drawn anew: an option that is given is dropped or given otherwise."""
        changed = list(choices)
        for index in rng.choice(len(changed), size=self._count(rng), p=self.shares):
            changed[index] = self.redraw(index, changed[index], rng)
        return tuple(changed)

    def redraw(self, index: int, present: int, rng: np.random.Generator, *, least: float = 0.0) -> int:
        """Draw another choice of one option: one that is given is dropped or given otherwise.

        Args:
            index: of the option.
            present: its choice.
            rng: the source of randomness.
            least: how often a number is the least that the option takes.
        """
        option, known = self._options[index], self._known.get(index, present)
        if present != UNSET and rng.random() < 0.5:
            return UNSET
        if known != present and rng.random() < 0.5:
            return known
        if least and option.template and rng.random() < least:
            return len(option.texts)
        return self._choice(option, rng, present)

    def _read(self, words: Iterable[str]) -> Iterator[tuple[int, int]]:
        """Yield the option and its choice for each word, but for words that this compiler does not have."""
        reader = OptionReader(self._options)
        for word in words:
            with contextlib.suppress(UnknownOption):
                yield reader.read_word(word)

    def _line(self, given: Iterable[tuple[int, int]]) -> Choices:
        """Return choices with some options given, and no others."""
        choices = [UNSET] * len(self._options)
        for index, choice in given:
            choices[index] = choice
        return tuple(choices)

    def _count(self, rng: np.random.Generator) -> int:
        """Draw how many options to change, by the inverse of the power law's distribution function."""
        most = 1 + MOST * len(self._options)
        return math.floor(math.pow(1 - rng.random() * (1 - math.pow(most, 1 - DECAY)), 1 / (1 - DECAY)))

    def _choice(self, option: Option, rng: np.random.Generator, present: int = UNSET) -> int:
        """Draw a choice of one option, where it is a number, at times near the present one."""
        words = len(option.texts)
        if option.kind == "flag" and option.initial == "[enabled]" and rng.random() < LOUD:
            return words - 1
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
