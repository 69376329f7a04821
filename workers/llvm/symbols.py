"""Which symbols a module defines, and which it needs from others: what a linker asks of an object."""

import ctypes
from ctypes import POINTER, c_int, c_size_t, c_void_p
from typing import Any

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Module

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    **{f"LLVMGetFirst{kind}": (c_void_p, (c_void_p,)) for kind in ("Function", "Global", "GlobalAlias", "GlobalIFunc")},
    **{f"LLVMGetNext{kind}": (c_void_p, (c_void_p,)) for kind in ("Function", "Global", "GlobalAlias", "GlobalIFunc")},
    "LLVMGetLinkage": (c_int, (c_void_p,)),
    "LLVMGetValueName2": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "LLVMIsDeclaration": (c_int, (c_void_p,)),
}

# LLVMLinkage
_AVAILABLE_EXTERNALLY, _INTERNAL, _PRIVATE, _EXTERNAL_WEAK = 1, 8, 9, 12
_WEAK = (2, 3, 5, 6, 14)  # linkonce, linkonce_odr, weak, weak_odr and common: another definition may take their place


def symbols(library: Library, content: bytes) -> dict[str, list[str]]:
    """Return the names of a module's symbols.

    Assembly in the module is not looked into.

    Args:
        library: the LLVM to use.
        content: bitcode or textual IR.

    Returns:
        Lists of names: those `defined`, those defined only if nobody else does (`weak`), and those `undefined`, without
        those that may stay so.

    Raises:
        LlvmError: when the content cannot be read or is not valid.
    """
    c = _bound(library)
    found: dict[str, list[str]] = {"defined": [], "weak": [], "undefined": []}
    with Module.parse(library, content) as module:
        for kind in ("Function", "Global", "GlobalAlias", "GlobalIFunc"):
            one = getattr(c, f"LLVMGetFirst{kind}")(module.pointer)
            while one:
                linkage = c.LLVMGetLinkage(one)
                name = _name(c, one)
                if linkage in (_INTERNAL, _PRIVATE, _EXTERNAL_WEAK) or name.startswith("llvm.") or not name:
                    pass
                elif c.LLVMIsDeclaration(one) or linkage == _AVAILABLE_EXTERNALLY:
                    found["undefined"].append(name)
                else:
                    found["weak" if linkage in _WEAK else "defined"].append(name)
                one = getattr(c, f"LLVMGetNext{kind}")(one)
    return found


def _bound(library: Library) -> Any:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library.c


def _name(c: Any, value: int) -> str:
    length = c_size_t()
    text = c.LLVMGetValueName2(value, ctypes.byref(length))
    return ctypes.string_at(text, length.value).decode("utf-8", "surrogateescape").removeprefix("\1")
