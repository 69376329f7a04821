/* Counts how often each entity of IR2Vec's vocabulary (an opcode, a type, a kind of operand, a predicate of a
   comparison) contributes to the embedding of a program.

   An embedding is a sum of rows of the vocabulary, so it can be computed from these counts. In the flow-aware form, an
   operand that is an instruction contributes the embedding of that instruction, which is a sum too. An instruction
   therefore counts once for each chain of uses that begins at it. A backward pass over a function computes this number
   for each instruction, so that no vectors are needed. */

#define LLVM_FUNCTIONS(X)                                          \
    X(int, LLVMGetNumOperands, (ref), "")                          \
    X(ref, LLVMGetOperand, (ref, unsigned), "")                    \
    X(ref, LLVMIsAFunction, (ref), "")                             \
    X(ref, LLVMIsAInstruction, (ref), "")                          \
    X(ref, LLVMIsADbgInfoIntrinsic, (ref), "")                     \
    X(int, LLVMIsConstant, (ref), "")                              \
    X(ref, LLVMTypeOf, (ref), "")                                  \
    X(int, LLVMGetTypeKind, (ref), "")                             \
    X(int, LLVMGetICmpPredicate, (ref), "")                        \
    X(int, LLVMGetFCmpPredicate, (ref), "")                        \
    X(ref, LLVMGetCalledValue, (ref), "")                          \
    X(unsigned, LLVMGetIntrinsicID, (ref), "")                     \
    X(unsigned, LLVMLookupIntrinsicID, (const char *, size), "")   \
    X(const char *, LLVMGetValueName2, (ref, size *), "")

typedef __SIZE_TYPE__ size;
#include "llvm.h"

/* The entities, in the order of `ENTITIES` in ir2vec.py. */
enum {
    OPCODE_ENTITIES = OPCODES - 2, /* there is no opcode 0 and no opcode 6 */
    TYPE_ENTITY = OPCODE_ENTITIES,
    OPERAND_ENTITY = TYPE_ENTITY + 12,
    PREDICATE_ENTITY = OPERAND_ENTITY + 4,
    ENTITIES = PREDICATE_ENTITY + 16 + 10
};
enum Type { FLOAT, VOID, LABEL, METADATA, VECTOR, TOKEN, INTEGER, FUNCTION, POINTER, STRUCT, ARRAY, UNKNOWN };
enum Operand { A_FUNCTION, A_POINTER, A_CONSTANT, A_VARIABLE };

/* LLVMTypeKind -> type; newer kinds are UNKNOWN. */
static const unsigned char TYPE_OF_KIND[21] = {
    VOID, FLOAT, FLOAT, FLOAT, FLOAT, FLOAT, FLOAT, LABEL, INTEGER, FUNCTION, STRUCT, ARRAY, POINTER, VECTOR, METADATA,
    VECTOR /* MMX */, TOKEN, VECTOR, FLOAT, VECTOR /* AMX */, UNKNOWN /* target extension type */
};
enum { POINTER_KIND = 12, FIRST_ICMP_PREDICATE = 32 };

static const double MOST = 1e300; /* limits counts, which can double with each instruction */

struct Entry {
    ref key; /* an instruction, or a block */
    double count;
    uint64 slot;
};

struct Visit {
    ref block;
    unsigned next; /* successor */
};

/* Working memory for one function, owned by the caller. */
struct Table {
    struct Entry *entries; /* in the order in which they were reached */
    int64 *slots;          /* 1 + index in `entries`, or 0 */
    uint64 mask;
    int64 used;
};

static uint64 hash(ref key) {
    uint64 bits = (uint64)key;
    return (bits >> 4) * 0x9E3779B97F4A7C15u >> 20;
}

static struct Entry *find(const struct Table *table, ref key) {
    for (uint64 slot = hash(key) & table->mask; table->slots[slot]; slot = (slot + 1) & table->mask)
        if (table->entries[table->slots[slot] - 1].key == key) return &table->entries[table->slots[slot] - 1];
    return 0;
}

static void add(struct Table *table, ref key) {
    uint64 slot = hash(key) & table->mask;
    while (table->slots[slot]) slot = (slot + 1) & table->mask;
    table->entries[table->used] = (struct Entry){key, 1, slot};
    table->slots[slot] = ++table->used;
}

static void clear(struct Table *table) {
    while (table->used) table->slots[table->entries[--table->used].slot] = 0;
}

/* Returns whether an instruction is a debug intrinsic or a pseudo probe. */
static int is_annotation(const struct Llvm *llvm, ref instruction, unsigned opcode, unsigned pseudo_probe) {
    if (opcode != Call) return 0;
    if (llvm->LLVMIsADbgInfoIntrinsic(instruction)) return 1;
    ref callee = llvm->LLVMGetCalledValue(instruction);
    return llvm->LLVMIsAFunction(callee) && llvm->LLVMGetIntrinsicID(callee) == pseudo_probe;
}

static void count_own(const struct Llvm *llvm, ref instruction, unsigned opcode, double count, double *out) {
    unsigned kind = (unsigned)llvm->LLVMGetTypeKind(llvm->LLVMTypeOf(instruction));
    if (opcode && opcode != 6 && opcode < OPCODES) out[opcode - (opcode < 6 ? 1 : 2)] += count;
    out[TYPE_ENTITY + (kind < sizeof TYPE_OF_KIND ? TYPE_OF_KIND[kind] : UNKNOWN)] += count;
    if (opcode == FCmp) out[PREDICATE_ENTITY + llvm->LLVMGetFCmpPredicate(instruction)] += count;
    if (opcode == ICmp) {
        int predicate = llvm->LLVMGetICmpPredicate(instruction) - FIRST_ICMP_PREDICATE;
        out[PREDICATE_ENTITY + 16 + predicate] += count;
    }
}

