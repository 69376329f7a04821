/* Walks an LLVM module through the functions of LLVM's C API and counts what it sees. */

#define LLVM_FUNCTIONS(X)                                \
    X(ref, LLVMGetFirstFunction, (ref), "")              \
    X(ref, LLVMGetNextFunction, (ref), "")               \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")            \
    X(ref, LLVMGetNextBasicBlock, (ref), "")             \
    X(ref, LLVMGetFirstInstruction, (ref), "")           \
    X(ref, LLVMGetNextInstruction, (ref), "")            \
    X(ref, LLVMGetBasicBlockTerminator, (ref), "")       \
    X(ref, LLVMBasicBlockAsValue, (ref), "")             \
    X(int, LLVMGetNumOperands, (ref), "")                \
    X(ref, LLVMGetOperand, (ref, unsigned), "")          \
    X(unsigned, LLVMGetNumSuccessors, (ref), "")         \
    X(ref, LLVMGetSuccessor, (ref, unsigned), "")        \
    X(ref, LLVMGetFirstUse, (ref), "")                   \
    X(ref, LLVMGetNextUse, (ref), "")                    \
    X(ref, LLVMGetUser, (ref), "")                       \
    X(ref, LLVMIsATerminatorInst, (ref), "")             \
    X(ref, LLVMIsAConstantInt, (ref), "")                \
    X(ref, LLVMIsAFunction, (ref), "")                   \
    X(int, LLVMIsConstant, (ref), "")                    \
    X(int, LLVMIsNull, (ref), "")                        \
    X(ref, LLVMTypeOf, (ref), "")                        \
    X(int, LLVMGetTypeKind, (ref), "")                   \
    X(unsigned, LLVMGetIntTypeWidth, (ref), "")          \
    X(uint64, LLVMConstIntGetZExtValue, (ref), "")       \
    X(ref, LLVMConstInt, (ref, uint64, int), "")         \
    X(ref, LLVMGetCalledValue, (ref), "")                \
    X(ref, LLVMGetCalledFunctionType, (ref), "")         \
    X(ref, LLVMGlobalGetValueType, (ref), "")            \
    X(ref, LLVMGetReturnType, (ref), "")                 \
    X(ref, LLVMGetSwitchCaseValue, (ref, unsigned), "?")

#include "llvm.h"

enum { DONE = 0, SWITCH_CASES_OUT_OF_REACH = 1 };

enum { INTEGER_TYPE = 8 }; /* LLVMIntegerTypeKind */

EXPORT int aiocg_instruction_count(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module)
        FOR_BLOCKS(block, function)
            FOR_INSTRUCTIONS(instruction, block) out[0]++;
    return DONE;
}

/* ---- InstCount ---- */

enum { INST_COUNT_TOTAL_INSTS, INST_COUNT_TOTAL_BLOCKS, INST_COUNT_TOTAL_FUNCS };

/* Opcode -> its place in the vector, which has LLVM 10's order; 0: it has none (PtrToAddr and newer ones). */
static const unsigned char INST_COUNT_PLACE[OPCODES] = {
    [Ret] = 3, [Br] = 4, [Switch] = 5, [IndirectBr] = 6, [Invoke] = 7, [Resume] = 8, [Unreachable] = 9,
    [CleanupRet] = 10, [CatchRet] = 11, [CatchSwitch] = 12, [CallBr] = 13, [FNeg] = 14, [Add] = 15,
    [FAdd] = 16, [Sub] = 17, [FSub] = 18, [Mul] = 19, [FMul] = 20, [UDiv] = 21, [SDiv] = 22, [FDiv] = 23,
    [URem] = 24, [SRem] = 25, [FRem] = 26, [Shl] = 27, [LShr] = 28, [AShr] = 29, [And] = 30, [Or] = 31,
    [Xor] = 32, [Alloca] = 33, [Load] = 34, [Store] = 35, [GetElementPtr] = 36, [Fence] = 37,
    [AtomicCmpXchg] = 38, [AtomicRMW] = 39, [Trunc] = 40, [ZExt] = 41, [SExt] = 42, [FPToUI] = 43,
    [FPToSI] = 44, [UIToFP] = 45, [SIToFP] = 46, [FPTrunc] = 47, [FPExt] = 48, [PtrToInt] = 49,
    [IntToPtr] = 50, [BitCast] = 51, [AddrSpaceCast] = 52, [CleanupPad] = 53, [CatchPad] = 54,
    [ICmp] = 55, [FCmp] = 56, [PHI] = 57, [Call] = 58, [Select] = 59, [UserOp1] = 60, [UserOp2] = 61,
    [VAArg] = 62, [ExtractElement] = 63, [InsertElement] = 64, [ShuffleVector] = 65, [ExtractValue] = 66,
    [InsertValue] = 67, [LandingPad] = 68, [Freeze] = 69,
};

