"""Marking the functions of a program for size, as the front end of `clang -Os` and `clang -Oz` does.

Passes and code generators obey these marks when they choose between forms of code, inline, unroll and align.
`default<Oz>` alone marks nothing.
"""

import re
from typing import Any

from aiocg.workers.llvm._attributes import (
    FUNCTION_INDEX,
    add_attributes,
    add_string_attribute,
    bodies,
    has_attribute,
    kind_of,
    new_attribute,
    string_attribute,
)
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module

__all__ = [
    "FRAME_POINTER",
    "MARKS",
    "MINSIZE",
    "NOTHING",
    "OPTSIZE",
    "Attributes",
    "bound_early",
    "forbids_frame_pointers",
    "mark",
    "mark_function",
    "marked",
]

STUB = 16  # bytes by which a linker lets functions of other libraries be called; without, each call takes one byte more

Attributes = tuple[str, ...]
"""Names of function attributes, or `FRAME_POINTER`."""

NOTHING: Attributes = ()
OPTSIZE: Attributes = ("optsize",)
"""The marks of `clang -Os`."""
MINSIZE: Attributes = ("minsize", "optsize")
"""The marks of `clang -Oz`."""

FRAME_POINTER = "frame-pointer"
"""The mark of `-fno-omit-frame-pointer`. Addresses on the stack take a byte less then, and unwind tables many."""

MARKS: dict[str, Attributes] = {
    "mark<minsize>": MINSIZE,
    "mark<optsize>": OPTSIZE,
    "mark<minsize;frame-pointer>": (*MINSIZE, FRAME_POINTER),
    "mark<optsize;frame-pointer>": (*OPTSIZE, FRAME_POINTER),
}
"""Actions that mark the functions of the current program."""

_X86 = re.compile(rb"x86|i\d86|amd64")
_USES = re.compile(rb"bp|enter|leave|pusha|popa")
_BY_CONVENTION = re.compile(
    rb"\b(?:ghccc|hhvm_?c?cc|cc (?:1[01]|8[12]))\b|@llvm\.(?:read|write)_(?:volatile_)?register"
)
_AGAINST = ("optnone", "optdebug")  # the verifier refuses these with a mark; clang, too, leaves such functions unmarked
_CHOSEN = "aiocg-mark"  # an attribute of functions that have marks of their own
_OURS = "aiocg-frame-pointer"  # and of those that have a frame pointer by a mark


def forbids_frame_pointers(module: Module) -> bool:
    """Return whether a frame pointer may be wrong somewhere in a program, for which LLVM makes wrong code then.

    Inline assembly may use its register, however that is spelled: on other machines than x86 all assembly counts. The
    calling conventions of GHC, HiPE and HHVM pass an argument in it, and a register may be read by its name.
    """
    text, on_x86 = module.write_text(), _X86.search(module.triple)
    lines = (line.lower() for line in text.splitlines() if b" asm " in line)
    return bool(_BY_CONVENTION.search(text)) or any(not on_x86 or _USES.search(line) for line in lines)


def mark(module: Module, attributes: Attributes) -> None:
    """Add attributes to all functions with a body in a module.

    Those that must not be optimised, and those that have marks of their own, stay as they are.
    """
    for function in bodies(module) if attributes else ():
        if not _is_fixed(module, function) and string_attribute(module, function, _CHOSEN) is None:
            _add(module, function, attributes)


def mark_function(module: Module, function: int, attributes: Attributes) -> None:
    """Give a function marks of its own, in place of those that it has, unless it must not be optimised."""
    if _is_fixed(module, function):
        return
    c = module.library.c
    for name in MINSIZE:
        c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind_of(c, name))
    if string_attribute(module, function, _OURS) is not None:
        for name in (_OURS, FRAME_POINTER):
            c.LLVMRemoveStringAttributeAtIndex(function, FUNCTION_INDEX, name.encode(), len(name))
    _add(module, function, attributes)
    add_string_attribute(module, function, _CHOSEN)


def _add(module: Module, function: int, attributes: Attributes) -> None:
    add_attributes(module, [name for name in attributes if name != FRAME_POINTER], [function])
    if FRAME_POINTER in attributes and string_attribute(module, function, FRAME_POINTER) in (None, "none"):
        add_string_attribute(module, function, FRAME_POINTER, "all")
        add_string_attribute(module, function, _OURS)


def _is_fixed(module: Module, function: int) -> bool:
    c = module.library.c
    return has_attribute(c, function, [kind_of(c, name) for name in _AGAINST])


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
