"""The names and meanings of the features of InstCount and Autophase.

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

import tomllib
from pathlib import Path

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
