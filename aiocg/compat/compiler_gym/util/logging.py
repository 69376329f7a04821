"""Log records on standard output."""

import logging as logging_
import sys

__all__ = ["init_logging"]


def init_logging(level: int = logging_.INFO, logger: logging_.Logger | None = None) -> None:
    """Have a logger print its records, with the time and its name before each.

    Args:
        level: of the least important records that are printed.
        logger: which one; the root if None.
    """
    logger = logger or logging_.getLogger()
    logger.setLevel(level)
    handler = logging_.StreamHandler(sys.stdout)
    handler.setLevel(level)
    handler.setFormatter(logging_.Formatter(fmt="%(asctime)s %(name)s] %(message)s", datefmt="%m%d %H:%M:%S"))
    logger.addHandler(handler)
