/* The counting rules of InstCount and Autophase for instructions, operands and blocks. Include it after `llvm.h`, with
   the LLVM functions that it calls in LLVM_FUNCTIONS. */

enum { DONE = 0, SWITCH_CASES_OUT_OF_REACH = 1 };

enum { INTEGER_TYPE = 8 }; /* LLVMIntegerTypeKind */

/* ---- InstCount ---- */

enum { INST_COUNT_TOTAL_INSTS, INST_COUNT_TOTAL_BLOCKS, INST_COUNT_TOTAL_FUNCS };

/* Opcode -> index in the vector, in LLVM 10's order; 0: none (PtrToAddr and newer opcodes). */
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

/* Counts `many` instructions. */
static inline void inst_count_instructions(unsigned opcode, int64 many, int64 *out) {
    out[INST_COUNT_TOTAL_INSTS] += many;
    if (opcode < OPCODES && INST_COUNT_PLACE[opcode]) out[INST_COUNT_PLACE[opcode]] += many;
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

/* Opcode -> its own counter; 0: none. */
static const unsigned char AUTOPHASE_PLACE[OPCODES] = {
    [AShr] = NUM_ASHR, [Add] = NUM_ADD, [Alloca] = NUM_ALLOCA, [And] = NUM_AND, [BitCast] = NUM_BITCAST,
    [Br] = NUM_BR, [Call] = NUM_CALL, [GetElementPtr] = NUM_GEP, [ICmp] = NUM_ICMP, [LShr] = NUM_LSHR,
    [Load] = NUM_LOAD, [Mul] = NUM_MUL, [Or] = NUM_OR, [PHI] = NUM_PHI, [Ret] = NUM_RET,
    [SExt] = NUM_SEXT, [Select] = NUM_SELECT, [Shl] = NUM_SHL, [Store] = NUM_STORE, [Sub] = NUM_SUB,
    [Trunc] = NUM_TRUNC, [Xor] = NUM_XOR, [ZExt] = NUM_ZEXT,
};

enum Trait { MEMORY = 1, UNARY = 2, BINARY = 4 };

/* UNARY is LLVM 10's class UnaryInstruction, without Freeze and with all casts, including PtrToAddr. */
static const unsigned char TRAITS[OPCODES] = {
    [GetElementPtr] = MEMORY, [Store] = MEMORY, [Call] = MEMORY, [Invoke] = MEMORY,
    [Load] = MEMORY | UNARY, [Alloca] = MEMORY | UNARY, [FNeg] = UNARY, [VAArg] = UNARY,
    [ExtractValue] = UNARY, [AddrSpaceCast] = UNARY, [PtrToAddr] = UNARY, [Trunc ... BitCast] = UNARY,
    [Add ... Xor] = BINARY,
};

/* Edges of a block: into it (counted up to three), out of it, and those out of it whose target has other predecessors.
   Every use of a block by a terminator is an edge. */
struct Edges { unsigned preds, successors, crowded; };

static void count_edges(struct Edges edges, int64 *out) {
    unsigned preds = edges.preds, successors = edges.successors;
    out[NUM_EDGES] += successors;
    if (successors > 1) out[CRITICAL_COUNT] += edges.crowded;
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

enum Integer { OF_32_BITS = 1, OF_64_BITS = 2, IS_ZERO = 4, IS_ONE = 8 };

/* `constant` is a ConstantInt. Newer LLVMs have ConstantInts of vector type, which are not counted. */
static unsigned integer_traits(const struct Llvm *llvm, ref constant) {
    ref type = llvm->LLVMTypeOf(constant);
    if (llvm->LLVMGetTypeKind(type) != INTEGER_TYPE) return 0;
    unsigned width = llvm->LLVMGetIntTypeWidth(type);
    unsigned traits = width == 32 ? OF_32_BITS : width == 64 ? OF_64_BITS : 0;
    if (width <= 64) {
        uint64 value = llvm->LLVMConstIntGetZExtValue(constant);
        return traits | (value == 0 ? IS_ZERO : value == 1 ? IS_ONE : 0);
    }
    if (llvm->LLVMIsNull(constant)) return traits | IS_ZERO; /* the value may not fit in 64 bits */
    return traits | (constant == llvm->LLVMConstInt(type, 1, 0) ? IS_ONE : 0); /* constants are unique */
}

/* Counts `many` integers with the same traits. */
static inline void count_integers(unsigned traits, int64 many, int64 *out) {
    if (traits & OF_32_BITS) out[CONST_32_BIT] += many;
    if (traits & OF_64_BITS) out[CONST_64_BIT] += many;
    if (traits & IS_ZERO) out[NUM_CONST_ZEROES] += many;
    if (traits & IS_ONE) out[NUM_CONST_ONES] += many;
}

/* Since LLVM 22 the case values of a switch are not operands; they are counted like operands. */
static int count_switch_cases(const struct Llvm *llvm, ref instruction, unsigned operands, int64 *out) {
    unsigned successors = llvm->LLVMGetNumSuccessors(instruction);
    if (successors < 2 || operands != successors + 1) return DONE;
    if (!llvm->LLVMGetSwitchCaseValue) return SWITCH_CASES_OUT_OF_REACH;
    for (unsigned i = 1; i < successors; i++)
        count_integers(integer_traits(llvm, llvm->LLVMGetSwitchCaseValue(instruction, i)), 1, out);
    return DONE;
}

static inline unsigned traits_of(unsigned opcode) { return opcode < OPCODES ? TRAITS[opcode] : 0; }

/* Counts `many` instructions by opcode alone. */
static inline void count_instructions(unsigned opcode, int64 many, int64 *out) {
    unsigned traits = traits_of(opcode);
    if (opcode < OPCODES && AUTOPHASE_PLACE[opcode]) out[AUTOPHASE_PLACE[opcode]] += many;
    if (traits & MEMORY) out[TOTAL_MEM_INST] += many;
    if (traits & UNARY) out[TEST_UNARY] += many;
    if (opcode == Br) out[BRANCH_COUNT] += many;
}

/* Totals of a block: its instructions, its PHIs, and the incoming values of all PHIs. */
struct Sums { int64 size, phis, incoming; };

static inline void add_up(struct Sums *sums, unsigned opcode, unsigned operands) {
    sums->size++;
    if (opcode == PHI) sums->phis++, sums->incoming += operands;
}

/* A block with PHIs begins with one. */
static void count_block(struct Sums sums, struct Edges edges, int64 *out) {
    if (sums.phis) out[BEGIN_PHI]++;
    out[TOTAL_BLOCKS]++;
    out[TOTAL_INSTS] += sums.size;
    out[ARGS_PHI] += sums.incoming;
    out[sums.phis == 0 ? BB_NO_PHI : sums.phis <= 3 ? BB_03_PHI : BB_HI_PHI]++;
    if (sums.incoming > 0) out[sums.incoming > 5 ? BB_NUM_ARGS_HI : BB_NUM_ARGS_LO]++;
    if (sums.size <= 500) out[sums.size < 15 ? BLOCK_LOW : BLOCK_MID]++;
    count_edges(edges, out);
}
