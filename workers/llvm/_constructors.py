"""Functions that run before and after `main`, in the form that current linkers and C libraries support.

Target machines created through LLVM's C API emit constructors into `.ctors`, which nothing reads any more: clang and
llc select `.init_array` with an option that the C API lacks. So this module lowers the lists itself, to what the code
generator would have emitted.
"""

from typing import Any

from aiocg.workers.llvm.module import Module

_LISTS = {b"llvm.global_ctors": b".init_array", b"llvm.global_dtors": b".fini_array"}
_NOT_ELF = (b"apple", b"darwin", b"macos", b"windows", b"win32", b"mingw", b"cygwin", b"wasm")
_LAST = 65535  # the default priority
_PRIVATE = 9  # LLVMPrivateLinkage


def is_elf(module: Module) -> bool:
    """Return whether object files for a module's target are ELF."""
    return not any(name in module.triple for name in _NOT_ELF)


def lower_constructors(module: Module) -> None:
    """Replace an ELF module's lists of constructors and destructors with pointers in the sections for them."""
    if not is_elf(module):
        return
    c = module.library.c
    for name, section in _LISTS.items():
        variable = c.LLVMGetNamedGlobal(module.pointer, name)
        if variable:
            entries = c.LLVMGetInitializer(variable)
            for index in range(c.LLVMGetNumOperands(entries)):
                _place(c, module, c.LLVMGetOperand(entries, index), section)
            c.LLVMDeleteGlobal(variable)


def _place(c: Any, module: Module, entry: int, section: bytes) -> None:
    """Place the function of one entry, which is (priority, function, associated global), in a section."""
    priority, function, owner = (c.LLVMGetOperand(entry, index) for index in range(3))
    if c.LLVMIsNull(function):
        return
    number = c.LLVMConstIntGetZExtValue(priority)
    place = c.LLVMAddGlobal(module.pointer, c.LLVMTypeOf(function), b"")
    c.LLVMSetInitializer(place, function)
    c.LLVMSetLinkage(place, _PRIVATE)
    c.LLVMSetSection(place, section if number == _LAST else section + b".%05d" % number)
    if c.LLVMIsAGlobalObject(owner) and (group := c.LLVMGetComdat(owner)):
        c.LLVMSetComdat(place, group)  # the linker discards both together
