"""Telling programs apart, cheapest evidence first: `native/equality.c` and its Python face."""

import ctypes
import hashlib
from ctypes import c_size_t, c_uint64, c_void_p

from aiocg.workers.llvm.module import Module
from aiocg.workers.llvm.native_library import NativeLibrary

__all__ = ["Equality", "digest"]


class Equality:
    """Compares modules of one loaded libLLVM; it holds no state between calls."""

    def __init__(self, native: NativeLibrary) -> None:
        self._native, self._functions = native.c, native.llvm
        self._native.aiocg_fingerprint.argtypes = (c_void_p, c_void_p)
        self._native.aiocg_fingerprint.restype = c_uint64
        self._native.aiocg_plain_text.argtypes = (c_void_p,)
        self._native.aiocg_plain_text.restype = c_size_t

    def fingerprint(self, module: Module) -> int:
        """Return 64 bits that are the same for programs with the same plain text, and seldom otherwise.

        They are the same too for a module that a pass has left and for one that is read from its bitcode, so that the
        former can be compared without writing and reading it.
        """
        value: int = self._native.aiocg_fingerprint(self._functions, module.pointer)
        return value

    def text_digest(self, module: Module) -> bytes:
        """Return a digest of the module's text without the comments that list predecessors.

        The order in those is that of use-lists, which is not IR.
        """
        library = module.library
        text = library.c.LLVMPrintModuleToString(module.pointer)
        length = self._native.aiocg_plain_text(text)
        try:
            return digest((ctypes.c_char * length).from_address(text))
        finally:
            library.c.LLVMDisposeMessage(text)


def digest(content: "bytes | ctypes.Array[ctypes.c_char]") -> bytes:
    """Return 128 bits of content."""
    return hashlib.blake2b(content, digest_size=16).digest()
