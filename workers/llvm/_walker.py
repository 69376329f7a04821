"""Fast counts over the instructions of a module, and their meanings: the Python side of `native/walker.c`.

The definitions are CompilerGym's, which computed the features with LLVM 10; `native/walker.c` computes them with any
libLLVM. For newer versions of LLVM these rules apply:

* Calls of debug intrinsics (`llvm.dbg.value`, up to LLVM 18) are instructions; debug records, which replace them since
  LLVM 19, are not.
* `TotalFuncs` counts definitions and declarations, including intrinsics.
* An opcode without an entry counts in the totals only. Up to LLVM 22, `ptrtoaddr` is the only one.
* Both opcodes that replace `br` in LLVM 23 count as `Br`.
* Case values of a `switch` count as constant operands, although they are not operands since LLVM 22.
* Integer constants are scalar `ConstantInt` operands, including call arguments, array sizes and `getelementptr`
  indices, but not the elements of vectors, aggregates and constant expressions.
* `returnInt` counts direct calls whose callee returns an integer. With typed pointers, a call with a signature other
  than the callee's needed a cast and so was indirect; with opaque pointers, the two signatures are compared.
* `testUnary` is LLVM 10's class `UnaryInstruction`: `fneg`, `alloca`, `load`, `va_arg`, `extractvalue` and all casts
  (including `ptrtoaddr`), but not `freeze`.
* Predecessors are edges: a `switch` with two cases for one block is two predecessors of that block. An edge is
  critical if its source has more than one successor and its target more than one predecessor edge.
"""

import ctypes
import tomllib
from ctypes import POINTER, c_int, c_int64, c_void_p
from pathlib import Path

from aiocg.workers.llvm.native_code import NativeLibrary, hidden_cases, packed

_INST_COUNT = """
TotalInsts TotalBlocks TotalFuncs
Ret Br Switch IndirectBr Invoke Resume Unreachable CleanupRet CatchRet CatchSwitch CallBr
FNeg
Add FAdd Sub FSub Mul FMul UDiv SDiv FDiv URem SRem FRem Shl LShr AShr And Or Xor
Alloca Load Store GetElementPtr Fence AtomicCmpXchg AtomicRMW
Trunc ZExt SExt FPToUI FPToSI UIToFP SIToFP FPTrunc FPExt PtrToInt IntToPtr BitCast AddrSpaceCast
CleanupPad CatchPad
ICmp FCmp PHI Call Select UserOp1 UserOp2 VAArg
ExtractElement InsertElement ShuffleVector ExtractValue InsertValue LandingPad Freeze
"""

INST_COUNT_NAMES: tuple[str, ...] = tuple(_INST_COUNT.split())

AUTOPHASE_MEANINGS: dict[str, str] = tomllib.loads(
    Path(__file__).with_name("features.toml").read_text(encoding="utf-8")
)
AUTOPHASE_NAMES: tuple[str, ...] = tuple(AUTOPHASE_MEANINGS)


class Walker:
    """Feature extraction over modules of one loaded libLLVM.

    It has no state, so threads may share it if each uses modules of its own context. A module pointer is an
    `LLVMModuleRef` as an integer; modules are only read.
    """

    def __init__(self, native: NativeLibrary) -> None:
        self._library = native.library
        self._native, self._functions = native.c, native.llvm
        for name in ("aiocg_instruction_count", "aiocg_function_counts", "aiocg_inst_count", "aiocg_autophase"):
            function = getattr(self._native, name)
            function.argtypes, function.restype = (c_void_p, c_void_p, POINTER(c_int64)), c_int

    def instruction_count(self, module_pointer: int) -> int:
        """Count the instructions in all function bodies, as `llvm::Module::getInstructionCount` does."""
        return self._count("aiocg_instruction_count", 1, module_pointer)[0]

    def function_counts(self, module_pointer: int, functions: int) -> bytes:
        """Count the instructions of each function with a body: little-endian int64, in module order."""
        return self._packed("aiocg_function_counts", functions, module_pointer)

    def inst_count(self, module_pointer: int) -> bytes:
        """Compute InstCount: 70 little-endian int64, in the order of `INST_COUNT_NAMES`."""
        return self._packed("aiocg_inst_count", len(INST_COUNT_NAMES), module_pointer)

    def autophase(self, module_pointer: int) -> bytes:
        """Compute Autophase: 56 little-endian int64, in the order of `AUTOPHASE_NAMES`.

        Raises:
            CompilationError: with `FailureCode.COMPILER` if this libLLVM hides the case values of switches.
        """
        return self._packed("aiocg_autophase", len(AUTOPHASE_NAMES), module_pointer)

    def _packed(self, function: str, size: int, module_pointer: int) -> bytes:
        return packed(self._count(function, size, module_pointer), "q")

    def _count(self, function: str, size: int, module_pointer: int) -> "ctypes.Array[c_int64]":
        counts = (c_int64 * size)()
        if getattr(self._native, function)(self._functions, module_pointer, counts) != 0:
            raise hidden_cases(self._library)
        return counts
