"""Means that are 0 of nothing."""

from typing import Any

import numpy as np

__all__ = ["arithmetic_mean", "geometric_mean", "stdev"]


def geometric_mean(array_like: Any) -> float:
    """Return the geometric mean; 0 of nothing, and when a value is not positive."""
    values = np.asarray(array_like)
    if not values.size or not np.all(values > 0):
        return 0
    return float(np.exp(np.log(values).mean()))


def arithmetic_mean(array_like: Any) -> float:
    """Return the arithmetic mean; 0 of nothing."""
    values = np.asarray(array_like)
    return float(values.mean()) if values.size else 0


def stdev(array_like: Any) -> float:
    """Return the standard deviation of a population; 0 of nothing."""
    values = np.asarray(array_like)
    return float(values.std()) if values.size else 0
