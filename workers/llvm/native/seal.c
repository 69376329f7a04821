/* The seal of a module: a hash of all that it is in memory, of which its text shows only a part.

   It goes by addresses. An instruction is where it was, between the neighbours it had, with the operands it had; so of
   what cannot change in place, such as types, constants and attributes, the address says everything. What the text
   does not show is in it too: the order of use-lists, constants that nothing uses any more but that still hang in the
   use-list of a global, tables of names with their counter, and names that a context has been asked for.

   Two seals of one module that are equal mean that what ran between them has left it as it was, in every respect that
   a pass could notice. Left out is what is only remembered: numbers that say which instruction of a block comes first;
   types, attributes, metadata and constants that nothing refers to, for LLVM finds those again by what they are.

   The C API does not show all of this. Some comes as raw words from the start of LLVM's objects, which are compared and
   not understood; tables of names are found where `struct Layout` says, which was found out by experiment. */

typedef __SIZE_TYPE__ size;
typedef __UINT32_TYPE__ uint32;

#define LLVM_FUNCTIONS(X)                                                        \
    X(ref, LLVMGetModuleContext, (ref), "")                                      \
    X(const char *, LLVMGetTarget, (ref), "")                                    \
    X(const char *, LLVMGetDataLayoutStr, (ref), "")                             \
    X(const char *, LLVMGetModuleInlineAsm, (ref, size *), "")                   \
    X(const char *, LLVMGetSourceFileName, (ref, size *), "")                    \
    X(ref, LLVMGetFirstNamedMetadata, (ref), "")                                 \
    X(ref, LLVMGetNextNamedMetadata, (ref), "")                                  \
    X(const char *, LLVMGetNamedMetadataName, (ref, size *), "")                 \
    X(ref, LLVMGetFirstFunction, (ref), "")                                      \
    X(ref, LLVMGetNextFunction, (ref), "")                                       \
    X(ref, LLVMGetFirstGlobal, (ref), "")                                        \
    X(ref, LLVMGetNextGlobal, (ref), "")                                         \
    X(ref, LLVMGetFirstGlobalAlias, (ref), "")                                   \
    X(ref, LLVMGetNextGlobalAlias, (ref), "")                                    \
    X(ref, LLVMGetFirstGlobalIFunc, (ref), "")                                   \
    X(ref, LLVMGetNextGlobalIFunc, (ref), "")                                    \
    X(const char *, LLVMGetSection, (ref), "")                                   \
    X(const char *, LLVMGetGC, (ref), "")                                        \
    X(ref, LLVMGetComdat, (ref), "")                                             \
    X(int, LLVMGetComdatSelectionKind, (ref), "")                                \
    X(ref, LLVMGlobalCopyAllMetadata, (ref, size *), "")                         \
    X(ref, LLVMInstructionGetAllMetadataOtherThanDebugLoc, (ref, size *), "")    \
    X(unsigned, LLVMValueMetadataEntriesGetKind, (ref, unsigned), "")            \
    X(ref, LLVMValueMetadataEntriesGetMetadata, (ref, unsigned), "")             \
    X(void, LLVMDisposeValueMetadataEntries, (ref), "")                          \
    X(int, LLVMHasMetadata, (ref), "")                                           \
    X(ref, LLVMInstructionGetDebugLoc, (ref), "")                                \
    X(ref, LLVMGetFirstParam, (ref), "")                                         \
    X(ref, LLVMGetNextParam, (ref), "")                                          \
    X(unsigned, LLVMCountParams, (ref), "")                                      \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")                                    \
    X(ref, LLVMGetNextBasicBlock, (ref), "")                                     \
    X(ref, LLVMBasicBlockAsValue, (ref), "")                                     \
    X(ref, LLVMGetFirstInstruction, (ref), "")                                   \
    X(ref, LLVMGetNextInstruction, (ref), "")                                    \
    X(int, LLVMGetNumOperands, (ref), "")                                        \
    X(ref, LLVMGetOperand, (ref, unsigned), "")                                  \
    X(ref, LLVMGetOperandUse, (ref, unsigned), "")                               \
    X(ref, LLVMGetFirstUse, (ref), "")                                           \
    X(ref, LLVMGetNextUse, (ref), "")                                            \
    X(ref, LLVMGetUser, (ref), "")                                               \
    X(ref, LLVMIsAConstant, (ref), "")                                           \
    X(ref, LLVMIsAGlobalValue, (ref), "")                                        \
    X(unsigned, LLVMGetAttributeCountAtIndex, (ref, unsigned), "")               \
    X(void, LLVMGetAttributesAtIndex, (ref, unsigned, ref *), "")                \
    X(unsigned, LLVMGetCallSiteAttributeCount, (ref, unsigned), "")              \
    X(void, LLVMGetCallSiteAttributes, (ref, unsigned, ref *), "")               \
    X(unsigned, LLVMGetNumArgOperands, (ref), "")                                \
    X(ref, LLVMGetCalledFunctionType, (ref), "")                                 \
    X(ref, LLVMGetAllocatedType, (ref), "")                                      \
    X(ref, LLVMGetGEPSourceElementType, (ref), "")                               \
    X(ref, LLVMGetIncomingBlock, (ref, unsigned), "")                            \
    X(unsigned, LLVMGetNumMaskElements, (ref), "")                               \
    X(int, LLVMGetMaskValue, (ref, unsigned), "")                                \
    X(unsigned, LLVMGetNumIndices, (ref), "")                                    \
    X(const unsigned *, LLVMGetIndices, (ref), "")                               \
    X(int, LLVMIsAtomicSingleThread, (ref), "")                                  \
    X(unsigned, LLVMGetNumSuccessors, (ref), "")                                 \
    X(ref, LLVMGetSwitchCaseValue, (ref, unsigned), "?")                         \
    X(void, free, (void *), "?")                                                 \
    X(ref, _ZNK4llvm11NamedMDNode10getOperandEj, (ref, unsigned), "?")            \
    X(unsigned, _ZNK4llvm11NamedMDNode14getNumOperandsEv, (ref), "?")             \
    X(void, _ZNK4llvm11LLVMContext14getMDKindNamesERNS_15SmallVectorImplINS_9StringRefEEE, \
      (ref, struct Names *), "?")                                                \
    X(void, _ZNK4llvm11LLVMContext17getSyncScopeNamesERNS_15SmallVectorImplINS_9StringRefEEE, \
      (ref, struct Names *), "?")                                                \
    X(void, _ZNK4llvm11LLVMContext20getOperandBundleTagsERNS_15SmallVectorImplINS_9StringRefEEE, \
      (ref, struct Names *), "?")

