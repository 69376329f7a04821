/* Settling a module: bringing what a pass has left into the condition in which reading its bitcode would give it.

   A program is the same after writing and reading, a module is not: the order of use-lists, the tables of names with
   their counters, and the numbers of blocks are those of a module that was built from top to bottom. Passes go by
   them, so a state is to be read before the next pass. Here they are made what the reader would make them, in place,
   which takes a fraction of the time. Left out is what `seal.c` leaves out, for the same reasons.

   How the reader builds: initialisers of globals first, then one function after another. In a function, instructions
   come in order, and each use goes to the front of the list of its value. What is used before it is defined is stood in
   for by a placeholder; its uses go over to the value when that comes, so that they end in the opposite order, behind
   all later ones. A constant comes into being after its operands, where it is first used. Names come last, in the order
   of the table that was written. A phi makes the reader try out a block and remove it again, which shows in the table
   and in the number of the next block.

   The order among initialisers is not made here: they must be as they were when the module was read. A module in which
   more may be different is not settled. */

typedef __SIZE_TYPE__ size;
typedef __UINT32_TYPE__ uint32;
struct Text { const char *start; size length; }; /* `llvm::StringRef` */

#define LLVM_FUNCTIONS(X)                                                        \
    X(ref, LLVMGetModuleContext, (ref), "")                                      \
    X(ref, LLVMGetFirstFunction, (ref), "")                                      \
    X(ref, LLVMGetNextFunction, (ref), "")                                       \
    X(ref, LLVMGetFirstGlobal, (ref), "")                                        \
    X(ref, LLVMGetNextGlobal, (ref), "")                                         \
    X(ref, LLVMGetFirstGlobalAlias, (ref), "")                                   \
    X(ref, LLVMGetNextGlobalAlias, (ref), "")                                    \
    X(ref, LLVMGetFirstGlobalIFunc, (ref), "")                                   \
    X(ref, LLVMGetNextGlobalIFunc, (ref), "")                                    \
    X(ref, LLVMGetNamedMetadata, (ref, const char *, size), "")                  \
    X(ref, LLVMGetComdat, (ref), "")                                             \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")                                    \
    X(ref, LLVMGetNextBasicBlock, (ref), "")                                     \
    X(ref, LLVMAppendBasicBlockInContext, (ref, ref, const char *), "")          \
    X(void, LLVMDeleteBasicBlock, (ref), "")                                     \
    X(ref, LLVMGetFirstInstruction, (ref), "")                                   \
    X(ref, LLVMGetNextInstruction, (ref), "")                                    \
    X(int, LLVMGetNumOperands, (ref), "")                                        \
    X(ref, LLVMGetOperandUse, (ref, unsigned), "")                               \
    X(unsigned, LLVMGetNumOperandBundles, (ref), "?")                            \
    X(ref, LLVMGetOperand, (ref, unsigned), "")                                  \
    X(ref, LLVMGetFirstUse, (ref), "")                                           \
    X(ref, LLVMGetNextUse, (ref), "")                                            \
    X(ref, LLVMGetUser, (ref), "")                                               \
    X(int, LLVMGetValueKind, (ref), "")                                          \
    X(unsigned, LLVMGetIntrinsicID, (ref), "")                                   \
    X(ref, LLVMGlobalGetValueType, (ref), "")                                    \
    X(void, free, (void *), "?")                                                 \
    X(ref, _ZN4llvm15ValueAsMetadata11getIfExistsEPNS_5ValueE, (ref), "?")       \
    X(unsigned, _ZN4llvm13StringMapImpl15LookupBucketForENS_9StringRefEj, (ref, struct Text, uint32), "?") \
    X(unsigned, _ZN4llvm13StringMapImpl11RehashTableEj, (ref, unsigned), "?")    \
    X(void, _ZNK4llvm8Constant23removeDeadConstantUsersEv, (ref), "?")           \
    X(ref, _ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE, (ref, unsigned, ref), "?") \
    X(void, _ZN4llvm8Function14renumberBlocksEv, (ref), "?")

#include "llvm.h"