EXPORT int aiocg_inst_count(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        out[INST_COUNT_TOTAL_FUNCS]++;
        FOR_BLOCKS(block, function) {
            out[INST_COUNT_TOTAL_BLOCKS]++;
            FOR_INSTRUCTIONS(instruction, block) {
                unsigned opcode = opcode_of(llvm, instruction);
                out[INST_COUNT_TOTAL_INSTS]++;
                if (opcode < OPCODES && INST_COUNT_PLACE[opcode]) out[INST_COUNT_PLACE[opcode]]++;
            }
        }
    }
    return DONE;
}

/* ---- Autophase ---- */

enum Autophase {
    BB_NUM_ARGS_HI, BB_NUM_ARGS_LO, ONE_PRED, ONE_PRED_ONE_SUC, ONE_PRED_TWO_SUC, ONE_SUCCESSOR, TWO_PRED,
    TWO_PRED_ONE_SUC, TWO_EACH, TWO_SUCCESSOR, MORE_PREDS, BB_03_PHI, BB_HI_PHI, BB_NO_PHI, BEGIN_PHI,
    BRANCH_COUNT, RETURN_INT, CRITICAL_COUNT, NUM_EDGES, CONST_32_BIT, CONST_64_BIT, NUM_CONST_ZEROES,
    NUM_CONST_ONES, UNCOND_BRANCHES, BINARY_CONST_ARG, NUM_ASHR, NUM_ADD, NUM_ALLOCA, NUM_AND, BLOCK_MID,
    BLOCK_LOW, NUM_BITCAST, NUM_BR, NUM_CALL, NUM_GEP, NUM_ICMP, NUM_LSHR, NUM_LOAD, NUM_MUL, NUM_OR, NUM_PHI,
    NUM_RET, NUM_SEXT, NUM_SELECT, NUM_SHL, NUM_STORE, NUM_SUB, NUM_TRUNC, NUM_XOR, NUM_ZEXT, TOTAL_BLOCKS,
    TOTAL_INSTS, TOTAL_MEM_INST, TOTAL_FUNCS, ARGS_PHI, TEST_UNARY
};

/* Opcode -> its own counter; 0: it has none. */
static const unsigned char AUTOPHASE_PLACE[OPCODES] = {
    [AShr] = NUM_ASHR, [Add] = NUM_ADD, [Alloca] = NUM_ALLOCA, [And] = NUM_AND, [BitCast] = NUM_BITCAST,
    [Br] = NUM_BR, [Call] = NUM_CALL, [GetElementPtr] = NUM_GEP, [ICmp] = NUM_ICMP, [LShr] = NUM_LSHR,
    [Load] = NUM_LOAD, [Mul] = NUM_MUL, [Or] = NUM_OR, [PHI] = NUM_PHI, [Ret] = NUM_RET,
    [SExt] = NUM_SEXT, [Select] = NUM_SELECT, [Shl] = NUM_SHL, [Store] = NUM_STORE, [Sub] = NUM_SUB,
    [Trunc] = NUM_TRUNC, [Xor] = NUM_XOR, [ZExt] = NUM_ZEXT,
};

enum Trait { MEMORY = 1, UNARY = 2, BINARY = 4 };

/* UNARY is LLVM 10's class UnaryInstruction, which leaves out Freeze; PtrToAddr is in it as every cast is. */
static const unsigned char TRAITS[OPCODES] = {
    [GetElementPtr] = MEMORY, [Store] = MEMORY, [Call] = MEMORY, [Invoke] = MEMORY,
    [Load] = MEMORY | UNARY, [Alloca] = MEMORY | UNARY, [FNeg] = UNARY, [VAArg] = UNARY,
    [ExtractValue] = UNARY, [AddrSpaceCast] = UNARY, [PtrToAddr] = UNARY, [Trunc ... BitCast] = UNARY,
    [Add ... Xor] = BINARY,
};

/* Counts a block's predecessor edges up to `limit`: every use of a block by a terminator is one edge. */
static unsigned predecessors(const struct Llvm *llvm, ref block, unsigned limit) {
    unsigned count = 0;
    for (ref use = llvm->LLVMGetFirstUse(llvm->LLVMBasicBlockAsValue(block)); use && count < limit;
         use = llvm->LLVMGetNextUse(use))
        if (llvm->LLVMIsATerminatorInst(llvm->LLVMGetUser(use))) count++;
    return count;
}

static void count_edges(const struct Llvm *llvm, ref block, int64 *out) {
    ref terminator = llvm->LLVMGetBasicBlockTerminator(block);
    unsigned successors = terminator ? llvm->LLVMGetNumSuccessors(terminator) : 0;
    unsigned preds = predecessors(llvm, block, 3);
    out[NUM_EDGES] += successors;
    if (successors > 1)
        for (unsigned i = 0; i < successors; i++)
            if (predecessors(llvm, llvm->LLVMGetSuccessor(terminator, i), 2) > 1) out[CRITICAL_COUNT]++;
    if (successors == 1) out[ONE_SUCCESSOR]++;
    if (successors == 2) out[TWO_SUCCESSOR]++;
    if (preds == 1) out[ONE_PRED]++;
    if (preds == 2) out[TWO_PRED]++;
    if (preds > 2) out[MORE_PREDS]++;
    if (preds == 1 && successors == 1) out[ONE_PRED_ONE_SUC]++;
    if (preds == 1 && successors == 2) out[ONE_PRED_TWO_SUC]++;
    if (preds == 2 && successors == 1) out[TWO_PRED_ONE_SUC]++;
    if (preds == 2 && successors == 2) out[TWO_EACH]++;
}