enum { MOST_NAMES = 1024, MOST_ATTRIBUTES = 128, MOST_DEPTH = 32, MOST_USES = 1 << 22 };

/* `llvm::SmallVector<llvm::StringRef, MOST_NAMES>` */
struct Names {
    void *begin;
    uint32 count, capacity;
    struct { const char *start; size length; } own[MOST_NAMES];
};

#include "llvm.h"

/* Where a function and a module keep the pointer to their table of names, in words, and where that has its counter, in
   bytes. */
struct Layout {
    unsigned function_table, module_table, counter;
};

/* Words at the start of LLVM's objects. They are there in every release since 14, and nothing in them changes unless
   the object does. */
enum { OF_GLOBAL = 11, OF_ALIAS = 8, OF_PARAMETER = 3, OF_INSTRUCTION = 6 };

struct Hash {
    const struct Llvm *llvm;
    const struct Layout *layout;
    uint64 value;
    int64 uses;  /* how many more may be walked */
    int unknown; /* something is there that the seal does not see */
};

static void mix(struct Hash *hash, uint64 word) {
    uint64 mixed = (hash->value ^ word) * 0x9E3779B97F4A7C15u;
    hash->value = mixed ^ (mixed >> 29);
}

static void mix_address(struct Hash *hash, const void *address) { mix(hash, (uint64)address); }

static void mix_words(struct Hash *hash, const void *start, unsigned words) {
    for (unsigned i = 0; i < words; i++) mix(hash, ((const uint64 *)start)[i]);
}

static void mix_bytes(struct Hash *hash, const char *bytes, size length) {
    mix(hash, length);
    for (size i = 0; bytes && i < length; i++) mix(hash, (unsigned char)bytes[i]);
}

static void mix_text(struct Hash *hash, const char *text) {
    for (; text && *text; text++) mix(hash, (unsigned char)*text);
    mix(hash, 0);
}

/* ---- tables of names: `llvm::StringMap`, with pointers to entries and then the hashes of their names ---- */

struct Entry { size length; ref value; char name[]; };
struct Table { struct Entry **entries; uint32 buckets, items, tombstones, entry_size; };

