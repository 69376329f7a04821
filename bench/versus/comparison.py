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
        target: what the ratio should be at least, if anything was promised.
        more_is_better: as with a rate; otherwise less, as with a time.
        original, ours: samples, a list for each round; none of a side that did not run.
        compiler: our compiler's part, one figure for each round, in the same unit.
        failures: actions that failed, of the original and of ours.
    """

    what: str
    unit: str
    program: str = ""
    target: float | None = None
    more_is_better: bool = False
    original: Rounds = field(default_factory=list)
    ours: Rounds = field(default_factory=list)
    compiler: list[float] = field(default_factory=list)
    failures: list[int] = field(default_factory=lambda: [0, 0])

    @property
    def ratio(self) -> Spread | None:
        """How many times better ours is, over the rounds; None without the original."""
        pairs = zip(self.original, self.ours, strict=False)
        found = [self._better(statistics.median(its), statistics.median(ours)) for its, ours in pairs if its and ours]
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
        ratio = self.ratio
        return {
            "what": self.what,
            "program": self.program,
            "unit": self.unit,
            "more_is_better": self.more_is_better,
            "original": summary(self.original),
            "ours": summary(self.ours),
            "ours_in_compiler": statistics.median(self.compiler) if self.compiler else None,
            "ratio": None if ratio is None else {"median": ratio.median, "low": ratio.low, "high": ratio.high},
            "rounds": len(self.ours),
            "target": self.target,
            "met": self.met,
            "failures": {"original": self.failures[0], "ours": self.failures[1]},
        }


def summary(rounds: Rounds) -> dict[str, float] | None:
    """Return median and 99th percentile over all rounds, None without samples."""
    samples = [sample for one in rounds for sample in one]
    if not samples:
        return None
    return {"median": statistics.median(samples), "p99": percentile(samples, 0.99), "samples": len(samples)}
