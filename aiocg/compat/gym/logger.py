"""Gym's logger: messages with a level, of which those below the set one are dropped."""

import warnings

__all__ = ["DEBUG", "DISABLED", "ERROR", "INFO", "WARN", "debug", "error", "info", "setLevel", "set_level", "warn"]

DEBUG = 10
INFO = 20
WARN = 30
ERROR = 40
DISABLED = 50

MIN_LEVEL = WARN


def set_level(level: int) -> None:
    """Drop the messages below a level.

    Args:
        level: one of `DEBUG`, `INFO`, `WARN`, `ERROR` and `DISABLED`.
    """
    global MIN_LEVEL
    MIN_LEVEL = level


setLevel = set_level


def debug(message: str, *args: object) -> None:
    """Print a message for whoever looks for an error."""
    _print(DEBUG, "DEBUG", message, args)


def info(message: str, *args: object) -> None:
    """Print a message."""
    _print(INFO, "INFO", message, args)


def warn(message: str, *args: object) -> None:
    """Warn, with Python's warnings."""
    if MIN_LEVEL <= WARN:
        warnings.warn(message % args if args else message, stacklevel=2)


def error(message: str, *args: object) -> None:
    """Print an error."""
    _print(ERROR, "ERROR", message, args)


def _print(level: int, name: str, message: str, args: tuple[object, ...]) -> None:
    if level >= MIN_LEVEL:
        print(f"{name}: {message % args if args else message}")