static void mix_names(struct Hash *hash, const void *owner, unsigned place) {
    const struct Table *table = ((struct Table *const *)owner)[place];
    mix_address(hash, table);
    if (!table) return;
    mix_words(hash, table, sizeof *table / sizeof(uint64));
    mix(hash, *(const uint32 *)((const char *)table + hash->layout->counter));
    for (uint32 i = 0; i < table->buckets; i++) {
        const struct Entry *entry = table->entries[i];
        mix_address(hash, entry);
        if (!entry || (int64)entry < 0) continue; /* empty, or one that was removed */
        mix_address(hash, entry->value);
        mix_bytes(hash, entry->name, entry->length);
    }
}

/* ---- uses ---- */

/* The address of a use says whose operand it is, and which. */
static void mix_uses(struct Hash *hash, ref value) {
    const struct Llvm *llvm = hash->llvm;
    for (ref use = llvm->LLVMGetFirstUse(value); use; use = llvm->LLVMGetNextUse(use)) mix_address(hash, use);
    mix(hash, 0);
}

/* Constants among the users are reached from nowhere else, when nothing uses them. */
static void mix_uses_by_constants_too(struct Hash *hash, ref value, int depth) {
    const struct Llvm *llvm = hash->llvm;
    for (ref use = llvm->LLVMGetFirstUse(value); use; use = llvm->LLVMGetNextUse(use)) {
        ref user = llvm->LLVMGetUser(use);
        mix_address(hash, use);
        if (depth > MOST_DEPTH || --hash->uses < 0) {
            hash->unknown = 1;
            return;
        }
        if (llvm->LLVMIsAConstant(user) && !llvm->LLVMIsAGlobalValue(user))
            mix_uses_by_constants_too(hash, user, depth + 1);
    }
    mix(hash, 0);
}

/* A constant's list is taken where its first use is. */
static void mix_operands(struct Hash *hash, ref user) {
    const struct Llvm *llvm = hash->llvm;
    unsigned count = (unsigned)llvm->LLVMGetNumOperands(user);
    mix(hash, count);
    for (unsigned i = 0; i < count; i++) {
        ref operand = llvm->LLVMGetOperand(user, i);
        mix_address(hash, operand);
        if (operand && llvm->LLVMIsAConstant(operand) && !llvm->LLVMIsAGlobalValue(operand) &&
            llvm->LLVMGetFirstUse(operand) == llvm->LLVMGetOperandUse(user, i))
            mix_uses(hash, operand);
    }
}

/* ---- what hangs on values ---- */

static void mix_metadata(struct Hash *hash, ref entries, size count) {
    const struct Llvm *llvm = hash->llvm;
    mix(hash, count);
    for (unsigned i = 0; i < count; i++) {
        mix(hash, llvm->LLVMValueMetadataEntriesGetKind(entries, i));
        mix_address(hash, llvm->LLVMValueMetadataEntriesGetMetadata(entries, i));
    }
    if (entries) llvm->LLVMDisposeValueMetadataEntries(entries);
}

static void mix_attributes(struct Hash *hash, ref *attributes, unsigned count) {
    mix(hash, count);
    if (count > MOST_ATTRIBUTES) hash->unknown = 1;
    for (unsigned i = 0; i < count && count <= MOST_ATTRIBUTES; i++) mix_address(hash, attributes[i]);
}

/* ---- instructions ---- */

static const unsigned OF_FUNCTION = 0xFFFFFFFF; /* index of a function's own attributes; 0 is its result */

static void mix_call(struct Hash *hash, ref call, unsigned opcode) {
    const struct Llvm *llvm = hash->llvm;
    ref attributes[MOST_ATTRIBUTES];
    unsigned arguments = llvm->LLVMGetNumArgOperands(call);
    unsigned targets = opcode == Invoke ? 3 : 1; /* what is called, and where to go on */
    if (opcode == CallBr || (unsigned)llvm->LLVMGetNumOperands(call) != arguments + targets)
        hash->unknown = 1; /* operand bundles, whose tags are not seen */
    mix_address(hash, llvm->LLVMGetCalledFunctionType(call));
    for (unsigned index = OF_FUNCTION; index != arguments + 1; index++) {
        unsigned count = llvm->LLVMGetCallSiteAttributeCount(call, index);
        if (count && count <= MOST_ATTRIBUTES) llvm->LLVMGetCallSiteAttributes(call, index, attributes);
        mix_attributes(hash, attributes, count);
    }
}