/* LLVMValueKind: values that the C API promises not to change. */
enum Kind {
    OfFunction = 5, OfAlias = 6, OfIfunc = 7, OfVariable = 8, OfExpression = 10, OfArray = 11, OfStruct = 12,
    OfVector = 13, OfInstruction = 24
};
static const unsigned NO_USES = 0x023FC000; /* undef, zeros, data, numbers, null, token, poison: none since LLVM 21 */
static const unsigned STRANGE = 0xFC000200; /* addresses of blocks, and what is newer than poison */
static const unsigned IN_CONSTANTS = 0x023FFDE0; /* globals, other constants, and what has no uses */

enum { MOST_DEPTH = 32, MOST_AHEAD = 1 << 11, CONSTANTS = 1 << 12 };

/* `llvm::Use`; `aiocg_is_as_expected` makes sure. */
struct Use { ref value; struct Use *next, **previous; ref user; };

/* As in `seal.c`; and the byte of what a context's first word points to where its table of names of types is. */
struct Layout { unsigned function_table, module_table, counter, types; };
struct Entry { size length; ref value; char name[]; };
struct Table { struct Entry **entries; uint32 buckets, items, tombstones, entry_size; };

/* Addresses, by open addressing, in memory of the caller. */
struct Set { ref *places; uint64 mask, left; };

struct Settling {
    const struct Llvm *llvm;
    const struct Layout *layout;
    struct Set seen;      /* instructions that were come to, and globals' entries */
    struct Set constants; /* with uses, that were come to */
    uint64 hash;
    int strange; /* something is there that is not settled */
    ref *list;    /* those constants */
    unsigned listed;
};

static void mix(struct Settling *settling, const void *address) {
    uint64 mixed = (settling->hash ^ (uint64)address) * 0x9E3779B97F4A7C15u;
    settling->hash = mixed ^ (mixed >> 29);
}

static void clear(struct Set *set) {
    for (uint64 i = 0; i <= set->mask; i++) set->places[i] = 0;
    set->left = (set->mask + 1) / 2;
}

/* The place where an address is, or where it belongs. */
static ref *place_of(const struct Set *set, ref one) {
    uint64 i = (((uint64)one >> 4) * 0x9E3779B97F4A7C15u >> 24) & set->mask;
    while (set->places[i] && set->places[i] != one) i = (i + 1) & set->mask;
    return &set->places[i];
}

static int has(const struct Set *set, ref one) { return *place_of(set, one) == one; }

/* Says whether it is new. */
static int add(struct Settling *settling, struct Set *set, ref one) {
    ref *place = place_of(set, one);
    if (*place == one) return 0;
    if (set->left-- == 0) {
        set->left = 0, settling->strange = 1;
        return 0;
    }
    *place = one;
    return 1;
}

static int is(unsigned kinds, int kind) { return (unsigned)kind < 32 && (kinds >> kind & 1); }
static int is_constant(int kind) { return kind >= OfExpression && kind <= OfVector; }
static int is_global(int kind) { return kind >= OfFunction && kind <= OfVariable; }
static int is_strange(int kind) { return (unsigned)kind > 31 || is(STRANGE, kind); }

static struct Use *operands_of(const struct Llvm *llvm, ref user, unsigned *count) {
    *count = (unsigned)llvm->LLVMGetNumOperands(user);
    return *count ? llvm->LLVMGetOperandUse(user, 0) : 0;
}

/* ---- use-lists ---- */

static void unlink(struct Use *use) {
    *use->previous = use->next;
    if (use->next) use->next->previous = use->previous;
}

static void link(struct Use *use, struct Use **where) {
    use->next = *where, use->previous = where;
    if (use->next) use->next->previous = &use->next;
    *where = use;
}

static void move_to_front(const struct Llvm *llvm, struct Use *use) {
    struct Use *first = llvm->LLVMGetFirstUse(use->value);
    if (first == use) return;
    struct Use **list = first->previous;
    unlink(use), link(use, list);
}

static void move_to_end(struct Use *use) {
    struct Use *last = use;
    while (last->next) last = last->next;
    if (last == use) return;
    unlink(use), link(use, &last->next);
}

/* ---- constants that have uses, and the globals that they refer to ---- */

static void note(struct Settling *settling, ref constant) {
    if (settling->listed == CONSTANTS) settling->strange = 1;
    else settling->list[settling->listed++] = constant;
}

