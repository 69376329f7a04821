/* Two ways to tell programs apart. The fingerprint is cheap and one-sided: programs that differ in it have different
   texts, but it sees only what the C API shows without effort. The plain text decides. */

#define LLVM_FUNCTIONS(X)                                            \
    X(ref, LLVMGetFirstFunction, (ref), "")                          \
    X(ref, LLVMGetNextFunction, (ref), "")                           \
    X(ref, LLVMGetFirstGlobal, (ref), "")                            \
    X(ref, LLVMGetNextGlobal, (ref), "")                             \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")                        \
    X(ref, LLVMGetNextBasicBlock, (ref), "")                         \
    X(ref, LLVMGetFirstInstruction, (ref), "")                       \
    X(ref, LLVMGetNextInstruction, (ref), "")                        \
    X(ref, LLVMBasicBlockAsValue, (ref), "")                         \
    X(const char *, LLVMGetValueName2, (ref, size *), "")            \
    X(int, LLVMGetLinkage, (ref), "")                                \
    X(int, LLVMGetUnnamedAddress, (ref), "")                         \
    X(int, LLVMGetNumOperands, (ref), "")                            \
    X(ref, LLVMGetOperand, (ref, unsigned), "")                      \
    X(ref, LLVMTypeOf, (ref), "")                                    \
    X(int, LLVMGetTypeKind, (ref), "")                               \
    X(ref, LLVMIsAInstruction, (ref), "")                            \
    X(ref, LLVMIsAGlobalValue, (ref), "")                            \
    X(ref, LLVMIsAConstantInt, (ref), "")                            \
    X(unsigned, LLVMGetIntTypeWidth, (ref), "")                      \
    X(uint64, LLVMConstIntGetZExtValue, (ref), "")                   \
    X(unsigned, LLVMGetAlignment, (ref), "")                         \
    X(unsigned, LLVMGetIntrinsicID, (ref), "")                       \
    X(unsigned, LLVMCountParams, (ref), "")                          \
    X(unsigned, LLVMGetNumArgOperands, (ref), "")                    \
    X(unsigned, LLVMGetAttributeCountAtIndex, (ref, unsigned), "")   \
    X(void, LLVMGetAttributesAtIndex, (ref, unsigned, ref *), "")    \
    X(unsigned, LLVMGetCallSiteAttributeCount, (ref, unsigned), "")  \
    X(void, LLVMGetCallSiteAttributes, (ref, unsigned, ref *), "")   \
    X(int, LLVMIsEnumAttribute, (ref), "")                           \
    X(int, LLVMIsStringAttribute, (ref), "")                         \
    X(unsigned, LLVMGetEnumAttributeKind, (ref), "")                 \
    X(uint64, LLVMGetEnumAttributeValue, (ref), "")                  \
    X(const char *, LLVMGetStringAttributeKind, (ref, unsigned *), "")  \
    X(const char *, LLVMGetStringAttributeValue, (ref, unsigned *), "") \
    X(int, LLVMIsTailCall, (ref), "")                                \
    X(int, LLVMIsInBounds, (ref), "")                                \
    X(int, LLVMGetICmpPredicate, (ref), "")                          \
    X(int, LLVMGetFCmpPredicate, (ref), "")                          \
    X(int, LLVMGetNUW, (ref), "?")                                   \
    X(int, LLVMGetNSW, (ref), "?")                                   \
    X(int, LLVMGetExact, (ref), "?")                                 \
    X(int, LLVMGetNNeg, (ref), "?")                                  \
    X(int, LLVMGetIsDisjoint, (ref), "?")                            \
    X(unsigned, LLVMGEPGetNoWrapFlags, (ref), "?")                   \
    X(int, LLVMCanValueUseFastMathFlags, (ref), "?")                 \
    X(unsigned, LLVMGetFastMathFlags, (ref), "?")

typedef __SIZE_TYPE__ size;
#include "llvm.h"

enum { INTEGER_KIND = 8, MOST_ATTRIBUTES = 128 };
static const unsigned OF_FUNCTION = 0xFFFFFFFF; /* index of a function's own attributes; 0 is its result */

struct Hash {
    const struct Llvm *llvm;
    uint64 value;
};

static void mix(struct Hash *hash, uint64 word) {
    uint64 mixed = (hash->value ^ word) * 0x9E3779B97F4A7C15u;
    hash->value = mixed ^ (mixed >> 29);
}

