"""Our C files, compiled and bound to a loaded libLLVM: see `native/llvm.h` for the other side."""

import ctypes
from ctypes import c_void_p
from pathlib import Path
from typing import Any

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.native_code import failure, find_or_build

__all__ = ["NativeLibraries", "NativeLibrary"]

SOURCES = Path(__file__).with_name("native")


class NativeLibrary:
    """One compiled C file, and the functions of LLVM that it calls.

    Attributes:
        c: its own functions; set `argtypes` and `restype` before calling one.
        llvm: what the C side calls `const struct Llvm *llvm`; None when the file calls nothing of LLVM's.
    """

    def __init__(self, library: Library, path: Path) -> None:
        """Load the file at `path` and give it the functions of `library`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when the file cannot be loaded or `library` lacks a
                function.
        """
        self.library = library
        try:
            self.c: Any = ctypes.CDLL(str(path))
        except OSError as error:
            raise failure(
                f"cannot load {path}: {error}. If its folder is on a file system mounted without execution, "
                "choose another cache folder with AIOCG_CACHE"
            ) from None
        self.llvm = self._resolve_functions() if hasattr(self.c, "aiocg_llvm_functions") else None

    def _resolve_functions(self) -> "ctypes.Array[c_void_p]":
        """Look up, in order, the functions that the compiled file names; one with a '?' may be missing."""
        names = ctypes.c_char.in_dll(self.c, "aiocg_llvm_functions")
        wanted = ctypes.string_at(ctypes.addressof(names)).decode().split()
        missing = [name for name in wanted if not name.startswith("?") and not self.library.has(name)]
        if missing:
            raise failure(
                f"{self.library.path} (LLVM {self.library.version_text}) does not export "
                f"{', '.join(missing)}, which examining programs needs. Use a libLLVM 14 or later"
            )
        addresses = (c_void_p * len(wanted))()
        for place, name in enumerate(wanted):
            if self.library.has(symbol := name.removeprefix("?")):
                addresses[place] = ctypes.cast(getattr(self.library.c, symbol), c_void_p)
        return addresses


class NativeLibraries:
    """The C files of the folder `native`, compiled when they are first needed.

    Args:
        library: the libLLVM they work with.
        clang: compiles them.
        cache_dir: keeps what was compiled.
    """

    def __init__(self, library: Library, clang: str, cache_dir: Path) -> None:
        self.library = library
        self.clang = clang
        self.folder = cache_dir / "native"
        self._loaded: dict[str, NativeLibrary] = {}

    def load(self, name: str) -> NativeLibrary:
        """Return the compiled form of `native/<name>.c`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when it cannot be compiled, kept or loaded.
        """
        if name not in self._loaded:
            path = find_or_build(SOURCES / f"{name}.c", self.clang, self.folder, self.library.version_text)
            self._loaded[name] = NativeLibrary(self.library, path)
        return self._loaded[name]
