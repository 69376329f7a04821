"""Text formatting: truncation, tables, durations and means."""

import csv
import io
import itertools
import shlex
from collections import deque
from collections.abc import Callable, Iterable
from time import time
from typing import Any, Self

import numpy as np
import tabulate as library


def truncate(string: object, max_line_len: int = 60, max_lines: int = 1, tail: bool = False) -> str:
    """Truncate text to a number of lines and characters per line, marking omissions with "..."."""
    return truncate_lines(str(string).split("\n"), max_line_len, max_lines, tail)


def truncate_lines(lines: Iterable[object], max_line_len: int = 60, max_lines: int = 1, tail: bool = False) -> str:
    """Truncate and join lines as `truncate` does, consuming no more of them than necessary."""
    if max_line_len <= 3:
        raise ValueError(f"a line of {max_line_len} characters is too short for text and dots")

    def cut(line: str) -> str:
        return line if len(line) <= max_line_len else f"{line[: max_line_len - 3]}..."

    remaining = iter(lines)
    kept = deque(remaining, max_lines) if tail else list(itertools.islice(remaining, max_lines))
    result = [cut(str(line)) for line in kept]
    if result and next(remaining, None) is not None:
        result[-1] = cut(f"{result[-1]}...")
    return "\n".join(result)


_UNITS = ((1e-6, 1e9, "ns", 1), (1e-3, 1e6, "us", 1), (1.0, 1e3, "ms", 1), (60.0, 1.0, "s", 3))


def humanize_duration(seconds: float) -> str:
    """Format a duration in seconds as short text, such as "1.5ms"."""
    value, sign = abs(seconds), "-" if seconds < 0 else ""
    for limit, factor, unit, digits in _UNITS:
        if value < limit:
            return f"{sign}{value * factor:.{digits}f}{unit}"
    return f"{sign}{value:.1f}s"


def humanize_duration_hms(seconds: float) -> str:
    """Format a duration in seconds as `hours:minutes:seconds`."""
    whole = int(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"


class Timer:
    """A context manager that times its block, and prints the duration if it has a label."""

    def __init__(self, label: str | None = None, print_fn: Callable[[str], Any] = print) -> None:
        self._start_time: float | None = None
        self._elapsed: float | None = None
        self.label, self.print_fn = label, print_fn

    def reset(self) -> Self:
        """Restart the timer and return it."""
        self._start_time, self._elapsed = time(), None
        return self

    @property
    def time(self) -> float:
        """The duration of the block in seconds, or the time since it was entered; 0 before."""
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


_SEPARATORS = {"csv": ",", "tsv": "\t"}


def tabulate(rows: Iterable[Iterable[Any]], headers: Iterable[str], tablefmt: str | None = "grid") -> str:
    """Format a table."""
    if tablefmt in _SEPARATORS:
        buffer = io.StringIO()
        writer = csv.writer(buffer, delimiter=_SEPARATORS[tablefmt or ""])
        writer.writerow([str(header) for header in headers])
        writer.writerows([str(cell) for cell in row] for row in rows)
        return buffer.getvalue()
    return str(library.tabulate(rows, headers=headers, tablefmt=tablefmt))


class ShellFormatCodes:
    """Escape sequences for terminals."""

    RED, GREEN, YELLOW, BLUE, PURPLE, CYAN = (f"\033[{number}m" for number in range(91, 97))
    DARKCYAN, BOLD, UNDERLINE, END = (f"\033[{number}m" for number in (36, 1, 4, 0))


def emph(stringable: object) -> str:
    """Format text in bold blue."""
    return f"{ShellFormatCodes.BOLD}{ShellFormatCodes.BLUE}{stringable}{ShellFormatCodes.END}"


def plural(quantity: int, singular: str, plural: str) -> str:
    """Return the singular or plural form for a quantity."""
    return singular if quantity == 1 else plural


def indent(string: object, n: int = 4) -> str:
    """Indent each line of a text."""
    return "\n".join(" " * n + line for line in str(string).split("\n"))


join_cmd = shlex.join


def geometric_mean(array_like: Any) -> float:
    """Return the geometric mean, or 0 if there are no values or one is not positive."""
    values = np.asarray(array_like)
    return float(np.exp(np.log(values).mean())) if values.size and np.all(values > 0) else 0


def arithmetic_mean(array_like: Any) -> float:
    """Return the arithmetic mean, or 0 if there are no values."""
    values = np.asarray(array_like)
    return float(values.mean()) if values.size else 0


def stdev(array_like: Any) -> float:
    """Return the population standard deviation, or 0 if there are no values."""
    values = np.asarray(array_like)
    return float(values.std()) if values.size else 0
