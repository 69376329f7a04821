"""What a measurement is made of: spreads, budgets, rows, and the habit of alternating what is compared."""

import statistics
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")

Side = Callable[[], Awaitable[T]]

MICRO = 1e6  # microseconds in a second
MILLI = 1e3
NANO = 1e9


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure: thoroughly, or just enough to see that everything works."""

    quick: bool = False

    def choose(self, thorough: T, quick: T) -> T:
        """Return the first value, or the second when in a hurry."""
        return quick if self.quick else thorough


@dataclass(frozen=True, slots=True)
class Spread:
    """Samples in three numbers: the median and the quartiles."""

    median: float
    low: float
    high: float
    samples: int


def spread(samples: Sequence[float]) -> Spread:
    """Sum up samples; with fewer than four, the extremes stand in for the quartiles."""
    if len(samples) < 4:
        return Spread(statistics.median(samples), min(samples), max(samples), len(samples))
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return Spread(middle, low, high, len(samples))


@dataclass(frozen=True, slots=True)
class Budget:
    """A promise about a median.

    Attributes:
        limit: in the unit of the row.
        at_least: the median must not be below the limit; otherwise it must not be above.
    """

    limit: float
    at_least: bool = False

    def met(self, value: float) -> bool:
        """Was the promise kept?"""
        return value >= self.limit if self.at_least else value <= self.limit

    def missed_by(self, value: float) -> float:
        """Return the distance to the limit as a fraction of it, 0 when the promise was kept."""
        return 0.0 if self.met(value) else abs(value - self.limit) / self.limit


@dataclass(frozen=True, slots=True)
class Row:
    """One measured quantity."""

    what: str
    value: Spread
    unit: str
    budget: Budget | None = None


@dataclass(slots=True)
class Results:
    """What one measurement found.

    Attributes:
        rows: in the order they are shown.
        notes: what a reader must know to read them right.
    """

    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, what: str, samples: Sequence[float], unit: str, budget: Budget | None = None) -> None:
        """Append a row."""
        self.rows.append(Row(what, spread(samples), unit, budget))

    def note(self, text: str) -> None:
        """Append a note."""
        self.notes.append(text)


@dataclass(frozen=True, slots=True)
class Measurement:
    """One entry of the catalogue."""

    name: str
    title: str
    run: Callable[[Effort], Awaitable[Results]]


async def alternate(sides: Sequence[Side[T]], rounds: int) -> list[list[T]]:
    """Run each side once per round, every other round in reverse order, and return the samples of each side.

    What disturbs the machine for longer than a round then disturbs all sides alike.
    """
    samples: list[list[T]] = [[] for _ in sides]
    for index in range(rounds):
        order = range(len(sides))
        for side in reversed(order) if index % 2 else order:
            samples[side].append(await sides[side]())
    return samples


def ratios(above: Sequence[float], below: Sequence[float]) -> list[float]:
    """Divide sample by sample: both of a pair come from the same round."""
    return [a / b for a, b in zip(above, below, strict=True)]
