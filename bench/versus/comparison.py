"""What a comparison is: samples of all sides in rounds, and what is said of them, for one program and over several."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.measure import Spread, spread

Rounds = list[list[float]]
MEMORY = "MiB"
LARGE = 10_000  # instructions, above which less is done in a round, and a program is none of the ten that are summed up


def percentile(samples: Sequence[float], fraction: float) -> float:
    """Return the smallest sample that so large a part of them does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


@dataclass(slots=True)
class Samples:
    """What one side took.

    Attributes:
        rounds: samples of the time that passed, or of what else the unit says, a list for each round.
        processor: processor time of all its processes for one of what is measured, a figure for each round.
        failures: actions that failed.
    """

    rounds: Rounds = field(default_factory=list)
    processor: list[float] = field(default_factory=list)
    failures: int = 0


@dataclass(slots=True)
class Comparison:
    """One quantity, measured on all sides in turn. Ratios are of processor time where that was measured.

    Attributes:
        what: measured.
        unit: of the samples; of a rate the processor time is in µs.
        program: that it was measured on.
        target: what the ratio should be at least, if anything was promised.
        more_is_better: as with a rate; otherwise less, as with a time.
        instructions: of that program, 0 if it is none, or several.
        original, ours: what was taken; nothing of a side that did not run.
        remembering: ours, with the memory of which pass leads from which state to which.
        alone: our LLVM alone, changing a module in memory in a bare loop, where that means something.
        compiler: our compiler's part, one figure for each round, in the same unit.
    """

    what: str
    unit: str
    program: str = ""
    target: float | None = None
    more_is_better: bool = False
    instructions: int = 0
    original: Samples = field(default_factory=Samples)
    ours: Samples = field(default_factory=Samples)
    remembering: Samples = field(default_factory=Samples)
    alone: Samples = field(default_factory=Samples)
    compiler: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> Spread | None:
        """How many times better ours is, over the rounds; None without the original."""
        return self._ratio(self.ours)

    @property
    def ratio_by_wall(self) -> Spread | None:
        """The same by the time that passes, None where `ratio` is of that already."""
        return self._by_wall(self.ours) if self.ours.processor else None

    @property
    def ratio_remembering(self) -> Spread | None:
        """How many times better ours is while it remembers."""
        return self._ratio(self.remembering)

    @property
    def bound(self) -> Spread | None:
        """How many times better our LLVM alone is, which a system that runs all passes cannot surpass much."""
        return self._ratio(self.alone)

    @property
    def met(self) -> bool | None:
        """Whether the target is met at the median, None where nothing was promised or compared."""
        ratio = self.ratio
        return None if self.target is None or ratio is None else ratio.median >= self.target

    def _ratio(self, side: Samples) -> Spread | None:
        if not side.processor:
            return self._by_wall(side)
        return _ratios(self.original.processor, side.processor)

    def _by_wall(self, side: Samples) -> Spread | None:
        its, other = ([statistics.median(one) for one in each.rounds if one] for each in (self.original, side))
        return _ratios(other, its) if self.more_is_better else _ratios(its, other)

    def as_json(self) -> dict[str, Any]:
        """Return all that is known of it, ready for JSON."""
        return {
            "what": self.what,
            "program": self.program,
            "instructions": self.instructions,
            "unit": self.unit,
            "more_is_better": self.more_is_better,
            "original": summary(self.original),
            "ours": summary(self.ours),
            "remembering": summary(self.remembering),
            "llvm_alone": summary(self.alone),
            "ours_in_compiler": statistics.median(self.compiler) if self.compiler else None,
            "ratio": _spread_as_json(self.ratio),
            "ratio_by_wall": _spread_as_json(self.ratio_by_wall),
            "ratio_remembering": _spread_as_json(self.ratio_remembering),
            "bound": _spread_as_json(self.bound),
            "rounds": len(self.ours.rounds),
            "target": self.target,
            "met": self.met,
            "failures": {"original": self.original.failures, "ours": self.ours.failures},
        }


def _ratios(above: Iterable[float], below: Iterable[float]) -> Spread | None:
    found = [one / other if other else math.inf for one, other in zip(above, below, strict=False)]
    return spread(found) if found else None


def _spread_as_json(found: Spread | None) -> dict[str, float] | None:
    return None if found is None else {"median": found.median, "low": found.low, "high": found.high}


def summary(side: Samples) -> dict[str, float | None] | None:
    """Return median and 99th percentile over all rounds, and the median processor time; None without samples."""
    samples = [sample for one in side.rounds for sample in one]
    if not samples:
        return None
    return {
        "median": statistics.median(samples),
        "p99": percentile(samples, 0.99),
        "samples": len(samples),
        "processor": statistics.median(side.processor) if side.processor else None,
    }


# --------------------------------------------------------------------------------------------- over several programs


@dataclass(frozen=True, slots=True)
class Range:
    """Ratios of several programs in three numbers."""

    median: float
    least: float
    most: float

    @classmethod
    def of(cls, ratios: Iterable[Spread | None]) -> "Range | None":
        """Sum up the medians of ratios; None if there is none."""
        found = [one.median for one in ratios if one is not None]
        return cls(statistics.median(found), min(found), max(found)) if found else None


@dataclass(frozen=True, slots=True)
class Overview:
    """One operation over all programs that are not large.

    Attributes:
        what: was measured.
        programs: how many there were.
        ratio, by_wall, remembering, bound: as of a comparison.
        target: what the median of the ratio should be at least, if anything was promised.
    """

    what: str
    programs: int
    ratio: Range
    by_wall: Range | None
    remembering: Range | None
    bound: Range | None
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the target is met, None where nothing was promised."""
        return None if self.target is None else self.ratio.median >= self.target

    def as_json(self) -> dict[str, Any]:
        """Return it ready for JSON."""
        named = {name: getattr(self, name) for name in ("ratio", "by_wall", "remembering", "bound")}
        ranges = {
            name: None if one is None else {"median": one.median, "least": one.least, "most": one.most}
            for name, one in named.items()
        }
        return {"what": self.what, "programs": self.programs, **ranges, "target": self.target, "met": self.met}


def overviews(comparisons: Sequence[Comparison], targets: Mapping[str, float]) -> list[Overview]:
    """Sum up each operation that was compared on single programs, in their order.

    Args:
        comparisons: all of them.
        targets: for the median over programs, by operation.
    """
    found = []
    for what in dict.fromkeys(one.what for one in comparisons if one.instructions > 0):
        group = [one for one in comparisons if one.what == what and 0 < one.instructions <= LARGE]
        ratio = Range.of(one.ratio for one in group)
        if ratio is not None:
            by_wall = Range.of(one.ratio_by_wall for one in group)
            remembering = Range.of(one.ratio_remembering for one in group)
            bound = Range.of(one.bound for one in group)
            found.append(Overview(what, len(group), ratio, by_wall, remembering, bound, targets.get(what)))
    return found
