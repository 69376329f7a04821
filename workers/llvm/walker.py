"""Counting over the instructions of a module, at C speed: `native/walker.c` and its Python face."""

import ctypes
import struct
import sys
from ctypes import POINTER, c_int, c_int64, c_void_p
from pathlib import Path
from typing import Self

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.features import AUTOPHASE_NAMES, INST_COUNT_NAMES
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.native_code import failure, find_or_build

__all__ = ["AUTOPHASE_NAMES", "INST_COUNT_NAMES", "Walker"]

SOURCE = Path(__file__).with_name("native") / "walker.c"


class Walker:
    """Feature extraction over modules of one loaded libLLVM.

    It holds no state between calls, so threads may share it as long as each works on a module of a context of
    its own. A module pointer is an `LLVMModuleRef` as an integer; the module is read, never changed.
    """

    def __init__(self, library: Library, path: Path) -> None:
        """Load the compiled walker at `path` and give it the functions of `library`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when the file cannot be loaded or `library` lacks a
                function.
        """
        self._library = library
        try:
            self._native = ctypes.CDLL(str(path))
        except OSError as error:
            raise failure(
                f"cannot load {path}: {error}. If its folder is on a file system mounted without execution, "
                "choose another cache folder with AIOCG_CACHE"
            ) from None
        self._functions = self._resolve_functions()
        for name in ("aiocg_instruction_count", "aiocg_inst_count", "aiocg_autophase"):
            function = getattr(self._native, name)
            function.argtypes, function.restype = (c_void_p, c_void_p, POINTER(c_int64)), c_int

    @classmethod
    def load(cls, library: Library, clang: str, cache_dir: Path) -> Self:
        """Return a walker for `library`, compiled with `clang` unless `cache_dir` has it from earlier.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when it cannot be compiled, kept or loaded.
        """
        return cls(library, find_or_build(SOURCE, clang, cache_dir / "native", library.version_text))

    def instruction_count(self, module_pointer: int) -> int:
        """Count the instructions in all function bodies, as `llvm::Module::getInstructionCount` does."""
        return self._count("aiocg_instruction_count", 1, module_pointer)[0]

    def inst_count(self, module_pointer: int) -> bytes:
        """Compute InstCount: 70 little-endian int64, in the order of `INST_COUNT_NAMES`."""
        return self._packed("aiocg_inst_count", len(INST_COUNT_NAMES), module_pointer)

    def autophase(self, module_pointer: int) -> bytes:
        """Compute Autophase: 56 little-endian int64, in the order of `AUTOPHASE_NAMES`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when this libLLVM hides the case values of a switch.
        """
        return self._packed("aiocg_autophase", len(AUTOPHASE_NAMES), module_pointer)

    def _packed(self, function: str, size: int, module_pointer: int) -> bytes:
        counts = self._count(function, size, module_pointer)
        return bytes(counts) if sys.byteorder == "little" else struct.pack(f"<{size}q", *counts)

    def _count(self, function: str, size: int, module_pointer: int) -> "ctypes.Array[c_int64]":
        counts = (c_int64 * size)()
        if getattr(self._native, function)(self._functions, module_pointer, counts) != 0:
            raise CompilationError(
                FailureCode.COMPILER,
                f"{self._library.path} (LLVM {self._library.version_text}) keeps the case values of a switch "
                "outside its operands and does not export LLVMGetSwitchCaseValue. Use another libLLVM",
            )
        return counts

    def _resolve_functions(self) -> "ctypes.Array[c_void_p]":
        """Look up, in order, the functions that the compiled walker names; one with a '?' may be missing."""
        names = ctypes.c_char.in_dll(self._native, "aiocg_walker_functions")
        wanted = ctypes.string_at(ctypes.addressof(names)).decode().split()
        missing = [name for name in wanted if not name.startswith("?") and not self._library.has(name)]
        if missing:
            raise failure(
                f"{self._library.path} (LLVM {self._library.version_text}) does not export "
                f"{', '.join(missing)}, which examining programs needs. Use a libLLVM 14 or later"
            )
        addresses = (c_void_p * len(wanted))()
        for place, name in enumerate(wanted):
            if self._library.has(symbol := name.removeprefix("?")):
                addresses[place] = ctypes.cast(getattr(self._library.c, symbol), c_void_p)
        return addresses
