"""Settling, which makes of what a pass has left what a parse of its bitcode would be: `native/settle.c` and its face.

It writes where LLVM keeps use-lists and tables of names. So it is done only with releases that it was tried with, where
experiments with the loaded library come out as expected. Elsewhere, and for programs with something that is not
settled, a state is parsed before the next pass, which leads to the same states.
"""

from ctypes import Structure, byref, c_char_p, c_int, c_uint, c_uint64, c_void_p
from typing import Any

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Context, Module
from aiocg.workers.llvm.native_library import NativeLibraries, NativeLibrary
from aiocg.workers.llvm.seal import Layout, Memory, find_layout

__all__ = ["TRIED", "Settler"]

# Major releases. Add one when `test_settle.py` and `test_exactness.py`, the slow ones too, hold for it.
TRIED = (22,)
_NEEDED = (
    "free",
    "_ZN4llvm13StringMapImpl11RehashTableEj",
    "_ZN4llvm13StringMapImpl15LookupBucketForENS_9StringRefEj",
    "_ZN4llvm15ValueAsMetadata11getIfExistsEPNS_5ValueE",
    "_ZN4llvm8Function14renumberBlocksEv",
    "_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE",
    "_ZNK4llvm8Constant23removeDeadConstantUsersEv",
    "LLVMGetNumOperandBundles",
)
_CONSTANTS = 1 << 12  # as in the C file
_CONTEXT_BYTES = 1 << 12  # how far to look for the table of types
_SPECIMEN = b"""
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define i32 @f(ptr %p, i32 %x) {
entry:
  call void @llvm.memset.p0.i64(ptr %p, i8 7, i64 4, i1 false)
  %c = icmp ult i32 %x, 5
  br i1 %c, label %again, label %end
again:
  %i = phi i32 [ %x, %entry ], [ %j, %again ]
  %j = mul i32 %i, %i
  %d = icmp ult i32 %j, 9
  br i1 %d, label %again, label %end
end:
  %r = phi i32 [ 0, %entry ], [ %j, %again ]
  ret i32 %r
}
"""


class _Layout(Structure):
    """`struct Layout` of `native/settle.c`."""

    _fields_ = (("function_table", c_uint), ("module_table", c_uint), ("counter", c_uint), ("types", c_uint))


class Settler:
    """Settles modules of one loaded libLLVM; it holds no state between calls but memory to work in."""

    def __init__(self, native: NativeLibrary, layout: Layout, types: int) -> None:
        self._native, self._functions = native.c, native.llvm
        self._layout = _Layout(*layout, types)
        self._words = 1 << 10
        self._memory = (c_void_p * (2 * _CONSTANTS + self._words))()
        for name, result in (("types", c_uint64), ("roots", c_uint64), ("settle", c_int), ("is_as_expected", c_int)):
            getattr(self._native, f"aiocg_{name}").restype = result
        self._native.aiocg_types.argtypes = self._native.aiocg_is_as_expected.argtypes = (c_void_p,) * 3
        self._native.aiocg_roots.argtypes = (c_void_p,) * 4
        self._native.aiocg_settle.argtypes = (c_void_p, c_void_p, c_void_p, c_uint64, c_void_p, c_uint64)

    @classmethod
    def find(cls, natives: NativeLibraries) -> "Settler | None":
        """Return what settles the library's modules, or None where that cannot be done."""
        library = natives.library
        if library.version[0] not in TRIED or not all(map(library.has, _NEEDED)):
            return None
        layout, types = find_layout(library), _find_types(library)
        if layout is None or types is None:
            return None
        settler = cls(natives.load("settle"), layout, types)
        return settler if settler._is_as_expected(library) else None

    def types(self, module: Module) -> int:
        """Return a hash of the names that types have had in the module's context.

        A pass that gives names may give others in a context that remembers more than a parse would have.
        """
        value: int = self._native.aiocg_types(self._functions, module.pointer, byref(self._layout))
        return value

    def roots(self, module: Module) -> int:
        """Return what `settle` is to be told about a module that was just parsed; 0 if that is not to be settled."""
        value: int = self._native.aiocg_roots(self._functions, module.pointer, byref(self._layout), self._memory)
        return value

    def settle(self, module: Module, roots: int, instructions: int) -> bool:
        """Settle a module after a pass, and after it was written; if that fails, it is of no use any more.

        Args:
            module: with a program that the verifier accepts.
            roots: what `roots` returned when it was parsed.
            instructions: how many there are.
        """
        if not roots:
            return False
        while self._words < 2 * instructions + 2:
            self._words *= 2
            self._memory = (c_void_p * (2 * _CONSTANTS + self._words))()
        return bool(
            self._native.aiocg_settle(
                self._functions, module.pointer, byref(self._layout), roots, self._memory, self._words
            )
        )

    def _is_as_expected(self, library: Library) -> bool:
        with Module.parse(library, _SPECIMEN) as module:
            return bool(self._native.aiocg_is_as_expected(self._functions, module.pointer, byref(self._layout)))


def _find_types(library: Library) -> int | None:
    """Find out where a context keeps the names of types, in bytes; or return None.

    Three types are given the same name, so that a counter behind the table says how often one was taken.
    """
    c: Any = library.c
    c.LLVMStructCreateNamed.restype, c.LLVMStructCreateNamed.argtypes = c_void_p, (c_void_p, c_char_p)
    try:
        with Memory.open() as memory, Context(library) as context:
            expected = {c.LLVMStructCreateNamed(context.pointer, b"taken"): b"taken"}
            for number in range(2):
                expected[c.LLVMStructCreateNamed(context.pointer, b"taken")] = b"taken.%d" % number
            start = memory.words(context.pointer, 1)[0]
            found = [
                place
                for place in range(0, _CONTEXT_BYTES, 8)
                if (table := memory.table(start + place)) is not None
                and (table.items, table.tombstones, table.names) == (3, 0, expected)
                and 24 in table.counters(2)
            ]
    except OSError:
        return None
    return found[0] if len(found) == 1 else None
