"""Specific to the GCC environments: the options, choosing all of them at once, and your own programs.

Names are imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["DroppedOption", "GccSpec", "InvalidSpec", "choices", "make_benchmark", "set_choices", "spec"]

if TYPE_CHECKING:
    from aiocg.gcc._benchmarks import make_benchmark
    from aiocg.gcc.compiler_spec import DroppedOption, GccSpec, InvalidSpec, choices, set_choices, spec
else:

    def __getattr__(name: str) -> Any:
        if name in __all__:
            home = "_benchmarks" if name == "make_benchmark" else "compiler_spec"
            return getattr(import_module(f"aiocg.gcc.{home}"), name)
        raise AttributeError(f"module 'aiocg.gcc' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted(__all__)
