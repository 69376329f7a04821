"""Attributes of functions and calls, by name."""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from ctypes import byref, c_uint
from typing import Any

from aiocg.workers.llvm._action_text import quote
from aiocg.workers.llvm.module import Module, NoSuchTarget

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