/* Since LLVM 23 they are no operands. */
static void mix_cases(struct Hash *hash, ref instruction) {
    const struct Llvm *llvm = hash->llvm;
    unsigned successors = llvm->LLVMGetNumSuccessors(instruction);
    if (successors < 2 || (unsigned)llvm->LLVMGetNumOperands(instruction) == 2 * successors) return;
    if (!llvm->LLVMGetSwitchCaseValue) hash->unknown = 1;
    for (unsigned i = 1; i < successors && llvm->LLVMGetSwitchCaseValue; i++)
        mix_address(hash, llvm->LLVMGetSwitchCaseValue(instruction, i));
}

/* What an instruction keeps neither among its operands nor in its first words. */
static void mix_own(struct Hash *hash, ref instruction, unsigned opcode) {
    const struct Llvm *llvm = hash->llvm;
    unsigned count;
    switch (opcode) {
    case Alloca: mix_address(hash, llvm->LLVMGetAllocatedType(instruction)); break;
    case GetElementPtr: mix_address(hash, llvm->LLVMGetGEPSourceElementType(instruction)); break;
    case Call: case Invoke: case CallBr: mix_call(hash, instruction, opcode); break;
    case Switch: mix_cases(hash, instruction); break;
    case Load: case Store: case Fence: case AtomicCmpXchg: case AtomicRMW:
        mix(hash, (uint64)llvm->LLVMIsAtomicSingleThread(instruction));
        break;
    case PHI:
        count = (unsigned)llvm->LLVMGetNumOperands(instruction);
        for (unsigned i = 0; i < count; i++) mix_address(hash, llvm->LLVMGetIncomingBlock(instruction, i));
        break;
    case ShuffleVector:
        count = llvm->LLVMGetNumMaskElements(instruction);
        mix(hash, count);
        for (unsigned i = 0; i < count; i++) mix(hash, (uint64)llvm->LLVMGetMaskValue(instruction, i));
        break;
    case ExtractValue: case InsertValue:
        count = llvm->LLVMGetNumIndices(instruction);
        mix(hash, count);
        for (unsigned i = 0; i < count; i++) mix(hash, llvm->LLVMGetIndices(instruction)[i]);
        break;
    default: break;
    }
}

static void mix_instruction(struct Hash *hash, ref instruction) {
    const struct Llvm *llvm = hash->llvm;
    unsigned opcode = opcode_of(llvm, instruction);
    mix_address(hash, instruction);
    mix_words(hash, instruction, OF_INSTRUCTION);
    mix_operands(hash, instruction);
    mix_uses(hash, instruction);
    mix_own(hash, instruction, opcode);
    if (llvm->LLVMHasMetadata(instruction)) {
        size count = 0;
        ref entries = llvm->LLVMInstructionGetAllMetadataOtherThanDebugLoc(instruction, &count);
        mix_metadata(hash, entries, count);
        mix_address(hash, llvm->LLVMInstructionGetDebugLoc(instruction));
    }
}

/* ---- globals ---- */

static void mix_global(struct Hash *hash, ref global, unsigned words) {
    mix_address(hash, global);
    mix_words(hash, global, words);
    mix_operands(hash, global);
    mix_uses_by_constants_too(hash, global, 0);
}

static void mix_global_object(struct Hash *hash, ref global, unsigned words) {
    const struct Llvm *llvm = hash->llvm;
    ref comdat = llvm->LLVMGetComdat(global);
    size count = 0;
    mix_global(hash, global, words);
    mix_text(hash, llvm->LLVMGetSection(global));
    mix(hash, comdat ? 1 + (uint64)llvm->LLVMGetComdatSelectionKind(comdat) : 0);
    ref entries = llvm->LLVMGlobalCopyAllMetadata(global, &count);
    mix_metadata(hash, entries, count);
}

