"""What results mean: ratios, their means over programs with intervals, and the best cost over time."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.search.runs import RUNTIME
from bench.search.stored import Row

STRONGER, USUAL = ("OzMinsize", "found"), ("Oz", "found_usual")
LEVEL, CODE = ("level", "found"), ("code_OzMinsize", "code")
"""Keys of a baseline and of what is compared with it; the last is of machine code without any data."""


def compares(row: Row) -> bool:
    """Say whether there is something to compare: of a program that cannot be loaded, or run, there is nothing."""
    return ("ratio" if row["goal"] == RUNTIME else "OzMinsize") in row


def counts(row: Row) -> bool:
    """Say whether the result counts: not if the search failed, nor if the program does not do what it should."""
    return "error" not in row and row["valid"] is not False


def ratio(row: Row, names: tuple[str, str] = STRONGER) -> float:
    """Return how many times smaller, or faster, the result is than a baseline; 1 for a result that does not count."""
    if not counts(row):
        return 1.0
    if row["goal"] == RUNTIME:
        return float(row["ratio"])
    baseline, found = names
    return float(max(row[baseline], 1) / max(row[found], 1))


def by_program(rows: Iterable[Row], names: tuple[str, str] = STRONGER) -> dict[str, float]:
    """Return the logarithm of the geometric mean over the seeds of each program."""
    logs: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        logs[row["program"]].append(float(np.log(ratio(row, names))))
    return {program: float(np.mean(found)) for program, found in logs.items()}


def shares_best(searches: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the share of the programs of each search on which no search is better; where some are equal, each counts.

    Args:
        searches: what `by_program` returns, of each.
    """
    best: dict[str, float] = defaultdict(lambda: -np.inf)
    for found in searches.values():
        for program, log in found.items():
            best[program] = max(best[program], log)
    return {
        name: float(np.mean([log >= best[program] - 1e-9 for program, log in found.items()]))
        for name, found in searches.items()
    }


def anytime(rows: Sequence[Row]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return seconds, and the geometric mean over programs of what the searches had found by then, as a ratio.

    It begins when each of them has found something, so that it is a mean of all programs all the time. A result that
    does not count is 1 all the time.
    """
    curves = [_curve(row) for row in rows]
    begin = max(float(times[0]) for times, _ in curves)
    end = max(max(float(times[-1]) for times, _ in curves), *(row["seconds"] for row in rows))
    later = [times[times > begin] for times, _ in curves]
    seconds = np.unique(np.concatenate([[begin, end], *later]))
    programs: dict[str, list[NDArray[np.float64]]] = defaultdict(list)
    for row, (times, logs) in zip(rows, curves, strict=True):
        programs[row["program"]].append(logs[np.searchsorted(times, seconds, side="right") - 1])
    return seconds, np.exp(np.mean([np.mean(runs, axis=0) for runs in programs.values()], axis=0))


def _curve(row: Row) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return times and logarithms of ratios of one search."""
    if not counts(row) or not row["curve"]:
        return np.zeros(1), np.zeros(1)
    points = np.array(row["curve"], dtype=np.float64)
    baseline = 1 if row["goal"] == RUNTIME else max(row["OzMinsize"], 1)
    return points[:, 0], np.log(baseline / np.maximum(points[:, 2], 1e-9 if row["goal"] == RUNTIME else 1))
