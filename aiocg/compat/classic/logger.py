"""Gym's logger: it drops messages below a level."""

import warnings
from collections.abc import Callable

DEBUG, INFO, WARN, ERROR, DISABLED = 10, 20, 30, 40, 50
MIN_LEVEL = WARN


def set_level(level: int) -> None:
    """Drop messages below this level from now on."""
    global MIN_LEVEL
    MIN_LEVEL = level


def warn(message: str, *args: object) -> None:
    """Issue a Python warning."""
    if MIN_LEVEL <= WARN:
        warnings.warn(message % args if args else message, stacklevel=2)


def _printer(level: int, name: str) -> Callable[..., None]:
    def show(message: str, *args: object) -> None:
        if level >= MIN_LEVEL:
            print(f"{name}: {message % args if args else message}")

    show.__doc__ = f"Print a message of the level {name}."
    return show


debug, info, error = _printer(DEBUG, "DEBUG"), _printer(INFO, "INFO"), _printer(ERROR, "ERROR")
setLevel = set_level