static void mix_function(struct Hash *hash, ref function) {
    const struct Llvm *llvm = hash->llvm;
    ref attributes[MOST_ATTRIBUTES];
    mix_global_object(hash, function, hash->layout->function_table);
    mix_names(hash, function, hash->layout->function_table);
    mix_text(hash, llvm->LLVMGetGC(function));
    for (unsigned index = OF_FUNCTION, last = llvm->LLVMCountParams(function); index != last + 1; index++) {
        unsigned count = llvm->LLVMGetAttributeCountAtIndex(function, index);
        if (count && count <= MOST_ATTRIBUTES) llvm->LLVMGetAttributesAtIndex(function, index, attributes);
        mix_attributes(hash, attributes, count);
    }
    if (!llvm->LLVMGetFirstBasicBlock(function)) return;
    for (ref one = llvm->LLVMGetFirstParam(function); one; one = llvm->LLVMGetNextParam(one)) {
        mix_words(hash, one, OF_PARAMETER);
        mix_uses(hash, one);
    }
    FOR_BLOCKS(block, function) {
        mix_address(hash, block);
        mix_uses(hash, llvm->LLVMBasicBlockAsValue(block));
        FOR_INSTRUCTIONS(instruction, block) mix_instruction(hash, instruction);
    }
}

/* ---- the module and its context ---- */

static int same(const char *text, size length, const char *expected) {
    for (size i = 0; i < length; i++)
        if (!expected[i] || text[i] != expected[i]) return 0;
    return !expected[length];
}

/* Debug information is a graph that passes change in place. */
static void mix_named_metadata(struct Hash *hash, ref module) {
    const struct Llvm *llvm = hash->llvm;
    for (ref one = llvm->LLVMGetFirstNamedMetadata(module); one; one = llvm->LLVMGetNextNamedMetadata(one)) {
        size length;
        const char *name = llvm->LLVMGetNamedMetadataName(one, &length);
        if (same(name, length, "llvm.dbg.cu")) hash->unknown = 1;
        mix_address(hash, one);
        unsigned count = llvm->_ZNK4llvm11NamedMDNode14getNumOperandsEv(one);
        mix(hash, count);
        for (unsigned i = 0; i < count; i++) mix_address(hash, llvm->_ZNK4llvm11NamedMDNode10getOperandEj(one, i));
    }
}

static uint64 count(const struct Llvm *llvm, ref context, void (*list)(ref, struct Names *)) {
    struct Names names;
    names.begin = names.own;
    names.count = 0;
    names.capacity = MOST_NAMES;
    list(context, &names);
    if (names.begin != names.own) llvm->free(names.begin); /* there were more */
    return names.count;
}

#define LIST(name) llvm->_ZNK4llvm11LLVMContext##name##ERNS_15SmallVectorImplINS_9StringRefEEE

/* How many names a context has been asked for, each of which it keeps and writes into bitcode. */
static uint64 count_names(const struct Llvm *llvm, ref context) {
    uint64 kinds = count(llvm, context, LIST(14getMDKindNames));
    uint64 scopes = count(llvm, context, LIST(17getSyncScopeNames));
    uint64 tags = count(llvm, context, LIST(20getOperandBundleTags));
    return kinds << 40 | scopes << 20 | tags;
}

EXPORT uint64 aiocg_count_names(const struct Llvm *llvm, ref context) { return count_names(llvm, context); }

/* Returns the seal, or 0 for a module with something that it would not see. */
EXPORT uint64 aiocg_seal(const struct Llvm *llvm, ref module, const struct Layout *layout) {
    struct Hash state = {llvm, layout, 0, MOST_USES, 0}, *hash = &state;
    size length;
    const char *text;
    mix_named_metadata(hash, module);
    if (hash->unknown) return 0;
    mix(hash, count_names(llvm, llvm->LLVMGetModuleContext(module)));
    mix_text(hash, llvm->LLVMGetTarget(module));
    mix_text(hash, llvm->LLVMGetDataLayoutStr(module));
    text = llvm->LLVMGetModuleInlineAsm(module, &length), mix_bytes(hash, text, length);
    text = llvm->LLVMGetSourceFileName(module, &length), mix_bytes(hash, text, length);
    mix_names(hash, module, layout->module_table);
    for (ref one = llvm->LLVMGetFirstGlobal(module); one; one = llvm->LLVMGetNextGlobal(one))
        mix_global_object(hash, one, OF_GLOBAL);
    for (ref one = llvm->LLVMGetFirstGlobalAlias(module); one; one = llvm->LLVMGetNextGlobalAlias(one))
        mix_global(hash, one, OF_ALIAS);
    for (ref one = llvm->LLVMGetFirstGlobalIFunc(module); one; one = llvm->LLVMGetNextGlobalIFunc(one))
        mix_global(hash, one, OF_ALIAS);
    FOR_FUNCTIONS(function, module) mix_function(hash, function);
    return state.unknown ? 0 : state.value | 1;
}
