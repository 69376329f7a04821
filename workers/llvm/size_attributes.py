"""Marking the functions of a program for size, as the front end of `clang -Os` and `clang -Oz` does.

Passes and code generators obey these marks when they choose between forms of code, inline, unroll and align.
`default<Oz>` alone marks nothing.
"""

from aiocg.workers.llvm.attributes import add_attributes
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module

__all__ = ["MARKS", "MINSIZE", "NOTHING", "OPTSIZE", "Attributes", "mark", "marked"]

Attributes = tuple[str, ...]
"""Names of function attributes."""

NOTHING: Attributes = ()
OPTSIZE: Attributes = ("optsize",)
"""The marks of `clang -Os`."""
MINSIZE: Attributes = ("minsize", "optsize")
"""The marks of `clang -Oz`."""

MARKS = {"mark<minsize>": MINSIZE, "mark<optsize>": OPTSIZE}
"""Actions that mark the functions of the current program."""

_AGAINST = ("optnone", "optdebug")  # the verifier refuses these with a mark; clang, too, leaves such functions unmarked


def mark(module: Module, attributes: Attributes) -> None:
    """Add attributes to all functions with a body in a module, except those that must not be optimised."""
    if attributes:
        add_attributes(module, attributes, unless=_AGAINST)


def marked(library: Library, content: bytes, attributes: Attributes) -> bytes:
    """Return a program, given as bitcode or textual IR, as bitcode with marks.

    Raises:
        LlvmError: if LLVM cannot read it.
    """
    with Module.parse(library, content) as module:
        mark(module, attributes)
        return module.write_bitcode()
