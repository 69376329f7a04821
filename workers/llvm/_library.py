"""Finding and loading libLLVM, and the prototypes of its C functions that we call."""

import ctypes
import glob
import os
import re
import shutil
from collections.abc import Iterator
from ctypes import c_char_p, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
from pathlib import Path
from typing import Any, NoReturn

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.installed_packages import CLANG_WHEEL, bundled_file

DIAGNOSTIC_HANDLER = ctypes.CFUNCTYPE(None, c_void_p, c_void_p)

Prototype = tuple[Any, tuple[Any, ...]]
"""The types of the result and of the arguments."""

_TYPES = {"v": None, "P": c_void_p, "s": c_char_p, "i": c_int, "I": c_uint, "q": c_longlong, "Q": c_ulonglong}
"""By letter, most as in `struct`. Strings that LLVM allocates and we must free are `P`: `s` would lose the pointer."""


def _prototypes(table: str) -> dict[str, Prototype]:
    """Read lines of a result, arguments in parentheses, and the functions of that type, without `LLVM`."""
    found: dict[str, Prototype] = {}
    for result, arguments, names in re.findall(r"^(\w)\((\w*)\) ([^(]*)$", table, re.MULTILINE):
        types = _TYPES[result], tuple(_TYPES[letter] for letter in arguments)
        found |= {f"LLVM{name}": types for name in names.split()}
    return found


PROTOTYPES = _prototypes("""
I(P)     CountParamTypes CountParams CountStructElementTypes GetArrayLength GetDebugLocColumn GetDebugLocLine
         GetFunctionCallConv GetIntrinsicID
         GetMDNodeNumOperands GetNumArgOperands GetNumSuccessors GetPointerAddressSpace
I(Ps)    GetNamedMetadataNumOperands
I(PsI)   GetMDKindIDInContext
I(sQ)    GetEnumAttributeKindForName
P()      ContextCreate CreatePassBuilderOptions GetDefaultTargetTriple GetHostCPUFeatures GetHostCPUName
P(P)     AliasGetAliasee BasicBlockAsValue CloneModule CopyStringRepOfTargetData CreateTargetDataLayout
         GetAllocatedType GetBasicBlockParent GetBasicBlockTerminator GetBufferStart GetCalledFunctionType
         GetCalledValue GetComdat GetDiagInfoDescription GetElementType GetErrorMessage GetFirstBasicBlock
         GetFirstFunction GetFirstGlobal GetFirstGlobalAlias GetFirstGlobalIFunc GetFirstInstruction GetFirstUse
         GetGEPSourceElementType GetInitializer GetInstructionParent GetModuleDataLayout GetNextBasicBlock
         GetNextFunction GetNextGlobal GetNextGlobalAlias GetNextGlobalIFunc GetNextInstruction GetNextUse
         GetReturnType GetUser GlobalGetValueType Int32TypeInContext IsABlockAddress IsACallInst IsAConstant
         IsAConstantInt IsAFunction
         IsAGlobalAlias IsAGlobalObject IsAGlobalValue IsAInvokeInst PrintModuleToString PrintTypeToString
         PrintValueToString TypeOf ValueAsMetadata VoidTypeInContext WriteBitcodeToMemoryBuffer
P(PI)    GetMetadata GetOperand GetOperandUse GetParam GetSuccessor StructGetTypeAtIndex
P(PIsI)  GetCallSiteStringAttribute GetStringAttributeAtIndex
P(PII)   GetCallSiteEnumAttribute GetEnumAttributeAtIndex
P(PQi)   ConstInt
P(PIQ)   CreateEnumAttribute
P(PP)    GetDebugLocFilename GetMDString GetStringAttributeValue GetValueName2
P(PPIi)  FunctionType
P(PPs)   AddGlobal
P(PPsI)  AddGlobalInAddressSpace
P(PPI)   MDNodeInContext
P(PsI)   MDStringInContext
P(PsIsI) CreateStringAttribute
P(Ps)    GetNamedFunction GetNamedGlobal
P(PsP)   AddFunction
P(PsPP)  RunPasses
P(PsQ)   GetModuleFlag GetNamedGlobalAlias GetOrInsertNamedMetadata
P(Psssiii) CreateTargetMachine
P(sP)    ModuleCreateWithNameInContext
P(sQsi)  CreateMemoryBufferWithMemoryRange
Q(P)     ConstIntGetZExtValue GetBufferSize
Q(PP)    ABISizeOfType
i(P)     GetDiagInfoSeverity GetInstructionOpcode GetLinkage GetNumOperands GetTypeKind GetValueKind GetVisibility
         IsDeclaration IsFunctionVarArg IsGlobalConstant IsNull IsPackedStruct IsThreadLocal
i(PP)    LinkModules2
i(PPPP)  ParseIRInContext
i(PPiPP) TargetMachineEmitToMemoryBuffer
i(PiP)   VerifyModule
i(PsP)   PrintModuleToFile
i(sPP)   GetTargetFromTriple
q(P)     ConstIntGetSExtValue
s(P)     GetDataLayoutStr GetTarget
v(P)     ContextDispose DeleteFunction DeleteGlobal DisposeErrorMessage DisposeMemoryBuffer DisposeMessage
         DisposeModule DisposePassBuilderOptions DisposeTargetData DisposeTargetMachine
v(PII)   RemoveCallSiteEnumAttribute RemoveEnumAttributeAtIndex
v(PIP)   AddAttributeAtIndex AddCallSiteAttribute SetMetadata
v(PIsI)  RemoveCallSiteStringAttribute RemoveStringAttributeAtIndex
v(PP)    GetMDNodeOperands GetParamTypes ReplaceAllUsesWith SetComdat SetInitializer
v(PPP)   ContextSetDiagnosticHandler
v(Pi)    ContextSetDiscardValueNames SetLinkage SetVisibility
v(Ps)    SetDataLayout SetSection
v(PsP)   AddNamedMetadataOperand GetNamedMetadataOperands
v(PsQ)   SetModuleInlineAsm2 SetValueName2
v(iPs)   ParseCommandLineOptions
""")
OPTIONAL_PROTOTYPES = _prototypes("""
P(P)     GetBlockAddressFunction
P(PsPP)  RunPassesOnFunction
v(PI)    PassBuilderOptionsSetLicmMssaNoAccForPromotionCap PassBuilderOptionsSetLicmMssaOptCap
v(Pi)    PassBuilderOptionsSetInlinerThreshold PassBuilderOptionsSetLoopInterleaving
         PassBuilderOptionsSetLoopUnrolling PassBuilderOptionsSetMergeFunctions
""")
"""Functions that some supported releases lack. Ask `Library.has` before calling one."""