static unsigned kind_of_operand(const struct Llvm *llvm, ref operand) {
    if (llvm->LLVMIsAFunction(operand)) return A_FUNCTION;
    if (llvm->LLVMGetTypeKind(llvm->LLVMTypeOf(operand)) == POINTER_KIND) return A_POINTER;
    return llvm->LLVMIsConstant(operand) ? A_CONSTANT : A_VARIABLE;
}

/* Counts an instruction; `instructions` are those of its function (flow-aware form), or null (symbolic form). */
static void count_instruction(const struct Llvm *llvm, ref instruction, const struct Table *instructions,
                              const struct Entry *self, double *out) {
    unsigned opcode = opcode_of(llvm, instruction), operands = (unsigned)llvm->LLVMGetNumOperands(instruction);
    double count = self->count < MOST ? self->count : MOST;
    /* Up to LLVM 21 the case values of a switch are operands: every other one after the condition and the default. */
    int cases = opcode == Switch && operands > 2 && operands == 2 * llvm->LLVMGetNumSuccessors(instruction);
    count_own(llvm, instruction, opcode, count, out);
    for (unsigned i = 0; i < operands; i++) {
        if (cases && i >= 2 && i % 2 == 0) continue;
        ref operand = llvm->LLVMGetOperand(instruction, i);
        struct Entry *definition =
            instructions && llvm->LLVMIsAInstruction(operand) ? find(instructions, operand) : 0;
        if (definition && definition < self)
            definition->count += count;
        else
            out[OPERAND_ENTITY + kind_of_operand(llvm, operand)] += count;
    }
}

/* Adds the reachable blocks to `blocks`, depth first. */
static void reach(const struct Llvm *llvm, ref function, struct Table *blocks, struct Visit *stack) {
    int64 depth = 0;
    clear(blocks);
    stack[0] = (struct Visit){llvm->LLVMGetFirstBasicBlock(function), 0};
    add(blocks, stack[0].block);
    while (depth >= 0) {
        struct Visit *visit = &stack[depth];
        ref terminator = llvm->LLVMGetBasicBlockTerminator(visit->block);
        if (visit->next == llvm->LLVMGetNumSuccessors(terminator)) {
            depth--;
            continue;
        }
        ref successor = llvm->LLVMGetSuccessor(terminator, visit->next++);
        if (find(blocks, successor)) continue;
        add(blocks, successor);
        stack[++depth] = (struct Visit){successor, 0};
    }
}

/* Writes four sizes: the number of functions with a body, the most blocks and the most instructions in one of them, and
   the bytes of all their names. */
EXPORT void aiocg_ir2vec_extent(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) {
        int64 blocks = 0, instructions = 0;
        size length;
        FOR_BLOCKS(block, function) {
            blocks++;
            FOR_INSTRUCTIONS(instruction, block) instructions++;
        }
        if (!blocks) continue;
        llvm->LLVMGetValueName2(function, &length);
        out[0]++;
        if (blocks > out[1]) out[1] = blocks;
        if (instructions > out[2]) out[2] = instructions;
        out[3] += (int64)length;
    }
}

/* Writes the names of the functions with a body, concatenated, and the length of each. */
EXPORT void aiocg_ir2vec_names(const struct Llvm *llvm, ref module, char *names, int64 *lengths) {
    FOR_FUNCTIONS(function, module) {
        size length;
        if (!llvm->LLVMGetFirstBasicBlock(function)) continue;
        const char *name = llvm->LLVMGetValueName2(function, &length);
        for (size i = 0; i < length; i++) *names++ = name[i];
        *lengths++ = (int64)length;
    }
}

/* Adds the counts of each function with a body to `out`. `stride` is 0 for one row for the program, or the number of
   entities for one row per function.

   `blocks` and `stack` have room for the most blocks of a function, and `instructions` for the most instructions.
   `block_slots` and `instruction_slots` are zeros, at least twice as many and a power of two; the masks are one less.
   If `instructions` is null, the symbolic form is counted. */
EXPORT void aiocg_ir2vec(const struct Llvm *llvm, ref module, int64 stride, double *out, struct Entry *blocks,
                        int64 *block_slots, uint64 block_mask, struct Visit *stack, struct Entry *instructions,
                        int64 *instruction_slots, uint64 instruction_mask) {
    struct Table reached = {blocks, block_slots, block_mask, 0};
    struct Table flow = {instructions, instruction_slots, instruction_mask, 0};
    static const char name[] = "llvm.pseudoprobe";
    unsigned pseudo_probe = llvm->LLVMLookupIntrinsicID(name, sizeof name - 1);
    FOR_FUNCTIONS(function, module) {
        if (!llvm->LLVMGetFirstBasicBlock(function)) continue;
        reach(llvm, function, &reached, stack);
        if (instructions) clear(&flow);
        for (int64 i = 0; i < reached.used; i++)
            FOR_INSTRUCTIONS(instruction, reached.entries[i].key) {
                if (is_annotation(llvm, instruction, opcode_of(llvm, instruction), pseudo_probe)) continue;
                if (instructions) {
                    add(&flow, instruction);
                } else {
                    struct Entry once = {instruction, 1, 0};
                    count_instruction(llvm, instruction, 0, &once, out);
                }
            }
        for (int64 i = flow.used - 1; i >= 0; i--)
            count_instruction(llvm, flow.entries[i].key, &flow, &flow.entries[i], out);
        out += stride;
    }
}
