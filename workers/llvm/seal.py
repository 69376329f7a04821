"""Seals, which tell whether a module in memory is still what it was: `native/seal.c` and its Python face.

A seal sees more than LLVM's C API shows. Some of that is found where LLVM keeps it in memory, which differs between
releases. So it is found out by experiment with the loaded library. Where the experiments do not come out as expected,
as on another system, there are no seals. Nor are there for a release that is newer than those they were tried with: an
instruction there may have parts that the C file does not know of.
"""

import os
import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ctypes import Structure, byref, c_char_p, c_int, c_uint, c_uint64, c_void_p
from typing import Any, NamedTuple

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.module import Context, Module
from aiocg.workers.llvm.native_library import NativeLibraries, NativeLibrary

__all__ = ["Layout", "Memory", "Seals", "find_layout"]

_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMAddFunction": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "LLVMAppendBasicBlockInContext": (c_void_p, (c_void_p, c_void_p, c_char_p)),
    "LLVMBasicBlockAsValue": (c_void_p, (c_void_p,)),
    "LLVMContextSetDiscardValueNames": (None, (c_void_p, c_int)),
    "LLVMDeleteBasicBlock": (None, (c_void_p,)),
    "LLVMFunctionType": (c_void_p, (c_void_p, c_void_p, c_uint, c_int)),
    "LLVMGetMDKindIDInContext": (c_uint, (c_void_p, c_char_p, c_uint)),
    "LLVMVoidTypeInContext": (c_void_p, (c_void_p,)),
}
# A major release. Raise it when `test_seal.py` and `test_exactness.py`, the slow ones too, hold for a newer one.
NEWEST = 22
_NAMES = "RNS_15SmallVectorImplINS_9StringRefEEE"
_NEEDED = (
    "free",
    "_ZNK4llvm11NamedMDNode10getOperandEj",
    "_ZNK4llvm11NamedMDNode14getNumOperandsEv",
    f"_ZNK4llvm11LLVMContext14getMDKindNamesE{_NAMES}",
    f"_ZNK4llvm11LLVMContext17getSyncScopeNamesE{_NAMES}",
    f"_ZNK4llvm11LLVMContext20getOperandBundleTagsE{_NAMES}",
)
_FUNCTION_WORDS, _MODULE_WORDS = 24, 64  # how far to look; the tables are at words 13 to 15 of LLVM 14 to 22
_EXPERIMENTS = 16  # a few in a hundred find two places, where memory that was freed still looks like a table
_TABLE = 40  # bytes of a table of names, with its counter


class Layout(NamedTuple):
    """Where LLVM keeps tables of names.

    Attributes:
        function_table: the word of a function that points to its table.
        module_table: the word of a module that points to its table.
        counter: the byte of a table where it counts names that were taken.
    """

    function_table: int
    module_table: int
    counter: int


class _Layout(Structure):
    """`struct Layout` of `native/seal.c`."""

    _fields_ = (("function_table", c_uint), ("module_table", c_uint), ("counter", c_uint))


class Seals:
    """Seals modules of one loaded libLLVM; it holds no state between calls."""

    def __init__(self, native: NativeLibrary, layout: Layout) -> None:
        self._native, self._functions = native.c, native.llvm
        self._layout = _Layout(*layout)
        self._native.aiocg_seal.argtypes = (c_void_p, c_void_p, c_void_p)
        self._native.aiocg_seal.restype = c_uint64
        self._native.aiocg_count_names.argtypes = (c_void_p, c_void_p)
        self._native.aiocg_count_names.restype = c_uint64

    @classmethod
    def find(cls, natives: NativeLibraries) -> "Seals | None":
        """Return what seals the library's modules, or None where that cannot be done."""
        library = natives.library
        if library.version[0] > NEWEST or not all(map(library.has, _NEEDED)):
            return None
        layout = find_layout(library)
        if layout is None:
            return None
        seals = cls(natives.load("seal"), layout)
        return seals if seals._counts_names(library) else None

    def take(self, module: Module) -> int:
        """Return the seal of a module as it is now, or 0 if it has something that a seal does not see.

        Two seals of one module are equal only if what has happened between them left it as it was, in every respect
        that a pass could notice.
        """
        value: int = self._native.aiocg_seal(self._functions, module.pointer, byref(self._layout))
        return value

    def _counts_names(self, library: Library) -> bool:
        """Try the functions that are called as C++ has them."""
        c = _bound(library)
        with Context(library) as context:
            before = self._native.aiocg_count_names(self._functions, context.pointer)
            c.LLVMGetMDKindIDInContext(context.pointer, b"aiocg", 5)
            after = self._native.aiocg_count_names(self._functions, context.pointer)
        kinds, tags = before >> 40, before & 0xFFFFF
        as_expected: bool = 16 < kinds < 1024 and 0 < tags < 1024 and after - before == 1 << 40
        return as_expected


def find_layout(library: Library) -> Layout | None:
    """Find out where the library keeps tables of names, or return None."""
    try:
        # What one experiment has in memory is kept, so that the next one does not get the same.
        with Memory.open() as memory, ExitStack() as kept:
            experiments = (_find_layout(library, memory, kept) for _ in range(_EXPERIMENTS))
            return next(filter(None, experiments), None)
    except OSError:
        return None


