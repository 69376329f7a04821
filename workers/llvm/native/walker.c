/* Counts the instructions of a module and the features of InstCount and Autophase, through LLVM's C API. */

#define LLVM_FUNCTIONS(X)                                \
    X(ref, LLVMBasicBlockAsValue, (ref), "")             \
    X(int, LLVMGetNumOperands, (ref), "")                \
    X(ref, LLVMGetOperand, (ref, unsigned), "")          \
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

#include "counts.h"

EXPORT int aiocg_instruction_count(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module)
        FOR_BLOCKS(block, function)
            FOR_INSTRUCTIONS(instruction, block) out[0]++;
    return DONE;
}

/* `out` has room for one number per function with a body. */
EXPORT int aiocg_function_counts(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        if (!llvm->LLVMGetFirstBasicBlock(function)) continue;
        *out = 0;
        FOR_BLOCKS(block, function)
            FOR_INSTRUCTIONS(instruction, block) ++*out;
        out++;
    }
    return DONE;
}

EXPORT int aiocg_inst_count(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        out[INST_COUNT_TOTAL_FUNCS]++;
        FOR_BLOCKS(block, function) {
            out[INST_COUNT_TOTAL_BLOCKS]++;
            FOR_INSTRUCTIONS(instruction, block) inst_count_instructions(opcode_of(llvm, instruction), 1, out);
        }
    }
    return DONE;
}

static unsigned predecessors(const struct Llvm *llvm, ref block, unsigned limit) {
    unsigned count = 0;
    for (ref use = llvm->LLVMGetFirstUse(llvm->LLVMBasicBlockAsValue(block)); use && count < limit;
         use = llvm->LLVMGetNextUse(use))
        if (llvm->LLVMIsATerminatorInst(llvm->LLVMGetUser(use))) count++;
    return count;
}

static struct Edges edges_of(const struct Llvm *llvm, ref block) {
    ref terminator = llvm->LLVMGetBasicBlockTerminator(block);
    struct Edges edges = {predecessors(llvm, block, 3), terminator ? llvm->LLVMGetNumSuccessors(terminator) : 0, 0};
    for (unsigned i = 0; i < edges.successors; i++)
        edges.crowded += predecessors(llvm, llvm->LLVMGetSuccessor(terminator, i), 2) > 1;
    return edges;
}

static int returns_integer(const struct Llvm *llvm, ref call) {
    ref callee = llvm->LLVMGetCalledValue(call);
    if (!llvm->LLVMIsAFunction(callee)) return 0;
    ref type = llvm->LLVMGlobalGetValueType(callee);
    return type == llvm->LLVMGetCalledFunctionType(call) &&
           llvm->LLVMGetTypeKind(llvm->LLVMGetReturnType(type)) == INTEGER_TYPE;
}

static int autophase_block(const struct Llvm *llvm, ref block, int64 *out) {
    struct Sums sums = {0, 0, 0};
    FOR_INSTRUCTIONS(instruction, block) {
        unsigned opcode = opcode_of(llvm, instruction), binary = traits_of(opcode) & BINARY;
        unsigned operands = (unsigned)llvm->LLVMGetNumOperands(instruction);
        int constant = 0;
        for (unsigned i = 0; i < operands; i++) {
            ref operand = llvm->LLVMGetOperand(instruction, i);
            if (llvm->LLVMIsAConstantInt(operand)) count_integers(integer_traits(llvm, operand), 1, out), constant = 1;
            else if (binary) constant |= llvm->LLVMIsConstant(operand);
        }
        count_instructions(opcode, 1, out);
        if (binary && constant) out[BINARY_CONST_ARG]++;
        if (opcode == Br && operands == 1) out[UNCOND_BRANCHES]++;
        if (opcode == Call && returns_integer(llvm, instruction)) out[RETURN_INT]++;
        if (opcode == Switch && count_switch_cases(llvm, instruction, operands, out) != DONE)
            return SWITCH_CASES_OUT_OF_REACH;
        add_up(&sums, opcode, operands);
    }
    count_block(sums, edges_of(llvm, block), out);
    return DONE;
}

EXPORT int aiocg_autophase(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        out[TOTAL_FUNCS]++;
        FOR_BLOCKS(block, function) {
            int status = autophase_block(llvm, block, out);
            if (status != DONE) return status;
        }
    }
    return DONE;
}
