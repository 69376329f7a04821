"""Attributes of functions and calls, by name, and marks of functions for size as `clang -Os` and `-Oz` set them.

Passes and code generators obey these marks when they choose between forms of code, inline, unroll and align.
`default<Oz>` alone marks nothing.
"""

import ctypes
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_uint
from typing import Any

from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.module import Module, NoSuchTarget, uses

FUNCTION_INDEX = 0xFFFFFFFF  # LLVMAttributeFunctionIndex: of a function or call itself, not its result or parameters


def kind_of(c: Any, name: str) -> int:
    """Return LLVM's number for an attribute, 0 if the release lacks it."""
    kind: int = c.LLVMGetEnumAttributeKindForName(name.encode(), len(name))
    return kind


def new_attribute(module: Module, name: str) -> int:
    """Create an attribute without a value in the module's context."""
    c = module.library.c
    attribute: int = c.LLVMCreateEnumAttribute(module.context.pointer, kind_of(c, name), 0)
    return attribute


def new_string_attribute(module: Module, name: str, value: str = "") -> int:
    """Create an attribute that has any name in the module's context."""
    key, text = name.encode(), value.encode()
    create = module.library.c.LLVMCreateStringAttribute
    attribute: int = create(module.context.pointer, key, len(key), text, len(text))
    return attribute


def has_attribute(c: Any, function: int, kinds: Sequence[int]) -> bool:
    """Return whether a function has an attribute of one of these kinds; kind 0 is ignored."""
    return any(kind and c.LLVMGetEnumAttributeAtIndex(function, FUNCTION_INDEX, kind) for kind in kinds)


def bodies(module: Module) -> list[int]:
    """Return the functions that have a body."""
    return [one for one in module.listed("Function") if not module.library.c.LLVMIsDeclaration(one)]


def defined_function(module: Module, name: bytes) -> int:
    """Return the function with this name, which must have a body.

    Raises:
        NoSuchTarget: if there is none.
    """
    function = module.function(name)
    if function is None:
        raise NoSuchTarget(f"the program has no function {quote(name)}")
    if module.library.c.LLVMIsDeclaration(function):
        raise NoSuchTarget(f"the program only declares {quote(name)}")
    return function


def add_attributes(module: Module, names: Sequence[str], functions: Iterable[int]) -> None:
    """Add attributes without values to functions."""
    added = [new_attribute(module, name) for name in names]
    for function in functions:
        for attribute in added:
            module.library.c.LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute)


def add_string_attribute(module: Module, function: int, name: str, value: str = "") -> None:
    """Give a function an attribute that has any name, in place of one of that name."""
    attribute = new_string_attribute(module, name, value)
    module.library.c.LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute)


def string_attribute(module: Module, function: int, name: str) -> str | None:
    """Return the value of an attribute of a function that has any name, None if it has none of that name."""
    return _value(module.library.c.LLVMGetStringAttributeAtIndex, module, function, name)


def call_attribute(module: Module, call: int, name: str) -> str | None:
    """Return the value of an attribute of a call that has any name, None if it has none of that name."""
    return _value(module.library.c.LLVMGetCallSiteStringAttribute, module, call, name)


def _value(get: Any, module: Module, owner: int, name: str) -> str | None:
    key, length = name.encode(), c_uint()
    attribute = get(owner, FUNCTION_INDEX, key, len(key))
    if not attribute:
        return None
    text = module.library.c.LLVMGetStringAttributeValue(attribute, byref(length))
    return ctypes.string_at(text, length.value).decode()


@contextmanager
def hidden(module: Module, name: str) -> Iterator[None]:
    """Remove an attribute without a value from all functions for a while."""
    c, kind = module.library.c, kind_of(module.library.c, name)
    found = [function for function in module.listed("Function") if has_attribute(c, function, [kind])]
    for function in found:
        c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind)
    try:
        yield
    finally:
        for function in found:
            c.LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, new_attribute(module, name))


STUB = 16  # bytes by which a linker lets functions of other libraries be called; without, each call takes one byte more

Attributes = tuple[str, ...]
"""Names of function attributes, or `FRAME_POINTER`."""

NOTHING: Attributes = ()
OPTSIZE: Attributes = ("optsize",)
"""The marks of `clang -Os`."""
MINSIZE: Attributes = ("minsize", "optsize")
"""The marks of `clang -Oz`."""

SPEED: Attributes = NOTHING
"""The marks of `clang -O2` and `clang -O3`."""

FRAME_POINTER = "frame-pointer"
"""The mark of `-fno-omit-frame-pointer`. Addresses on the stack take a byte less then, and unwind tables many."""

MARKS: dict[str, Attributes] = {
    "mark<minsize>": MINSIZE,
    "mark<optsize>": OPTSIZE,
    "mark<speed>": SPEED,
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
_CHOSEN = "aiocg-size-mark"  # an attribute of functions that keep their marks where others are marked for a measure
_ALL, _ONE = "all", "one"  # its values: all functions were marked alike, or this one alone
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
    """Add attributes to all functions with a body in a module, as the front end does or a measure wants.

    Those that must not be optimised, and those whose marks were chosen, stay as they are.
    """
    for function in bodies(module) if attributes else ():
        if not _is_fixed(module, function) and string_attribute(module, function, _CHOSEN) is None:
            _add(module, function, attributes)


def mark_all(module: Module, attributes: Attributes) -> None:
    """Give the functions of a module marks in place of those that they have, unless they have marks of their own.

    Functions that must not be optimised stay as they are, and `minsize` is for those that no other mark was chosen for:
    it is what measures of size mark functions with.
    """
    if "minsize" in attributes:
        mark(module, attributes)
        return
    for function in bodies(module):
        if string_attribute(module, function, _CHOSEN) != _ONE:
            _mark(module, function, attributes, _ALL)


def mark_function(module: Module, function: int, attributes: Attributes) -> None:
    """Give a function marks of its own, in place of those that it has, unless it must not be optimised."""
    _mark(module, function, attributes, _ONE)


def _mark(module: Module, function: int, attributes: Attributes, chosen: str) -> None:
    if _is_fixed(module, function):
        return
    c = module.library.c
    for name in MINSIZE:
        c.LLVMRemoveEnumAttributeAtIndex(function, FUNCTION_INDEX, kind_of(c, name))
    ours = (_OURS, FRAME_POINTER) if string_attribute(module, function, _OURS) is not None else ()
    for name in (_CHOSEN, *ours):
        c.LLVMRemoveStringAttributeAtIndex(function, FUNCTION_INDEX, name.encode(), len(name))
    _add(module, function, attributes)
    if chosen:
        add_string_attribute(module, function, _CHOSEN, chosen)


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
            if c.LLVMIsDeclaration(function) and not c.LLVMGetIntrinsicID(function) and _is_little_used(c, function):
                c.LLVMAddAttributeAtIndex(function, FUNCTION_INDEX, attribute)
        return module.write_bitcode()


def _is_little_used(c: Any, function: int) -> bool:
    return next(itertools.islice(uses(c, function), STUB, None), None) is None
