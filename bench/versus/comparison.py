"""What a comparison is: samples of both sides in rounds, and what is said of them."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.measure import Spread, spread

Rounds = list[list[float]]


def percentile(samples: Sequence[float], fraction: float) -> float:
    """Return the smallest sample that so large a part of them does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


@dataclass(slots=True)
class Comparison:
    """One quantity, measured on both sides in turn.

    Attributes:
        what: measured.
        unit: of the samples.
        program: that it was measured on.
        instructions: of that program, 0 if not known.
        target: what the ratio should be at least, if anything was promised.
        more_is_better: as with a rate; otherwise less, as with a time.
        original, ours: samples, a list for each round; none of a side that did not run.
        alone: samples of our LLVM alone, changing a module in memory in a bare loop, where that means something.
        compiler: our compiler's part, one figure for each round, in the same unit; of a rate, what it would be if our
            workers did nothing else.
        failures: actions that failed, of the original and of ours.
    """

    what: str
    unit: str
    program: str = ""
    target: float | None = None
    more_is_better: bool = False
    instructions: int = 0
    original: Rounds = field(default_factory=list)
    ours: Rounds = field(default_factory=list)
    alone: Rounds = field(default_factory=list)
    compiler: list[float] = field(default_factory=list)
    failures: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def ratio(self) -> Spread | None:
        """How many times better ours is, over the rounds; None without the original."""
        return self._ratio_to(self.ours)

    @property
    def bound(self) -> Spread | None:
        """How many times better our LLVM alone is, which a system that runs all passes cannot surpass much."""
        return self._ratio_to(self.alone)

    def _ratio_to(self, rounds: Rounds) -> Spread | None:
        pairs = zip(self.original, rounds, strict=False)
        medians = [(statistics.median(its), statistics.median(other)) for its, other in pairs if its and other]
        found = [self._better(its, other) for its, other in medians]
        return spread(found) if found else None

    def _better(self, original: float, ours: float) -> float:
        above, below = (ours, original) if self.more_is_better else (original, ours)
        return above / below if below else math.inf

    @property
    def met(self) -> bool | None:
        """Whether the target is met at the median, None where nothing was promised or compared."""
        ratio = self.ratio
        return None if self.target is None or ratio is None else ratio.median >= self.target

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
            "llvm_alone": summary(self.alone),
            "ours_in_compiler": statistics.median(self.compiler) if self.compiler else None,
            "ratio": _spread_as_json(self.ratio),
            "bound": _spread_as_json(self.bound),
            "rounds": len(self.ours),
            "target": self.target,
            "met": self.met,
            "failures": {"original": self.failures[0], "ours": self.failures[1]},
        }


def _spread_as_json(found: Spread | None) -> dict[str, float] | None:
    return None if found is None else {"median": found.median, "low": found.low, "high": found.high}


def summary(rounds: Rounds) -> dict[str, float] | None:
    """Return median and 99th percentile over all rounds, None without samples."""
    samples = [sample for one in rounds for sample in one]
    if not samples:
        return None
    return {"median": statistics.median(samples), "p99": percentile(samples, 0.99), "samples": len(samples)}