static void mix_bytes(struct Hash *hash, const char *bytes, size length) {
    mix(hash, length);
    for (size i = 0; i < length; i++) mix(hash, (unsigned char)bytes[i]);
}

static void mix_name(struct Hash *hash, ref value) {
    size length;
    const char *name = hash->llvm->LLVMGetValueName2(value, &length);
    mix_bytes(hash, name, length);
}

static void mix_attributes(struct Hash *hash, ref *attributes, unsigned count) {
    const struct Llvm *llvm = hash->llvm;
    mix(hash, count);
    for (unsigned i = 0; i < count; i++) {
        unsigned length;
        if (llvm->LLVMIsEnumAttribute(attributes[i])) {
            mix(hash, llvm->LLVMGetEnumAttributeKind(attributes[i]));
            mix(hash, llvm->LLVMGetEnumAttributeValue(attributes[i]));
        } else if (llvm->LLVMIsStringAttribute(attributes[i])) {
            const char *text = llvm->LLVMGetStringAttributeKind(attributes[i], &length);
            mix_bytes(hash, text, length);
            text = llvm->LLVMGetStringAttributeValue(attributes[i], &length);
            mix_bytes(hash, text, length);
        }
    }
}

/* Those of an intrinsic are left out: whoever reads bitcode gives it the ones it is known to have. */
static void mix_function_attributes(struct Hash *hash, ref function) {
    const struct Llvm *llvm = hash->llvm;
    ref attributes[MOST_ATTRIBUTES];
    if (llvm->LLVMGetIntrinsicID(function)) return;
    for (unsigned index = OF_FUNCTION, last = llvm->LLVMCountParams(function); index != last + 1; index++) {
        unsigned count = llvm->LLVMGetAttributeCountAtIndex(function, index);
        if (count && count <= MOST_ATTRIBUTES) llvm->LLVMGetAttributesAtIndex(function, index, attributes);
        mix_attributes(hash, attributes, count <= MOST_ATTRIBUTES ? count : 0);
    }
}

static void mix_call(struct Hash *hash, ref call, unsigned opcode) {
    const struct Llvm *llvm = hash->llvm;
    ref attributes[MOST_ATTRIBUTES];
    if (opcode == Call) mix(hash, (uint64)llvm->LLVMIsTailCall(call));
    for (unsigned index = OF_FUNCTION, last = llvm->LLVMGetNumArgOperands(call); index != last + 1; index++) {
        unsigned count = llvm->LLVMGetCallSiteAttributeCount(call, index);
        if (count && count <= MOST_ATTRIBUTES) llvm->LLVMGetCallSiteAttributes(call, index, attributes);
        mix_attributes(hash, attributes, count <= MOST_ATTRIBUTES ? count : 0);
    }
}

static void mix_flags(struct Hash *hash, ref instruction, unsigned opcode) {
    const struct Llvm *llvm = hash->llvm;
    switch (opcode) {
    case Add: case Sub: case Mul: case Shl:
        if (llvm->LLVMGetNUW) mix(hash, (uint64)(2 * llvm->LLVMGetNUW(instruction) + llvm->LLVMGetNSW(instruction)));
        break;
    case UDiv: case SDiv: case LShr: case AShr:
        if (llvm->LLVMGetExact) mix(hash, (uint64)llvm->LLVMGetExact(instruction));
        break;
    case Or:
        if (llvm->LLVMGetIsDisjoint) mix(hash, (uint64)llvm->LLVMGetIsDisjoint(instruction));
        break;
    case ZExt:
        if (llvm->LLVMGetNNeg) mix(hash, (uint64)llvm->LLVMGetNNeg(instruction));
        break;
    case GetElementPtr:
        mix(hash, llvm->LLVMGEPGetNoWrapFlags ? llvm->LLVMGEPGetNoWrapFlags(instruction)
                                              : (uint64)llvm->LLVMIsInBounds(instruction));
        break;
    case Load: case Store: case Alloca: mix(hash, llvm->LLVMGetAlignment(instruction)); break;
    case ICmp: mix(hash, (uint64)llvm->LLVMGetICmpPredicate(instruction)); break;
    case FCmp: mix(hash, (uint64)llvm->LLVMGetFCmpPredicate(instruction)); break;
    case Call: case Invoke: case CallBr: mix_call(hash, instruction, opcode); break;
    default: break;
    }
    if (llvm->LLVMCanValueUseFastMathFlags && llvm->LLVMCanValueUseFastMathFlags(instruction))
        mix(hash, llvm->LLVMGetFastMathFlags(instruction));
}

