"""Functions that run before and after `main`, in the form that today's linkers and C libraries know.

Target machines made through LLVM's C API put the list of constructors into `.ctors`, which nobody reads any more: clang
and llc choose `.init_array`, by an option that the C API does not have. So the lists are lowered here, to what the code
generator would have made of them.
"""

from ctypes import c_char_p, c_int, c_uint, c_ulonglong, c_void_p
from typing import Any

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMAddGlobal": (c_void_p, (c_void_p, c_void_p, c_char_p)),
    "LLVMConstIntGetZExtValue": (c_ulonglong, (c_void_p,)),
    "LLVMDeleteGlobal": (None, (c_void_p,)),
    "LLVMGetComdat": (c_void_p, (c_void_p,)),
    "LLVMGetInitializer": (c_void_p, (c_void_p,)),
    "LLVMGetNamedGlobal": (c_void_p, (c_void_p, c_char_p)),
    "LLVMGetNumOperands": (c_int, (c_void_p,)),
    "LLVMGetOperand": (c_void_p, (c_void_p, c_uint)),
    "LLVMIsAGlobalObject": (c_void_p, (c_void_p,)),
    "LLVMIsNull": (c_int, (c_void_p,)),
    "LLVMSetComdat": (None, (c_void_p, c_void_p)),
    "LLVMSetInitializer": (None, (c_void_p, c_void_p)),
    "LLVMSetLinkage": (None, (c_void_p, c_int)),
    "LLVMSetSection": (None, (c_void_p, c_char_p)),
    "LLVMTypeOf": (c_void_p, (c_void_p,)),
}

_LISTS = {b"llvm.global_ctors": b".init_array", b"llvm.global_dtors": b".fini_array"}
_NOT_ELF = (b"apple", b"darwin", b"macos", b"windows", b"win32", b"mingw", b"cygwin", b"wasm")
_LAST = 65535  # the priority of what asked for none
_PRIVATE = 9  # LLVMPrivateLinkage


def lower_constructors(module: Module) -> None:
    """Replace the lists of constructors and destructors of a module for ELF by pointers in the sections for them."""
    if any(name in module.triple for name in _NOT_ELF):
        return
    c = _bind(module.library)
    for name, section in _LISTS.items():
        variable = c.LLVMGetNamedGlobal(module.pointer, name)
        if variable:
            entries = c.LLVMGetInitializer(variable)
            for index in range(c.LLVMGetNumOperands(entries)):
                _place(c, module, c.LLVMGetOperand(entries, index), section)
            c.LLVMDeleteGlobal(variable)


def _place(c: Any, module: Module, entry: int, section: bytes) -> None:
    """Put the function of one entry, which is (priority, function, what it belongs to), into a section."""
    priority, function, owner = (c.LLVMGetOperand(entry, index) for index in range(3))
    if c.LLVMIsNull(function):
        return
    number = c.LLVMConstIntGetZExtValue(priority)
    place = c.LLVMAddGlobal(module.pointer, c.LLVMTypeOf(function), b"")
    c.LLVMSetInitializer(place, function)
    c.LLVMSetLinkage(place, _PRIVATE)
    c.LLVMSetSection(place, section if number == _LAST else section + b".%05d" % number)
    if c.LLVMIsAGlobalObject(owner) and (group := c.LLVMGetComdat(owner)):
        c.LLVMSetComdat(place, group)  # it goes when that goes


def _bind(library: Library) -> Any:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library.c
