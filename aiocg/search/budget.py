"""How long a search may go on."""

import time
from dataclasses import dataclass

__all__ = ["Budget"]


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit in time, in evaluations, or both; the search ends at the first that is reached.

    Attributes:
        seconds: of wall time; None is no limit.
        evaluations: states whose reward is computed; None is no limit.
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
    def remaining_evaluations(self) -> int | None:
        """How many more there may be, None if there is no limit."""
        limit = self._budget.evaluations
        return None if limit is None else max(limit - self.evaluations, 0)

    @property
    def exhausted(self) -> bool:
        """Is there nothing left?"""
        seconds = self._budget.seconds
        return (seconds is not None and self.elapsed >= seconds) or self.remaining_evaluations == 0