/* Goes through what is built from the initialisers, which is there before all functions. */
static void take_root(struct Settling *settling, ref value, int depth) {
    const struct Llvm *llvm = settling->llvm;
    int kind = llvm->LLVMGetValueKind(value);
    unsigned count;
    mix(settling, value);
    if (!is(IN_CONSTANTS, kind) || depth > MOST_DEPTH) settling->strange = 1;
    if (!is_constant(kind) || settling->strange || !add(settling, &settling->constants, value)) return;
    note(settling, value);
    struct Use *operands = operands_of(llvm, value, &count);
    for (unsigned i = 0; i < count; i++) take_root(settling, operands[i].value, depth + 1);
}

static void mix_uses_by_roots(struct Settling *settling, ref value) {
    const struct Llvm *llvm = settling->llvm;
    for (struct Use *use = llvm->LLVMGetFirstUse(value); use; use = use->next) {
        int kind = llvm->LLVMGetValueKind(use->user);
        if (is_global(kind) || (is_constant(kind) && has(&settling->constants, use->user)))
            mix(settling, value), mix(settling, use);
    }
}

#define FOR_GLOBALS(DO)                                                                                       \
    for (ref one = llvm->LLVMGetFirstGlobal(module); one; one = llvm->LLVMGetNextGlobal(one)) DO(one);        \
    FOR_FUNCTIONS(one, module) DO(one);                                                                       \
    for (ref one = llvm->LLVMGetFirstGlobalAlias(module); one; one = llvm->LLVMGetNextGlobalAlias(one)) DO(one); \
    for (ref one = llvm->LLVMGetFirstGlobalIFunc(module); one; one = llvm->LLVMGetNextGlobalIFunc(one)) DO(one);

static void take_roots_of(struct Settling *settling, ref global) {
    const struct Llvm *llvm = settling->llvm;
    unsigned count;
    struct Use *operands = operands_of(llvm, global, &count);
    int kind = llvm->LLVMGetValueKind(global);
    ref comdat = kind == OfFunction || kind == OfVariable ? llvm->LLVMGetComdat(global) : 0;
    if (comdat) mix(settling, global), mix(settling, comdat); /* one that is not used any more would be gone */
    for (unsigned i = 0; i < count; i++) {
        if (is(NO_USES, llvm->LLVMGetValueKind(operands[i].value))) continue;
        mix(settling, global);
        take_root(settling, operands[i].value, 0);
    }
}

/* Hashes the names that types were given in a context, and the counter behind the table. */
static uint64 types_of(const struct Layout *layout, ref context) {
    const struct Table *table = (const struct Table *)(*(const char **)context + layout->types);
    struct Settling settling = {.hash = table->items + ((uint64)table->tombstones << 32)};
    mix(&settling, (ref)(uint64) * (const uint32 *)(table + 1));
    for (uint32 i = 0; i < table->buckets; i++) {
        const struct Entry *entry = table->entries[i];
        if (!entry || (int64)entry < 0) continue;
        mix(&settling, entry), mix(&settling, entry->value);
        for (size k = 0; k < entry->length; k++) mix(&settling, (ref)(uint64)(unsigned char)entry->name[k]);
    }
    return settling.hash;
}

/* Hashes what the reader builds before functions, and where that is in use-lists. */
static uint64 roots_of(struct Settling *settling, ref module) {
    const struct Llvm *llvm = settling->llvm;
    mix(settling, (ref)types_of(settling->layout, llvm->LLVMGetModuleContext(module)));
#define TAKE(one) take_roots_of(settling, one)
    FOR_GLOBALS(TAKE)
#define MIX(one) mix_uses_by_roots(settling, one)
    FOR_GLOBALS(MIX)
    for (unsigned i = 0; i < settling->listed; i++) mix_uses_by_roots(settling, settling->list[i]);
    if (llvm->LLVMGetNamedMetadata(module, "llvm.dbg.cu", 11)) settling->strange = 1;
    return settling->strange ? 0 : settling->hash | 1;
}

