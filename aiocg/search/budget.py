"""How long a search may go on."""

import time
from dataclasses import dataclass

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in time, in evaluations, or both; the search ends at the first that is reached.

    Attributes:
        seconds: of wall time; None is no limit.
        evaluations: states whose reward is computed; None is no limit. A search that would exceed it with its next
            step stops before that step, so that how the work was shared makes no difference.
    """

    seconds: float | None = None
    evaluations: int | None = None

    def start(self) -> "Meter":
        """Start to measure."""
        return Meter(self)


class Meter:
    """Measures the use of a budget.

    Attributes:
        evaluations: used so far.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._started = time.monotonic()
        self.evaluations = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._started

    @property
    def evaluation_limit(self) -> int | None:
        """How many evaluations there may be in all, None if there is no limit."""
        limit = self._budget.evaluations
        return None if limit is None else int(limit)  # sizes of spaces are NumPy's integers, which JSON does not know

    @property
    def out_of_time(self) -> bool:
        """Is the time used up?"""
        seconds = self._budget.seconds
        return seconds is not None and self.elapsed >= seconds

    def allows(self, evaluations: int) -> bool:
        """Is there time, and may there be so many more evaluations?"""
        limit = self.evaluation_limit
        return not self.out_of_time and (limit is None or self.evaluations + evaluations <= limit)
