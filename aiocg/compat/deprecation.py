"""Names that CompilerGym had deprecated: they work, and warn what to use in their place."""

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(version: str, reason: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function warn whenever it is called.

    Args:
        version: of CompilerGym, since which it is deprecated.
        reason: what to do instead.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def warn(*args: P.args, **kwargs: P.kwargs) -> R:
            text = f"Call to deprecated function (or staticmethod) {function.__name__}. ({reason})"
            warnings.warn(f"{text} -- Deprecated since version {version}.", DeprecationWarning, stacklevel=2)
            return function(*args, **kwargs)

        return warn

    return decorate
