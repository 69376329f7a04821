"""Finding and loading libLLVM, and the prototypes of the functions of its C API that we call."""

import ctypes
import glob
import os
import re
import shutil
from collections.abc import Iterator
from ctypes import POINTER, c_char_p, c_int, c_size_t, c_uint, c_void_p
from pathlib import Path
from typing import Any, NoReturn

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.wheel import CLANG_WHEEL, bundled_file

OLDEST = 14
WHEEL = "karellen-llvm-core"
VARIABLE = "AIOCG_LLVM_LIBRARY"
CLANG_VARIABLE = "AIOCG_CLANG"
LIBRARY_NAME = r"libLLVM\.so\.\d+\.\d+|libLLVM\.dylib"
HOW_TO_CHOOSE = (
    f"LLVM {OLDEST} or later works: set {VARIABLE} to the path of a libLLVM and {CLANG_VARIABLE} to its "
    f"clang, or, on Linux x86-64, `pip install {WHEEL}`"
)

DIAGNOSTIC_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

# The strings that LLVM hands over to us to free are typed c_void_p: c_char_p would lose the pointer.
PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMContextCreate": (c_void_p, ()),
    "LLVMContextDispose": (None, (c_void_p,)),
    "LLVMContextSetDiagnosticHandler": (None, (c_void_p, DIAGNOSTIC_HANDLER, c_void_p)),
    "LLVMCreateMemoryBufferWithMemoryRange": (c_void_p, (c_char_p, c_size_t, c_char_p, c_int)),
    "LLVMCreateMemoryBufferWithMemoryRangeCopy": (c_void_p, (c_char_p, c_size_t, c_char_p)),
    "LLVMCreatePassBuilderOptions": (c_void_p, ()),
    "LLVMCopyStringRepOfTargetData": (c_void_p, (c_void_p,)),
    "LLVMCreateTargetDataLayout": (c_void_p, (c_void_p,)),
    "LLVMCreateTargetMachine": (c_void_p, (c_void_p, c_char_p, c_char_p, c_char_p, c_int, c_int, c_int)),
    "LLVMDisposeErrorMessage": (None, (c_void_p,)),
    "LLVMDisposeMemoryBuffer": (None, (c_void_p,)),
    "LLVMDisposeMessage": (None, (c_void_p,)),
    "LLVMDisposeModule": (None, (c_void_p,)),
    "LLVMDisposePassBuilderOptions": (None, (c_void_p,)),
    "LLVMDisposeTargetData": (None, (c_void_p,)),
    "LLVMDisposeTargetMachine": (None, (c_void_p,)),
    "LLVMGetBufferSize": (c_size_t, (c_void_p,)),
    "LLVMGetBufferStart": (c_void_p, (c_void_p,)),
    "LLVMGetDataLayoutStr": (c_char_p, (c_void_p,)),
    "LLVMGetDefaultTargetTriple": (c_void_p, ()),
    "LLVMGetDiagInfoDescription": (c_void_p, (c_void_p,)),
    "LLVMGetDiagInfoSeverity": (c_int, (c_void_p,)),
    "LLVMGetErrorMessage": (c_void_p, (c_void_p,)),
    "LLVMGetFirstFunction": (c_void_p, (c_void_p,)),
    "LLVMGetNamedFunction": (c_void_p, (c_void_p, c_char_p)),
    "LLVMGetNextFunction": (c_void_p, (c_void_p,)),
    "LLVMGetHostCPUFeatures": (c_void_p, ()),
    "LLVMGetHostCPUName": (c_void_p, ()),
    "LLVMGetTarget": (c_char_p, (c_void_p,)),
    "LLVMGetTargetFromTriple": (c_int, (c_char_p, POINTER(c_void_p), POINTER(c_void_p))),
    "LLVMGetValueName2": (c_void_p, (c_void_p, POINTER(c_size_t))),
    "LLVMIsDeclaration": (c_int, (c_void_p,)),
    "LLVMModuleCreateWithNameInContext": (c_void_p, (c_char_p, c_void_p)),
    "LLVMParseBitcodeInContext2": (c_int, (c_void_p, c_void_p, POINTER(c_void_p))),
    "LLVMParseIRInContext": (c_int, (c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p))),
    "LLVMPrintModuleToFile": (c_int, (c_void_p, c_char_p, POINTER(c_void_p))),
    "LLVMPrintModuleToString": (c_void_p, (c_void_p,)),
    "LLVMPrintTypeToString": (c_void_p, (c_void_p,)),
    "LLVMPrintValueToString": (c_void_p, (c_void_p,)),
    "LLVMRunPasses": (c_void_p, (c_void_p, c_char_p, c_void_p, c_void_p)),
    "LLVMSetDataLayout": (None, (c_void_p, c_char_p)),
    "LLVMVerifyModule": (c_int, (c_void_p, c_int, POINTER(c_void_p))),
    "LLVMWriteBitcodeToMemoryBuffer": (c_void_p, (c_void_p,)),
}

