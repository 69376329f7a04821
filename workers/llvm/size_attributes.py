"""Marking the functions of a program for size, as the front end of `clang -Os` and `clang -Oz` does.

Passes and code generators obey these marks when they choose between forms of code, inline, unroll and align.
`default<Oz>` alone marks nothing.
"""

from typing import Any

from aiocg.workers.llvm._attributes import FUNCTION_INDEX, add_attributes, new_attribute
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module

__all__ = ["MARKS", "MINSIZE", "NOTHING", "OPTSIZE", "Attributes", "bound_early", "mark", "marked"]

STUB = 16  # bytes by which a linker lets functions of other libraries be called; without, each call takes one byte more

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


def bound_early(library: Library, content: bytes) -> bytes:
    """Return a program, given as bitcode, that calls functions elsewhere without stubs, where that takes less bytes.

    Raises:
        LlvmError: if LLVM cannot read it.
    """
    c = library.c
    with Module.parse(library, content) as module:
        attribute = new_attribute(module, "nonlazybind")
        for function in module.listed("Function"):
            if c.LLVMIsDeclaration(function) and not c.LLVMGetIntrinsicID(function) and _uses(c, function) <= STUB:
                c.LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute)
        return module.write_bitcode()


def _uses(c: Any, function: int) -> int:
    """Count uses of a function, up to one more than matters."""
    count, use = 0, c.LLVMGetFirstUse(function)
    while use and count <= STUB:
        count, use = count + 1, c.LLVMGetNextUse(use)
    return count
