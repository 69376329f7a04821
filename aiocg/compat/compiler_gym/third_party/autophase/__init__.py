"""The names of the features of Autophase, in the order of the vector."""

__all__ = ["AUTOPHASE_FEATURE_DIM", "AUTOPHASE_FEATURE_NAMES"]

_NAMES = """
    BBNumArgsHi BBNumArgsLo onePred onePredOneSuc onePredTwoSuc oneSuccessor twoPred twoPredOneSuc twoEach
    twoSuccessor morePreds BB03Phi BBHiPhi BBNoPhi BeginPhi BranchCount returnInt CriticalCount NumEdges const32Bit
    const64Bit numConstZeroes numConstOnes UncondBranches binaryConstArg NumAShrInst NumAddInst NumAllocaInst
    NumAndInst BlockMid BlockLow NumBitCastInst NumBrInst NumCallInst NumGetElementPtrInst NumICmpInst NumLShrInst
    NumLoadInst NumMulInst NumOrInst NumPHIInst NumRetInst NumSExtInst NumSelectInst NumShlInst NumStoreInst
    NumSubInst NumTruncInst NumXorInst NumZExtInst TotalBlocks TotalInsts TotalMemInst TotalFuncs ArgsPhi testUnary
"""
AUTOPHASE_FEATURE_NAMES = _NAMES.split()

AUTOPHASE_FEATURE_DIM: int = len(AUTOPHASE_FEATURE_NAMES)