OLDEST = 14
WHEEL = "karellen-llvm-core"
VARIABLE = "AIOCG_LLVM_LIBRARY"
CLANG_VARIABLE = "AIOCG_CLANG"
LIBRARY_NAME = r"libLLVM\.so\.\d+\.\d+|libLLVM\.dylib"
HOW_TO_CHOOSE = (
    f"LLVM {OLDEST} or later works: set {VARIABLE} to the path of a libLLVM and {CLANG_VARIABLE} to its "
    f"clang, or, on Linux x86-64, `pip install {WHEEL}`"
)

# fmt: off
TARGETS = (
    "AArch64", "AMDGPU", "ARC", "ARM", "AVR", "BPF", "CSKY", "DirectX", "Hexagon", "Lanai", "LoongArch",
    "M68k", "MSP430", "Mips", "NVPTX", "PowerPC", "RISCV", "SPIRV", "Sparc", "SystemZ", "VE", "WebAssembly",
    "X86", "XCore", "Xtensa",
)
# fmt: on


class Library:
    """A loaded libLLVM.

    Its C functions are attributes of `c`, with argument and result types set; a call releases the GIL. The library is
    loaded privately (RTLD_LOCAL), so that it does not share symbols with another LLVM in the process, such as
    llvmlite's.

    Attributes:
        path: the file, with symbolic links resolved.
        version: (major, minor, patch); for LLVM 14 and 15 only the file name reveals it.
        c: the functions of `PROTOTYPES`, and any other symbol of the library.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Load the library at `path`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if it cannot be loaded, is too old or lacks a symbol.
        """
        given = os.fspath(path)
        self.path = Path(os.path.realpath(given)) if os.path.exists(given) else Path(given)
        try:
            self.c = ctypes.CDLL(str(self.path), mode=ctypes.RTLD_LOCAL)
        except OSError as error:
            raise _failure(f"cannot load libLLVM from {given}: {_reason(error, given)}", library=given) from None
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

    @property
    def has_size_levels(self) -> bool:
        """Whether pipelines may have levels for size; LLVM 23 ends the process over one."""
        return self.version[0] < 23

    @classmethod
    def find(cls, chosen: str | None = None) -> "Library":
        """Load the library that the user chose, or else the bundled one, or else the system's newest.

        Args:
            chosen: a path; if None or empty, the value of the environment variable `AIOCG_LLVM_LIBRARY`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if there is none or it cannot be used.
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
        """The version as LLVM writes it, for example `23.1.4`."""
        return ".".join(map(str, self.version))

    def has(self, symbol: str) -> bool:
        """Return whether the library exports `symbol`."""
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
        # The file and the links to it may name the version in different detail.
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
        """Register what `opt` registers: targets, for cost models, and assembly parsers, for symbol tables."""
        for target in TARGETS:
            for part in ("TargetInfo", "Target", "TargetMC", "AsmPrinter", "AsmParser"):
                if self.has(name := f"LLVMInitialize{target}{part}"):
                    getattr(self.c, name)()


def find_clang(library: Library, chosen: str | None = None) -> str:
    """Return the clang to compile with: the user's choice, the library's own, or any.

    Args:
        library: the library in use.
        chosen: a path or command; if None or empty, the value of the environment variable `AIOCG_CLANG`.
    """
    chosen = chosen or os.environ.get(CLANG_VARIABLE)
    if chosen:
        return chosen
    bundled = bundled_file(r"clang-\d+", CLANG_WHEEL)
    if bundled is not None and bundled_file(LIBRARY_NAME, WHEEL) == library.path:
        return str(bundled)
    major = library.version[0]
    own = [str(library.path.parent.parent / "bin" / "clang"), f"/usr/lib/llvm-{major}/bin/clang", f"clang-{major}"]
    found = next((path for name in [*own, "clang"] if (path := shutil.which(name))), None)
    return found or (str(bundled) if bundled else "clang")


def system_libraries() -> Iterator[Path]:
    """Yield the libLLVM files of this machine, newest version first, without duplicates."""
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


def _reason(error: OSError, given: str) -> str:
    """Explain why the loader refused a library: itself, or another one that it depends on."""
    culprit, _, complaint = str(error).partition(": ")
    if not complaint or culprit == os.path.realpath(given):
        return str(error)
    return (
        f"it depends on {culprit}, and the loader says of that: {complaint}. Install {os.path.basename(culprit)} from "
        f"your system's packages, in a release that fits this libLLVM, or choose another libLLVM"
    )


def _failure(message: str, **fields: str) -> CompilationError:
    return CompilationError(FailureCode.COMPILER, f"{message}. {HOW_TO_CHOOSE}", **fields)
