"""How much is logged: a level from 0 to 3 in `COMPILER_GYM_DEBUG`, which child processes inherit."""

import logging
import os

__all__ = ["get_debug_level", "get_logging_level", "logging_level_to_debug_level", "set_debug_level"]

_LEVELS = (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG)


def _logging_level(level: int) -> int:
    return _LEVELS[level] if 0 <= level < len(_LEVELS) else logging.DEBUG


def get_debug_level() -> int:
    """Return the debugging level: 0 for errors, 1 also warnings, 2 also information, 3 and more everything."""
    return max(int(os.environ.get("COMPILER_GYM_DEBUG", "0")), 0)


def get_logging_level() -> int:
    """Return the level of the module `logging` that goes with the debugging level."""
    return _logging_level(get_debug_level())


def set_debug_level(level: int) -> None:
    """Set the debugging level of this process, and the level of the logger `compiler_gym`.

    Args:
        level: see `get_debug_level`.
    """
    os.environ["COMPILER_GYM_DEBUG"] = str(level)
    logging.getLogger("compiler_gym").setLevel(_logging_level(level))


def logging_level_to_debug_level(logging_level: int) -> int:
    """Return the debugging level for a level of the module `logging`, as CompilerGym computes it: one less."""
    return max((_LEVELS.index(logging_level) if logging_level in _LEVELS else 1) - 1, 0)