/* `constant` is a ConstantInt. Those with a vector type, which newer LLVMs can make, are not counted. */
static void count_integer(const struct Llvm *llvm, ref constant, int64 *out) {
    ref type = llvm->LLVMTypeOf(constant);
    if (llvm->LLVMGetTypeKind(type) != INTEGER_TYPE) return;
    unsigned width = llvm->LLVMGetIntTypeWidth(type);
    if (width == 32) out[CONST_32_BIT]++;
    if (width == 64) out[CONST_64_BIT]++;
    if (width <= 64) {
        uint64 value = llvm->LLVMConstIntGetZExtValue(constant);
        if (value == 0) out[NUM_CONST_ZEROES]++;
        if (value == 1) out[NUM_CONST_ONES]++;
    } else if (llvm->LLVMIsNull(constant)) { /* the value may not fit in 64 bits, but constants are unique */
        out[NUM_CONST_ZEROES]++;
    } else if (constant == llvm->LLVMConstInt(type, 1, 0)) {
        out[NUM_CONST_ONES]++;
    }
}

/* Since LLVM 22 the case values of a switch are no operands; they are counted as if they still were. */
static int count_switch_cases(const struct Llvm *llvm, ref instruction, unsigned operands, int64 *out) {
    unsigned successors = llvm->LLVMGetNumSuccessors(instruction);
    if (successors < 2 || operands != successors + 1) return DONE;
    if (!llvm->LLVMGetSwitchCaseValue) return SWITCH_CASES_OUT_OF_REACH;
    for (unsigned i = 1; i < successors; i++)
        count_integer(llvm, llvm->LLVMGetSwitchCaseValue(instruction, i), out);
    return DONE;
}

static int returns_integer(const struct Llvm *llvm, ref call) {
    ref callee = llvm->LLVMGetCalledValue(call);
    if (!llvm->LLVMIsAFunction(callee)) return 0;
    ref type = llvm->LLVMGlobalGetValueType(callee);
    return type == llvm->LLVMGetCalledFunctionType(call) &&
           llvm->LLVMGetTypeKind(llvm->LLVMGetReturnType(type)) == INTEGER_TYPE;
}

static int count_instruction(const struct Llvm *llvm, ref instruction, unsigned opcode, unsigned operands,
                             int64 *out) {
    unsigned traits = opcode < OPCODES ? TRAITS[opcode] : 0;
    int constant = 0;
    if (opcode < OPCODES && AUTOPHASE_PLACE[opcode]) out[AUTOPHASE_PLACE[opcode]]++;
    for (unsigned i = 0; i < operands; i++) {
        ref operand = llvm->LLVMGetOperand(instruction, i);
        if (llvm->LLVMIsAConstantInt(operand)) {
            count_integer(llvm, operand, out);
            constant = 1;
        } else if (traits & BINARY) {
            constant |= llvm->LLVMIsConstant(operand);
        }
    }
    if (traits & MEMORY) out[TOTAL_MEM_INST]++;
    if (traits & UNARY) out[TEST_UNARY]++;
    if ((traits & BINARY) && constant) out[BINARY_CONST_ARG]++;
    if (opcode == Call && returns_integer(llvm, instruction)) out[RETURN_INT]++;
    if (opcode == Switch) return count_switch_cases(llvm, instruction, operands, out);
    if (opcode == Br) {
        out[BRANCH_COUNT]++;
        if (operands == 1) out[UNCOND_BRANCHES]++;
    }
    return DONE;
}

static int count_block(const struct Llvm *llvm, ref block, int64 *out) {
    int64 size = 0, phis = 0, incoming = 0;
    FOR_INSTRUCTIONS(instruction, block) {
        unsigned opcode = opcode_of(llvm, instruction);
        unsigned operands = (unsigned)llvm->LLVMGetNumOperands(instruction);
        int status = count_instruction(llvm, instruction, opcode, operands, out);
        if (status != DONE) return status;
        if (opcode == PHI) {
            if (size == 0) out[BEGIN_PHI]++;
            phis++;
            incoming += operands;
        }
        size++;
    }
    out[TOTAL_BLOCKS]++;
    out[TOTAL_INSTS] += size;
    out[ARGS_PHI] += incoming;
    out[phis == 0 ? BB_NO_PHI : phis <= 3 ? BB_03_PHI : BB_HI_PHI]++;
    if (incoming > 0) out[incoming > 5 ? BB_NUM_ARGS_HI : BB_NUM_ARGS_LO]++;
    if (size <= 500) out[size < 15 ? BLOCK_LOW : BLOCK_MID]++;
    count_edges(llvm, block, out);
    return DONE;
}

EXPORT int aiocg_autophase(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        out[TOTAL_FUNCS]++;
        FOR_BLOCKS(block, function) {
            int status = count_block(llvm, block, out);
            if (status != DONE) return status;
        }
    }
    return DONE;
}
