"""Specific to the environments of loop nests: your own tensor expressions.

Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {"make_benchmark": "benchmarks"}

__all__ = ["make_benchmark"]

if TYPE_CHECKING:
    from aiocg.loops.benchmarks import make_benchmark
else:

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            return getattr(import_module(f"aiocg.loops.{_HOMES[name]}"), name)
        raise AttributeError(f"module 'aiocg.loops' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