/* Goes through a constant at its first use in a function. One that metadata refers to may have been there before. */
static void take_constant(struct Settling *settling, ref constant, int depth) {
    const struct Llvm *llvm = settling->llvm;
    unsigned count;
    if (!add(settling, &settling->constants, constant)) return;
    note(settling, constant);
    if (depth > MOST_DEPTH || llvm->_ZN4llvm15ValueAsMetadata11getIfExistsEPNS_5ValueE(constant)) settling->strange = 1;
    struct Use *operands = operands_of(llvm, constant, &count);
    for (unsigned i = 0; i < count && !settling->strange; i++) {
        int kind = llvm->LLVMGetValueKind(operands[i].value);
        if (!is(IN_CONSTANTS, kind)) settling->strange = 1;
        else if (is_constant(kind)) take_constant(settling, operands[i].value, depth + 1);
    }
    for (unsigned i = 0; i < count && !settling->strange; i++)
        if (!is(NO_USES, llvm->LLVMGetValueKind(operands[i].value))) move_to_front(llvm, &operands[i]);
}

/* Says whether metadata refers to one of the constants that use a value, and that nothing else uses. */
static int is_known_to_metadata(const struct Llvm *llvm, ref value, int depth) {
    if (depth > MOST_DEPTH) return 1;
    for (struct Use *use = llvm->LLVMGetFirstUse(value); use; use = use->next) {
        if (!is_constant(llvm->LLVMGetValueKind(use->user))) continue;
        if (is_known_to_metadata(llvm, use->user, depth + 1)) return 1;
        if (!llvm->LLVMGetFirstUse(use->user) && llvm->_ZN4llvm15ValueAsMetadata11getIfExistsEPNS_5ValueE(use->user))
            return 1;
    }
    return 0;
}

/* A constant that nothing uses hangs in the use-lists of others until somebody looks. */
static void remove_leftovers(struct Settling *settling, ref global) {
    const struct Llvm *llvm = settling->llvm;
    int constants = 0;
    for (struct Use *use = llvm->LLVMGetFirstUse(global); use && !constants; use = use->next)
        constants = is_constant(llvm->LLVMGetValueKind(use->user));
    if (!constants) return;
    if (is_known_to_metadata(llvm, global, 0)) settling->strange = 1;
    else llvm->_ZNK4llvm8Constant23removeDeadConstantUsersEv(global);
}

/* All users must be what was come to: constants could be of kinds that the C API does not tell. */
static void look_for_leftovers(struct Settling *settling, ref value) {
    const struct Llvm *llvm = settling->llvm;
    for (struct Use *use = llvm->LLVMGetFirstUse(value); use; use = use->next) {
        int kind = llvm->LLVMGetValueKind(use->user);
        const struct Set *known = kind == OfInstruction ? &settling->seen : &settling->constants;
        if (!is_global(kind) && !has(known, use->user)) settling->strange = 1;
    }
}

/* ---- functions ---- */

/* Goes through the constants in the order in which the reader comes to the operands of an instruction. */
static void take_constants(struct Settling *settling, ref instruction, unsigned opcode, struct Use *operands,
                           unsigned count) {
    const struct Llvm *llvm = settling->llvm;
    int calls = opcode == Call || opcode == Invoke || opcode == CallBr;
    if (calls && llvm->LLVMGetNumOperandBundles(instruction)) settling->strange = 1;
    for (unsigned k = 0; k < count && !settling->strange; k++) {
        unsigned i = opcode == Select ? (k + 1) % count : calls || opcode == Store ? (k + count - 1) % count : k;
        if (is_constant(llvm->LLVMGetValueKind(operands[i].value))) take_constant(settling, operands[i].value, 0);
    }
}

static void settle_uses(struct Settling *settling, ref function) {
    const struct Llvm *llvm = settling->llvm;
    struct Use *ahead[MOST_AHEAD];
    unsigned many = 0, count;
    FOR_BLOCKS(block, function) FOR_INSTRUCTIONS(instruction, block) {
        struct Use *operands = operands_of(llvm, instruction, &count);
        int one_by_one = 0, constants = 0;
        for (unsigned i = 0; i < count; i++) {
            int kind = llvm->LLVMGetValueKind(operands[i].value);
            if (is_strange(kind)) settling->strange = 1;
            constants |= is_constant(kind);
        }
        if (constants) {
            unsigned opcode = opcode_of(llvm, instruction);
            one_by_one = opcode == PHI || opcode == LandingPad;
            if (!one_by_one) take_constants(settling, instruction, opcode, operands, count);
        }
        for (unsigned i = 0; i < count && !settling->strange; i++) {
            int kind = llvm->LLVMGetValueKind(operands[i].value);
            if (is(NO_USES, kind)) continue;
            if (one_by_one && is_constant(kind)) take_constant(settling, operands[i].value, 0);
            if (kind != OfInstruction || has(&settling->seen, operands[i].value)) move_to_front(llvm, &operands[i]);
            else if (many < MOST_AHEAD) ahead[many++] = &operands[i];
            else settling->strange = 1;
        }
        if (settling->strange) return;
        add(settling, &settling->seen, instruction);
    }
    for (unsigned i = 0; i < many; i++) {
        if (!has(&settling->seen, ahead[i]->value)) settling->strange = 1;
        move_to_end(ahead[i]);
    }
}