# What releases in use lack. Ask `Library.has` before calling one.
OPTIONAL_PROTOTYPES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "LLVMPassBuilderOptionsSetInlinerThreshold": (None, (c_void_p, c_int)),
    "LLVMPassBuilderOptionsSetLicmMssaNoAccForPromotionCap": (None, (c_void_p, c_uint)),
    "LLVMPassBuilderOptionsSetLicmMssaOptCap": (None, (c_void_p, c_uint)),
    "LLVMPassBuilderOptionsSetLoopInterleaving": (None, (c_void_p, c_int)),
    "LLVMPassBuilderOptionsSetLoopUnrolling": (None, (c_void_p, c_int)),
    "LLVMPassBuilderOptionsSetMergeFunctions": (None, (c_void_p, c_int)),
    "LLVMRunPassesOnFunction": (c_void_p, (c_void_p, c_char_p, c_void_p, c_void_p)),  # since LLVM 20
}

# fmt: off
TARGETS = (
    "AArch64", "AMDGPU", "ARC", "ARM", "AVR", "BPF", "CSKY", "DirectX", "Hexagon", "Lanai", "LoongArch",
    "M68k", "MSP430", "Mips", "NVPTX", "PowerPC", "RISCV", "SPIRV", "Sparc", "SystemZ", "VE", "WebAssembly",
    "X86", "XCore", "Xtensa",
)
# fmt: on


class Library:
    """A loaded libLLVM.

    Its C functions are reached through `c`, with argument and result types set; a call releases the GIL. It
    is loaded privately (RTLD_LOCAL), so that another LLVM in the process, like llvmlite's, cannot mix with
    it.

    Attributes:
        path: the file, with symbolic links resolved.
        version: (major, minor, patch); LLVM 14 and 15 tell it by the name of the file only.
        c: the functions of `PROTOTYPES`, and any other symbol of the library.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Load the library at `path`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when it cannot be loaded, is old or lacks a symbol.
        """
        given = os.fspath(path)
        self.path = Path(os.path.realpath(given)) if os.path.exists(given) else Path(given)
        try:
            self.c = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise _failure(f"cannot load libLLVM from {given}: {error}", library=given) from None
        if not self.has("LLVMContextCreate"):
            raise _failure(f"{self.path} is not a libLLVM: it exports no LLVMContextCreate", library=str(self.path))
        self.version = self._find_version()
        if self.version[0] < OLDEST:
            raise _failure(f"{self.path} is LLVM {self.version_text}, which is too old", library=str(self.path))
        for name, (result, arguments) in (PROTOTYPES | OPTIONAL_PROTOTYPES).items():
            if self.has(name):
                function = getattr(self.c, name)
                function.restype, function.argtypes = result, arguments
            elif name in PROTOTYPES:
                self._missing(name)
        self._initialize_targets()

    @classmethod
    def find(cls, chosen: str | None = None) -> "Library":
        """Load the library that the user chose, or else the bundled one, or else the system's newest.

        Args:
            chosen: a path; when None or empty, the environment variable `AIOCG_LLVM_LIBRARY` is read.

        Raises:
            CompilationError: with `FailureCode.COMPILER` when there is none or it cannot be used.
        """
        chosen = chosen or os.environ.get(VARIABLE)
        if chosen:
            if "/" in chosen and not os.path.isfile(chosen):
                raise _failure(f"no libLLVM at {chosen}: there is no such file", library=chosen)
            return cls(chosen)
        path = bundled_file(LIBRARY_NAME, WHEEL)
        if path is not None:
            return cls(path)
        failures = []
        for path in system_libraries():
            try:
                return cls(path)
            except CompilationError as error:
                failures.append(error.message)
        raise _failure("no libLLVM was found on this machine" + "".join(f"\n- {text}" for text in failures))

    @property
    def version_text(self) -> str:
        """The version as LLVM writes it, for example `22.1.8`."""
        return ".".join(map(str, self.version))

    def has(self, symbol: str) -> bool:
        """Say whether the library exports `symbol`."""
        return hasattr(self.c, symbol)

    def default_triple(self) -> bytes:
        """Return the target triple of the machine that the library was built for."""
        return self.take_string(self.c.LLVMGetDefaultTargetTriple()).encode()

    def take_string(self, pointer: int | None) -> str:
        """Copy a C string that the library allocated for us, and free it."""
        if not pointer:
            return ""
        text = ctypes.string_at(pointer)
        self.c.LLVMDisposeMessage(pointer)
        return text.decode("utf-8", "replace")

    def take_error(self, pointer: int) -> str:
        """Consume an `LLVMErrorRef` and return its message."""
        message = self.c.LLVMGetErrorMessage(pointer)
        text = ctypes.string_at(message).decode("utf-8", "replace")
        self.c.LLVMDisposeErrorMessage(message)
        return text

    def _find_version(self) -> tuple[int, int, int]:
        if self.has("LLVMGetVersion"):  # since LLVM 16
            parts = [c_uint(), c_uint(), c_uint()]
            self.c.LLVMGetVersion(*map(ctypes.byref, parts))
            return parts[0].value, parts[1].value, parts[2].value
        # Of a file and the links to it, one may name more of the version.
        links = [link for link in self.path.parent.glob("libLLVM*") if os.path.realpath(link) == str(self.path)]
        named = max(map(_version_in_name, [self.path, *links]))
        if named[0]:
            return named
        if not self.has("LLVMRunPasses"):  # since LLVM 13
            return 12, 0, 0
        return (14 if self.has("LLVMConstExtractValue") else 15), 0, 0  # removed in LLVM 15

    def _missing(self, symbol: str) -> NoReturn:
        raise _failure(
            f"{self.path} (LLVM {self.version_text}) does not export {symbol}, which this worker needs",
            library=str(self.path),
            version=self.version_text,
            symbol=symbol,
        )

    def _initialize_targets(self) -> None:
        """Register what `opt` registers: targets for cost models, assembly parsers for symbol tables."""
        for target in TARGETS:
            for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"):
                if self.has(name := f"LLVMInitialize{target}{part}"):
                    getattr(self.c, name)()


