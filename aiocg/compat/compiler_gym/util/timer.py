"""How long something takes."""

from collections.abc import Callable
from time import time
from typing import Any, Self

__all__ = ["Timer", "humanize_duration", "humanize_duration_hms"]

_UNITS = ((1e-6, 1e9, "ns", 1), (1e-3, 1e6, "us", 1), (1.0, 1e3, "ms", 1), (60.0, 1.0, "s", 3))


def humanize_duration(seconds: float) -> str:
    """Return a number of seconds as a short text, such as "1.5ms"."""
    value, sign = abs(seconds), "-" if seconds < 0 else ""
    for limit, factor, unit, digits in _UNITS:
        if value < limit:
            return f"{sign}{value * factor:.{digits}f}{unit}"
    return f"{sign}{value:.1f}s"


def humanize_duration_hms(seconds: float) -> str:
    """Return a number of seconds as `hours:minutes:seconds`."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


class Timer:
    """A context manager that takes the time of its block, and prints it if it has a label.

    Args:
        label: printed with the time.
        print_fn: what prints it.
    """

    def __init__(self, label: str | None = None, print_fn: Callable[[str], Any] = print) -> None:
        self._start_time: float | None = None
        self._elapsed: float | None = None
        self.label = label
        self.print_fn = print_fn

    def reset(self) -> Self:
        """Begin to count now, and return the timer."""
        self._start_time = time()
        self._elapsed = None
        return self

    @property
    def time(self) -> float:
        """Seconds that the block took, or since it began; 0 before."""
        if self._elapsed is not None:
            return self._elapsed
        return 0 if self._start_time is None else time() - self._start_time

    def __enter__(self) -> Self:
        return self.reset()

    def __exit__(self, *args: object) -> None:
        self._elapsed = time() - (self._start_time or 0)
        if self.label:
            self.print_fn(f"{self.label} in {self}")

    def __str__(self) -> str:
        return humanize_duration(self.time)
