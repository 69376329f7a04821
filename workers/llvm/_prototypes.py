"""The prototypes of the functions of LLVM's C API that our Python code calls."""

import ctypes
import re
from ctypes import c_char_p, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
from typing import Any

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
