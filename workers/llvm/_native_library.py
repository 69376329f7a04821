"""Our C files, compiled and connected to a loaded libLLVM; `native/llvm.h` is the C side."""

import contextlib
import ctypes
from ctypes import c_void_p
from pathlib import Path
from typing import Any

from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm.native_code import failure, find_or_build

__all__ = ["NativeLibraries", "NativeLibrary"]

SOURCES = Path(__file__).with_name("native")
NAMES = ("canonical", "ir2vec", "lexer", "loops", "programl", "walker")


class NativeLibrary:
    """A compiled C file and the LLVM functions that it calls.

    Attributes:
        c: the functions of the file; set `argtypes` and `restype` before calling one.
        llvm: the `const struct Llvm *llvm` of the C side; None if the file calls no LLVM function.
    """

    def __init__(self, library: Library, path: Path) -> None:
        """Load the file at `path` and resolve its functions from `library`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if the file cannot be loaded or `library` lacks a function.
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
        """Resolve, in order, the functions that the compiled file names; one prefixed with '?' may be missing."""
        names = ctypes.c_char.in_dll(self.c, "aiocg_llvm_functions")
        wanted = ctypes.string_at(ctypes.addressof(names)).decode().split()
        missing = [name for name in wanted if not name.startswith("?") and not self.library.has(name)]
        if missing:
            raise failure(
                f"{self.library.path} (LLVM {self.library.version_text}) does not export "
                f"{', '.join(missing)}, which this worker needs. Use a libLLVM 14 or later"
            )
        addresses = (c_void_p * len(wanted))()
        for place, name in enumerate(wanted):
            if self.library.has(symbol := name.removeprefix("?")):
                addresses[place] = ctypes.cast(getattr(self.library.c, symbol), c_void_p)
        return addresses


class NativeLibraries:
    """The C files of the folder `native`, each compiled on first use.

    Args:
        library: the libLLVM they work with.
        clang: the compiler.
        cache_dir: stores the builds.
    """

    def __init__(self, library: Library, clang: str, cache_dir: Path) -> None:
        self.library = library
        self.clang = clang
        self.folder = cache_dir / "native"
        self._loaded: dict[str, NativeLibrary] = {}

    def prepare(self) -> None:
        """Compile and load files before they are needed; failures are reported when a file is needed."""
        for name in NAMES:
            with contextlib.suppress(CompilationError):
                self.load(name)

    def load(self, name: str) -> NativeLibrary:
        """Return the compiled form of `native/<name>.c`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if it cannot be compiled, stored or loaded.
        """
        if name not in self._loaded:
            path = find_or_build(SOURCES / f"{name}.c", self.clang, self.folder, self.library.version_text)
            self._loaded[name] = NativeLibrary(self.library, path)
        return self._loaded[name]