def find_clang(library: Library, chosen: str | None = None) -> str:
    """Return the clang to compile with: the user's choice, the library's own, or any.

    Args:
        library: the library in use.
        chosen: a path or command; when None or empty, the environment variable `AIOCG_CLANG` is read.
    """
    chosen = chosen or os.environ.get(CLANG_VARIABLE)
    if chosen:
        return chosen
    bundled = bundled_file(r"clang-\d+", CLANG_WHEEL)
    if bundled is not None and bundled_file(LIBRARY_NAME, WHEEL) == library.path:
        return str(bundled)
    major = library.version[0]
    own = [
        str(library.path.parent.parent / "bin" / "clang"),
        f"/usr/lib/llvm-{major}/bin/clang",
        f"clang-{major}",
    ]
    found = next((path for name in [*own, "clang"] if (path := shutil.which(name))), None)
    return found or (str(bundled) if bundled else "clang")


def system_libraries() -> Iterator[Path]:
    """Yield the libLLVM files of this machine, newest version first, each file once."""
    patterns = (
        "/usr/lib/llvm-*/lib/libLLVM*.so*",
        "/usr/lib/*-linux-gnu/libLLVM*.so*",
        "/usr/lib64/libLLVM*.so*",
        "/usr/lib64/llvm*/lib*/libLLVM*.so*",
        "/usr/lib/libLLVM*.so*",
        "/usr/local/lib/libLLVM*.so*",
        "/opt/homebrew/opt/llvm*/lib/libLLVM*.dylib",
        "/usr/local/opt/llvm*/lib/libLLVM*.dylib",
        "/home/linuxbrew/.linuxbrew/opt/llvm*/lib/libLLVM*.so*",
    )
    files = {os.path.realpath(file) for pattern in patterns for file in glob.glob(pattern)}
    named = re.compile(r"libLLVM([-.]\d[\d.]*)?\.(so|dylib)[\d.]*$")
    paths = [Path(file) for file in files if named.search(file) and os.path.isfile(file)]
    yield from sorted(paths, key=lambda path: (_version_in_name(path), str(path)), reverse=True)


def _version_in_name(path: Path) -> tuple[int, int, int]:
    """Read the version in `libLLVM-14.0.6.so`, `libLLVM.so.19.1` or a folder `llvm-14`; zeros if none."""
    for text in (path.name, *(parent.name for parent in path.parents)):
        if found := re.search(r"llvm(?:[-@]|\.so\.)?(\d+)(?:\.(\d+))?(?:\.(\d+))?", text, re.IGNORECASE):
            major, minor, patch = (int(part or 0) for part in found.groups())
            return major, minor, patch
    return 0, 0, 0


def _failure(message: str, **fields: str) -> CompilationError:
    return CompilationError(FailureCode.COMPILER, f"{message}. {HOW_TO_CHOOSE}", **fields)
