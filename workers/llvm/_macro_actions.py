"""Pipelines of macro actions, for a given library.

They use the names of `passes.toml`; `spelled` spells passes as a release does and omits those that the release lacks.
"""

from collections.abc import Mapping

from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._pass_table import CLANG_OZ_PIPELINES
from aiocg.workers.llvm._passes import Pass
from aiocg.workers.llvm._pipeline_text import Element, read, write

CLANG_OZ = "clang<Oz>"
"""The action that runs the passes of `clang -Oz`."""

_MANAGERS = ("cgscc", "function", "loop", "loop-mssa")
_AS_THEY_ARE = ("default", "loop-vectorize", "scc-oz-module-inliner")  # not names of `Passes`, or with parameters


def clang_oz(library: Library) -> str:
    """Return the pipeline of `CLANG_OZ`: `default<Oz>` for releases of LLVM whose pipeline is not known."""
    return CLANG_OZ_PIPELINES.get(library.version[0], "default<Oz>")


def spelled(pipeline: str, passes: Mapping[str, Pass]) -> str:
    """Translate a pipeline from the names of `passes.toml` to those of one library.

    Args:
        pipeline: a module pipeline.
        passes: the library's passes, by name.
    """
    return write(_spelled(read(pipeline), passes))


def _spelled(elements: tuple[Element, ...], passes: Mapping[str, Pass]) -> tuple[Element, ...]:
    kept: list[Element] = []
    for element in elements:
        if element.name in _MANAGERS:
            if inner := _spelled(element.inner, passes):
                kept.append(Element(element.name, inner))
        elif element.name.partition("<")[0] in _AS_THEY_ARE:
            kept.append(element)
        elif element.name in passes:
            own = read(passes[element.name].pipeline)
            kept.extend(own[0].inner or own)
    return tuple(kept)
