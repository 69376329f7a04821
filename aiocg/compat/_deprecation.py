"""Warnings for deprecated names of CompilerGym, attributed to the user's line of code."""

import functools
import sys
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_BETWEEN = ("aiocg", "abc", "concurrent", "contextlib", "functools", "threading")  # us, and libraries that call us

P = ParamSpec("P")
R = TypeVar("R")


def outside() -> int:
    """Return the `stacklevel` that attributes a warning of the caller to the user's code."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] in _BETWEEN:
        level, frame = level + 1, frame.f_back
    return level


def deprecated(version: str, reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function issue a DeprecationWarning when called."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warn(*args: P.args, **kwargs: P.kwargs) -> R:
            text = f"Call to deprecated function (or staticmethod) {function.__name__}. ({reason})"
            warnings.warn(f"{text} -- Deprecated since version {version}.", DeprecationWarning, stacklevel=outside())
            return function(*args, **kwargs)

        return warn

    return decorate