def _find_layout(library: Library, memory: "Memory", kept: ExitStack) -> Layout | None:
    named, discarding = (kept.enter_context(_specimen(library, discard=discard)) for discard in (False, True))
    pairs = enumerate(zip(memory.words(named.function, _FUNCTION_WORDS),
                          memory.words(discarding.function, _FUNCTION_WORDS), strict=True))  # fmt: skip
    # Only a function whose names are kept has a table.
    places = [place for place, (there, not_there) in pairs if there and not not_there]
    found = [(place, counter) for place in places for counter in _function_counters(memory, named, place)]
    if len(found) != 1:
        return None
    function_table, counter = found[0]
    modules = _module_tables(memory, named, counter)
    return Layout(function_table, modules[0], counter) if len(modules) == 1 else None


class Memory:
    """Reads this process's memory, where an address may be anything."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def open(cls) -> Iterator["Memory"]:
        """Open this process's memory.

        Raises:
            OSError: where the system does not show it.
        """
        with open("/proc/self/mem", "rb", buffering=0) as file:
            yield cls(file.fileno())

    def read(self, address: int, size: int) -> bytes | None:
        """Return bytes, or None if there is no such memory."""
        try:
            content = os.pread(self._descriptor, size, address)
        except (OSError, OverflowError):
            return None
        return content if len(content) == size else None

    def words(self, address: int, count: int) -> tuple[int, ...]:
        """Return words of an object; zeros if there is no such memory."""
        return struct.unpack(f"<{count}Q", self.read(address, 8 * count) or bytes(8 * count))

    def table(self, pointer: int) -> "_Table | None":
        """Read a table of names, if what is there can be one."""
        content = self.read(pointer, _TABLE) if pointer and pointer % 8 == 0 else None
        if content is None:
            return None
        entries, buckets, items, tombstones, _ = struct.unpack_from("<Q4I", content)
        if buckets > 1 << 16 or buckets & (buckets - 1) or items > buckets:
            return None
        names = {}
        for entry in filter(None, self.words(entries, buckets) if buckets else ()):
            if entry < 1 << 63:
                length, value = self.words(entry, 2)
                names[value] = self.read(entry + 16, min(length, 64))
        return _Table(items, tombstones, names, content)


class _Table(NamedTuple):
    items: int
    tombstones: int
    names: dict[int, bytes | None]
    content: bytes

    def counters(self, value: int) -> set[int]:
        """Return the places behind the fields that are known where a counter can be that has this value."""
        return {place for place in range(24, _TABLE, 4) if struct.unpack_from("<I", self.content, place)[0] == value}


class _Specimen(NamedTuple):
    c: Any
    context: int
    module: int
    type: int
    function: int


@contextmanager
def _specimen(library: Library, *, discard: bool) -> Iterator[_Specimen]:
    """Make a module with one function, without a body."""
    c = _bound(library)
    with Context(library) as context:
        c.LLVMContextSetDiscardValueNames(context.pointer, discard)
        module = c.LLVMModuleCreateWithNameInContext(b"specimen", context.pointer)
        kind = c.LLVMFunctionType(c.LLVMVoidTypeInContext(context.pointer), None, 0, 0)
        yield _Specimen(c, context.pointer, module, kind, c.LLVMAddFunction(module, b"f", kind))


def _function_counters(memory: Memory, specimen: _Specimen, place: int) -> set[int]:
    """Give blocks names that are taken, and remove one; return where the table at this place counts that."""
    c, counters, expected = specimen.c, set(range(_TABLE)), {}
    for made in range(1, 6):
        block = c.LLVMAppendBasicBlockInContext(specimen.context, specimen.function, b"taken")
        expected[c.LLVMBasicBlockAsValue(block)] = b"taken" + (b"%d" % (made - 1) if made > 1 else b"")
        table = memory.table(memory.words(specimen.function + 8 * place, 1)[0])
        if table is None or (table.items, table.tombstones, table.names) != (made, 0, expected):
            return set()
        counters &= table.counters(made - 1)
    removed = list(expected)[2]
    c.LLVMDeleteBasicBlock(removed)
    del expected[removed]
    table = memory.table(memory.words(specimen.function + 8 * place, 1)[0])
    if table is None or (table.items, table.tombstones, table.names) != (4, 1, expected):
        return set()
    return counters & table.counters(4)


def _module_tables(memory: Memory, specimen: _Specimen, counter: int) -> list[int]:
    """Give functions names that are taken; return the places where the module can have its table."""
    places, expected = list(range(_MODULE_WORDS)), {specimen.function: b"f"}
    for made in range(1, 4):
        name = b"f.%d" % made if made else b"f"
        expected[specimen.c.LLVMAddFunction(specimen.module, b"f", specimen.type)] = name
        tables = [(place, memory.table(memory.words(specimen.module + 8 * place, 1)[0])) for place in places]
        places = [
            place
            for place, table in tables
            if table is not None and table.items == made + 1 and set(table.names) == set(expected)
            and counter in table.counters(made)
        ]  # fmt: skip
    return places


def _bound(library: Library) -> Any:
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library.c, name)
        function.restype, function.argtypes = result, arguments
    return library.c