/* The reader gives intrinsics the attributes that LLVM defines for them, whatever they had. */
static int has_usual_attributes(const struct Settling *settling, ref module, ref function) {
    const struct Llvm *llvm = settling->llvm;
    unsigned id = llvm->LLVMGetIntrinsicID(function);
    if (!id) return 1;
    ref usual = llvm->_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE(
        llvm->LLVMGetModuleContext(module), id, llvm->LLVMGlobalGetValueType(function));
    return ((ref *)function)[settling->layout->function_table + 1] == usual;
}

/* ---- names ---- */

static const uint32 *hashes_of(struct Entry **entries, uint32 buckets) {
    return (const uint32 *)(entries + buckets + 1);
}

static void empty(struct Table *table, unsigned counter) {
    *(uint32 *)((char *)table + counter) = 0;
    table->entries = 0, table->buckets = table->items = table->tombstones = 0;
}

static void insert(const struct Llvm *llvm, struct Table *table, struct Entry *entry, uint32 hash) {
    struct Text text = {entry->name, entry->length};
    unsigned bucket = llvm->_ZN4llvm13StringMapImpl15LookupBucketForENS_9StringRefEj(table, text, hash);
    table->entries[bucket] = entry, table->items++;
    llvm->_ZN4llvm13StringMapImpl11RehashTableEj(table, bucket);
}

static int has_phi(const struct Llvm *llvm, ref function) {
    FOR_BLOCKS(block, function) {
        ref first = llvm->LLVMGetFirstInstruction(block);
        if (first && opcode_of(llvm, first) == PHI && llvm->LLVMGetNumOperands(first)) return 1;
    }
    return 0;
}

static void settle_names(struct Settling *settling, ref module, ref function) {
    static const char trial[] = "phi.constexpr";
    const struct Llvm *llvm = settling->llvm;
    struct Table *table = ((struct Table **)function)[settling->layout->function_table], old = *table;
    const uint32 *hashes = hashes_of(old.entries, old.buckets);
    llvm->_ZN4llvm8Function14renumberBlocksEv(function);
    empty(table, settling->layout->counter);
    ref block = 0;
    if (has_phi(llvm, function))
        block = llvm->LLVMAppendBasicBlockInContext(llvm->LLVMGetModuleContext(module), function, trial);
    for (uint32 i = 0; i < old.buckets; i++) {
        struct Entry *entry = old.entries[i];
        if (!entry || (int64)entry < 0) continue;
        if (entry->length >= sizeof trial - 1 && entry->name[0] == 'p' && entry->name[3] == '.') settling->strange = 1;
        insert(llvm, table, entry, hashes[i]);
    }
    if (block) llvm->LLVMDeleteBasicBlock(block);
    llvm->free(old.entries);
}

/* Globals get their names as they are made: variables, functions, aliases, and what resolves at run time. */
static void settle_global_names(struct Settling *settling, ref module) {
    const struct Llvm *llvm = settling->llvm;
    struct Table *table = ((struct Table **)module)[settling->layout->module_table], old = *table;
    const uint32 *hashes = hashes_of(old.entries, old.buckets);
    struct Set by_value = {settling->seen.places, 2 * (uint64)old.buckets - 1, 0};
    uint32 *which = (uint32 *)(settling->seen.places + 2 * (uint64)old.buckets);
    if (!old.buckets) return;
    if (3 * (uint64)old.buckets > settling->seen.mask + 1) {
        settling->strange = 1;
        return;
    }
    clear(&by_value);
    for (uint32 i = 0; i < old.buckets; i++) {
        struct Entry *entry = old.entries[i];
        if (!entry || (int64)entry < 0) continue;
        ref *place = place_of(&by_value, entry->value);
        *place = entry->value, which[place - by_value.places] = i;
    }
    empty(table, settling->layout->counter);
#define INSERT(one)                                             \
    {                                                           \
        ref *place = place_of(&by_value, one);                  \
        uint32 i = which[place - by_value.places];              \
        if (*place) insert(llvm, table, old.entries[i], hashes[i]); \
    }
    FOR_GLOBALS(INSERT)
    llvm->free(old.entries);
}

