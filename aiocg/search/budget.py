"""Limits of a search: seconds and evaluations."""

import math
import operator
import sys
import time
from dataclasses import dataclass, field
from numbers import Real
from typing import SupportsIndex


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in time, in evaluations, or both; the search ends at the first that is reached.

    Attributes:
        seconds: of wall time; None is no limit.
        evaluations: states whose reward is computed; None is no limit. Exactly so many are, if the search does not end
            before, so that how the work was shared makes no difference.

    Raises:
        TypeError: if a limit is not a number.
        ValueError: if `seconds` is negative or not finite, or `evaluations` is less than 1.
    """

    seconds: float | None = None
    evaluations: int | None = None

    def __post_init__(self) -> None:
        """Check both limits."""
        seconds, evaluations = self.seconds, self.evaluations
        wanted = "seconds is a finite number of at least 0, such as 10, or None for no limit"
        if seconds is not None:
            if isinstance(seconds, bool) or not isinstance(seconds, Real):
                raise TypeError(f"{wanted}, not {seconds!r}")
            if not (math.isfinite(seconds) and seconds >= 0):
                raise ValueError(f"{wanted}, not {seconds!r}")
        wanted = "evaluations is a whole number of at least 0, such as 500, or None for no limit"
        if evaluations is not None:
            if isinstance(evaluations, bool) or not isinstance(evaluations, SupportsIndex):
                raise TypeError(f"{wanted}, not {evaluations!r}")
            if operator.index(evaluations) < 0:
                raise ValueError(f"{wanted}, not {evaluations!r}")

    def part(self, share: float) -> "Budget":
        """Return a budget that is a share of this one."""
        return Budget(
            None if self.seconds is None else self.seconds * share,
            None if self.evaluations is None else math.ceil(self.evaluations * share),
        )

    def part_of_time(self, share: float) -> "Budget":
        """Return a budget with a share of this one's time, and all of its evaluations."""
        return Budget(self.part(share).seconds, self.evaluations)

    def start(self) -> "Meter":
        """Start to measure."""
        return Meter(self)


def checked(budget: Budget | None, default: Budget) -> Budget:
    """Return a budget that a search was given, or its default.

    Raises:
        TypeError: if it is not a budget.
    """
    if budget is not None and not isinstance(budget, Budget):
        raise TypeError(
            f"budget is an aiocg.search.Budget, such as Budget(seconds=10) or Budget(evaluations=500), not {budget!r}"
        )
    return default if budget is None else budget


@dataclass(slots=True, eq=False)
class Meter:
    """Measures the use of a budget.

    Attributes:
        budget: what is measured; after another is put here, as much is used of that.
        evaluations: used so far.
        stopped: the time counts as used up now, whatever the budget.
    """

    budget: Budget
    evaluations: int = 0
    stopped: bool = False
    _started: float = field(default_factory=time.monotonic, init=False)

    def restart(self) -> None:
        """Take no account of the time until now."""
        self._started = time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def seconds(self) -> float | None:
        """How many seconds there may be in all, None if there is no limit."""
        return self.budget.seconds

    @property
    def evaluation_limit(self) -> int | None:
        """How many evaluations there may be in all, None if there is no limit."""
        limit = self.budget.evaluations
        return None if limit is None else int(limit)  # sizes of spaces are NumPy's integers, which JSON does not know

    @property
    def out_of_time(self) -> bool:
        """Is the time used up?"""
        seconds = self.budget.seconds
        return self.stopped or (seconds is not None and self.elapsed >= seconds)

    @property
    def used(self) -> float:
        """The part of the budget that is used, of time or of evaluations, whichever is more; 0 without a limit."""
        seconds, limit = self.budget.seconds, self.evaluation_limit
        return max(
            1.0 if self.stopped else 0.0,
            0.0 if seconds is None else self.elapsed / seconds if seconds else 1.0,
            0.0 if limit is None else self.evaluations / limit,
        )

    def left(self, share: float = 1.0) -> float:
        """Return how many seconds are left of a share of the time, at least 0; infinite without a limit."""
        limit = self.budget.seconds
        return math.inf if limit is None else max(0.0, limit * share - self.elapsed)

    def fitting(self, seconds: float) -> int:
        """Return how many evaluations one after the other, of so many seconds each, there is time for; at least one."""
        limit = self.budget.seconds
        return sys.maxsize if limit is None or not seconds else max(1, int((limit - self.elapsed) / seconds))

    def allows(self, evaluations: int) -> bool:
        """Is there time, and may there be so many more evaluations?"""
        limit = self.evaluation_limit
        return not self.out_of_time and (limit is None or self.evaluations + evaluations <= limit)
