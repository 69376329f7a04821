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

AUTOPHASE_MEANINGS: dict[str, str] = {
    "BBNumArgsHi": "blocks whose phis have more than 5 incoming values in total",
    "BBNumArgsLo": "blocks whose phis have 1 to 5 incoming values in total",
    "onePred": "blocks with 1 predecessor",
    "onePredOneSuc": "blocks with 1 predecessor and 1 successor",
    "onePredTwoSuc": "blocks with 1 predecessor and 2 successors",
    "oneSuccessor": "blocks with 1 successor",
    "twoPred": "blocks with 2 predecessors",
    "twoPredOneSuc": "blocks with 2 predecessors and 1 successor",
    "twoEach": "blocks with 2 predecessors and 2 successors",
    "twoSuccessor": "blocks with 2 successors",
    "morePreds": "blocks with more than 2 predecessors",
    "BB03Phi": "blocks with 1 to 3 phis",
    "BBHiPhi": "blocks with more than 3 phis",
    "BBNoPhi": "blocks without phis",
    "BeginPhi": "blocks that begin with a phi",
    "BranchCount": "br instructions",
    "returnInt": "direct calls of functions that return an integer",
    "CriticalCount": "critical edges",
    "NumEdges": "edges between blocks",
    "const32Bit": "32-bit integer constants used by instructions",
    "const64Bit": "64-bit integer constants used by instructions",
    "numConstZeroes": "integer constants 0, of any width",
    "numConstOnes": "integer constants 1, of any width (true is one)",
    "UncondBranches": "unconditional br instructions",
    "binaryConstArg": "binary operators with a constant operand of any kind",
    "NumAShrInst": "ashr instructions",
    "NumAddInst": "add instructions",
    "NumAllocaInst": "alloca instructions",
    "NumAndInst": "and instructions",
    "BlockMid": "blocks of 15 to 500 instructions",
    "BlockLow": "blocks of fewer than 15 instructions",
    "NumBitCastInst": "bitcast instructions",
    "NumBrInst": "br instructions",
    "NumCallInst": "call instructions",
    "NumGetElementPtrInst": "getelementptr instructions",
    "NumICmpInst": "icmp instructions",
    "NumLShrInst": "lshr instructions",
    "NumLoadInst": "load instructions",
    "NumMulInst": "mul instructions",
    "NumOrInst": "or instructions",
    "NumPHIInst": "phi instructions",
    "NumRetInst": "ret instructions",
    "NumSExtInst": "sext instructions",
    "NumSelectInst": "select instructions",
    "NumShlInst": "shl instructions",
    "NumStoreInst": "store instructions",
    "NumSubInst": "sub instructions",
    "NumTruncInst": "trunc instructions",
    "NumXorInst": "xor instructions",
    "NumZExtInst": "zext instructions",
    "TotalBlocks": "basic blocks",
    "TotalInsts": "instructions",
    "TotalMemInst": "getelementptr, load, store, call, invoke and alloca instructions",
    "TotalFuncs": "functions, defined or declared",
    "ArgsPhi": "incoming values of all phis",
    "testUnary": "unary instructions: fneg, alloca, load, va_arg, extractvalue, casts",
}

AUTOPHASE_NAMES: tuple[str, ...] = tuple(AUTOPHASE_MEANINGS)
