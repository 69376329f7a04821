"""Asyncio-first environments for compiler optimisation."""

__version__ = "0.1.0"