/* Of another instruction only the opcode: which one it is would take a table of all. */
static void mix_operand(struct Hash *hash, ref operand) {
    const struct Llvm *llvm = hash->llvm;
    ref type = llvm->LLVMTypeOf(operand);
    int kind = llvm->LLVMGetTypeKind(type);
    mix(hash, (uint64)kind);
    if (llvm->LLVMIsAInstruction(operand)) {
        mix(hash, (uint64)llvm->LLVMGetInstructionOpcode(operand));
    } else if (llvm->LLVMIsAGlobalValue(operand)) {
        mix_name(hash, operand);
    } else if (kind == INTEGER_KIND && llvm->LLVMIsAConstantInt(operand)) {
        unsigned width = llvm->LLVMGetIntTypeWidth(type);
        mix(hash, width);
        if (width <= 64) mix(hash, llvm->LLVMConstIntGetZExtValue(operand));
    }
}

static void mix_instruction(struct Hash *hash, ref instruction) {
    const struct Llvm *llvm = hash->llvm;
    unsigned opcode = (unsigned)llvm->LLVMGetInstructionOpcode(instruction);
    unsigned operands = (unsigned)llvm->LLVMGetNumOperands(instruction);
    mix(hash, opcode);
    mix(hash, (uint64)llvm->LLVMGetTypeKind(llvm->LLVMTypeOf(instruction)));
    mix(hash, operands);
    mix_name(hash, instruction);
    mix_flags(hash, instruction, opcode);
    for (unsigned i = 0; i < operands; i++) mix_operand(hash, llvm->LLVMGetOperand(instruction, i));
}

static void mix_global(struct Hash *hash, ref global) {
    mix_name(hash, global);
    mix(hash, (uint64)hash->llvm->LLVMGetLinkage(global));
    mix(hash, (uint64)hash->llvm->LLVMGetUnnamedAddress(global));
}

/* Hashes what is the same in a module that a pass has left and in one that is read from its bitcode. */
EXPORT uint64 aiocg_fingerprint(const struct Llvm *llvm, ref module) {
    struct Hash hash = {llvm, 0};
    for (ref global = llvm->LLVMGetFirstGlobal(module); global; global = llvm->LLVMGetNextGlobal(global))
        mix_global(&hash, global);
    FOR_FUNCTIONS(function, module) {
        mix_global(&hash, function);
        mix_function_attributes(&hash, function);
        FOR_BLOCKS(block, function) {
            mix_name(&hash, llvm->LLVMBasicBlockAsValue(block));
            FOR_INSTRUCTIONS(instruction, block) mix_instruction(&hash, instruction);
        }
    }
    return hash.value;
}

/* ---- plain text ---- */

static int is_name(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '$' ||
           c == '.' || c == '_';
}

/* Returns the end of a label with its colon at the start of a line, or null. */
static const char *label_end(const char *line) {
    const char *end = line;
    if (*end == '"') {
        for (end++; *end && *end != '"' && *end != '\n';) end++;
        if (*end++ != '"') return 0;
    } else {
        while (is_name(*end)) end++;
        if (end == line) return 0;
    }
    return *end == ':' ? end + 1 : 0;
}

/* Says whether a comment that lists predecessors follows. */
static int lists_predecessors(const char *text) {
    static const char comment[] = "; preds = ";
    if (*text != ' ') return 0;
    while (*text == ' ') text++;
    for (const char *expected = comment; *expected;)
        if (*text++ != *expected++) return 0;
    return 1;
}

/* Drops from the text of a module, in place, the comments that list predecessors: their order is that of use-lists,
   which is not IR. Returns the length that is left. */
EXPORT size aiocg_plain_text(char *text) {
    const char *from = text;
    char *to = text;
    while (*from) {
        const char *label = label_end(from);
        if (label && lists_predecessors(label)) {
            while (from < label) *to++ = *from++;
            while (*from && *from != '\n') from++;
        }
        while (*from && *from != '\n') *to++ = *from++;
        if (*from) *to++ = *from++;
    }
    return (size)(to - text);
}