/* ---- for Python ---- */

EXPORT uint64 aiocg_types(const struct Llvm *llvm, ref module, const struct Layout *layout) {
    return types_of(layout, llvm->LLVMGetModuleContext(module));
}

/* Says whether uses and attributes are where they are expected, in a module with an intrinsic. */
EXPORT int aiocg_is_as_expected(const struct Llvm *llvm, ref module, const struct Layout *layout) {
    struct Settling settling = {.llvm = llvm, .layout = layout};
    unsigned count, listed = 0, unlisted = 0, intrinsics = 0;
    FOR_FUNCTIONS(function, module) {
        if (!has_usual_attributes(&settling, module, function)) return 0;
        intrinsics += llvm->LLVMGetIntrinsicID(function) != 0;
        FOR_BLOCKS(block, function) FOR_INSTRUCTIONS(instruction, block) {
            struct Use *operands = operands_of(llvm, instruction, &count);
            for (unsigned i = 0; i < count; i++) {
                struct Use *use = &operands[i];
                if (use != llvm->LLVMGetOperandUse(instruction, i) || use->user != instruction ||
                    use->user != llvm->LLVMGetUser(use) || use->value != llvm->LLVMGetOperand(instruction, i))
                    return 0;
                if (is(NO_USES, llvm->LLVMGetValueKind(use->value))) {
                    if (llvm->LLVMGetFirstUse(use->value)) return 0;
                    unlisted++;
                } else {
                    if (use->next != llvm->LLVMGetNextUse(use) || *use->previous != use) return 0;
                    listed++;
                }
            }
        }
    }
    return intrinsics && listed > 8 && unlisted > 2;
}

static struct Settling begin(const struct Llvm *llvm, const struct Layout *layout, ref *memory) {
    struct Settling settling = {llvm, layout, .constants = {memory, CONSTANTS - 1, 0}, .list = memory + CONSTANTS};
    clear(&settling.constants);
    return settling;
}

/* Returns what `aiocg_settle` is to be told about a module that was just read, 0 if that is not to be settled. `memory`
   is as there. */
EXPORT uint64 aiocg_roots(const struct Llvm *llvm, ref module, const struct Layout *layout, ref *memory) {
    struct Settling settling = begin(llvm, layout, memory);
    return roots_of(&settling, module);
}

/* Says whether the module is settled now. If not, it must not be used any more.

   `words` is a power of two, at least twice as large as the number of instructions; `memory` has that and 2 * CONSTANTS
   more. */
EXPORT int aiocg_settle(const struct Llvm *llvm, ref module, const struct Layout *layout, uint64 roots, ref *memory,
                        uint64 words) {
    struct Settling state = begin(llvm, layout, memory), *settling = &state;
    state.seen = (struct Set){memory + 2 * CONSTANTS, words - 1, 0};
    clear(&state.seen);
#define REMOVE(one) remove_leftovers(settling, one)
    FOR_GLOBALS(REMOVE)
    if (state.strange || roots_of(settling, module) != roots) return 0;
    FOR_FUNCTIONS(function, module) {
        struct Table *table = ((struct Table **)function)[layout->function_table];
        if (!table || !has_usual_attributes(settling, module, function)) return 0;
        if (llvm->LLVMGetFirstBasicBlock(function)) {
            settle_uses(settling, function);
            if (state.strange) return 0;
            settle_names(settling, module, function);
        } else if (table->items) return 0; /* the names of parameters of a function that had a body */
    }
#define LOOK(one) look_for_leftovers(settling, one)
    FOR_GLOBALS(LOOK)
    for (unsigned i = 0; i < state.listed; i++) look_for_leftovers(settling, state.list[i]);
    settle_global_names(settling, module);
    return !state.strange;
}
