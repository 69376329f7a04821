/* Brings a module into canonical order and computes the fingerprint of its program, in one walk.

   Passes depend on more than a program's text: on the order of use-lists, the numbers of blocks, and the counter that
   makes new names unique. After this walk all of these depend on the text alone, so passes give the same result on a
   module changed in place, on a clone of it and on a parse of its bitcode. Names of local values are not part of a
   program here, since contexts discard them.

   The walk goes backwards and puts the first use that it meets first in the use-list. This is nearly the order after
   reading bitcode, which inserts each use at the front. A module in canonical order is not written to.

   The fingerprint is a 128-bit hash of everything that a pass can change. Values are numbered in the order in which the
   walk first meets them, as definition or operand. Named types, attribute lists, constants without operands, and
   metadata made of these live as long as their context and do not change, so their hashes are stored with the context,
   by address. Hashes that depend on value numbers, such as those of metadata that contains a distinct node, are stored
   for one walk only.

   The walk reads the first words of LLVM's objects directly. `struct Layout` holds what differs between releases, found
   by experiment (`layout.py`). The walk does not support everything, for example debug information. It then sets
   `unknown`, and the caller writes and parses the module instead. */
#include "canonical.h"
#include "canonical_tables.h"
#include "counts.h"
#include "canonical_values.h"

/* ---- instructions ---- */

/* Returns a hash of a call's attributes and type; mixes its bundles. */
static uint64 mix_call(struct Walk *walk, ref call) {
    const struct Llvm *llvm = walk->llvm;
    const unsigned word = walk->layout->call_attributes;
    uint64 attributes = attributes_hash(walk, call, word, llvm->LLVMGetNumArgOperands,
                                        llvm->LLVMGetCallSiteAttributeCount, llvm->LLVMGetCallSiteAttributes);
    uint64 hash = K1 * attributes + K2 * type_hash(walk, ((ref *)call)[word + 1]);
    if (!(((struct Value *)call)->more & HAS_BUNDLES)) return hash;
    if (!llvm->LLVMGetOperandBundleAtIndex) {
        walk->unknown = 1;
        return hash;
    }
    unsigned count = llvm->LLVMGetNumOperandBundles(call);
    mix(walk, count);
    for (unsigned i = 0; i < count; i++) {
        ref bundle = llvm->LLVMGetOperandBundleAtIndex(call, i);
        size length;
        const char *tag = llvm->LLVMGetOperandBundleTag(bundle, &length);
        mix_bytes(walk, tag, length), mix(walk, llvm->LLVMGetNumOperandBundleArgs(bundle));
        llvm->LLVMDisposeOperandBundle(bundle);
    }
    return hash;
}

/* Since LLVM 22 the case values of a switch are not operands. */
static void mix_cases(struct Walk *walk, ref instruction, unsigned operands) {
    const struct Llvm *llvm = walk->llvm;
    unsigned successors = llvm->LLVMGetNumSuccessors(instruction);
    if (successors < 2 || operands == 2 * successors) return;
    if (!llvm->LLVMGetSwitchCaseValue) walk->unknown = 1;
    for (unsigned i = 1; i < successors && llvm->LLVMGetSwitchCaseValue; i++)
        mix(walk, plain_hash(walk, llvm->LLVMGetSwitchCaseValue(instruction, i), Int));
}

/* Mixes what is neither in the operands of an instruction nor in its first words, or returns a hash of it. */
static inline uint64 mix_own(struct Walk *walk, ref instruction, unsigned opcode, unsigned operands) {
    const struct Llvm *llvm = walk->llvm;
    unsigned count;
    int is_new;
    switch (opcode) {
    case Alloca: return K2 * type_hash(walk, llvm->LLVMGetAllocatedType(instruction));
    case GetElementPtr: return K2 * type_hash(walk, llvm->LLVMGetGEPSourceElementType(instruction));
    case Call: case Invoke: case CallBr: return mix_call(walk, instruction);
    case Switch: mix_cases(walk, instruction, operands); return 0;
    case Load: case Store: case Fence: case AtomicCmpXchg: case AtomicRMW:
        return K2 * name_hash(walk, SCOPES, ((const byte *)instruction)[walk->layout->scope], OWN_SCOPES);
    case PHI:
        for (unsigned i = 0; i < operands; i++)
            mix(walk, number(walk, &walk->own->locals, llvm->LLVMGetIncomingBlock(instruction, i), &is_new));
        return 0;
    case ShuffleVector:
        count = llvm->LLVMGetNumMaskElements(instruction);
        mix(walk, count);
        for (unsigned i = 0; i < count; i++) mix(walk, (uint64)llvm->LLVMGetMaskValue(instruction, i));
        return 0;
    case ExtractValue: case InsertValue:
        count = llvm->LLVMGetNumIndices(instruction);
        mix(walk, count);
        for (unsigned i = 0; i < count; i++) mix(walk, llvm->LLVMGetIndices(instruction)[i]);
        return 0;
    default: return 0;
    }
}

/* Before LLVM 23 these flags are in the first words of an instruction. */
static uint64 fast_math_flags(const struct Walk *walk, ref instruction, unsigned opcode) {
    const struct Llvm *llvm = walk->llvm;
    switch (opcode) {
    case FNeg: case FAdd: case FSub: case FMul: case FDiv: case FRem: case FCmp: case PHI: case Select: case Call:
    case FPTrunc: case FPExt: case UIToFP: case SIToFP:
        return llvm->LLVMCanValueUseFastMathFlags(instruction) ? llvm->LLVMGetFastMathFlags(instruction) : 0;
    default: return 0;
    }
}

static inline int returns_integer(struct Walk *walk, ref call, ref callee) {
    ref type = ((ref *)call)[walk->layout->call_attributes + 1];
    return kind_of(walk, callee) == AFunction && ((ref *)callee)[3] == type &&
           gives_integer(walk, type);
}

static inline void mix_instruction(struct Walk *walk, ref instruction, struct Sums *sums, struct Facts *facts) {
    const struct Llvm *llvm = walk->llvm;
    const struct Value *value = instruction;
    byte *known = &walk->own->opcodes[value->class_];
    unsigned count;
    int constant = 0;
    struct Use *operands = operands_of(instruction, &count);
    if (!*known) *known = (byte)opcode_of(llvm, instruction);
    unsigned opcode = *known;
    uint64 own = mix_own(walk, instruction, opcode, count);
    if (walk->layout->since_23) own += K1 * fast_math_flags(walk, instruction, opcode);
    mix(walk, (header(instruction) ^ type_hash(walk, value->type)) + own);
    for (unsigned i = 0; i < count; i++) {
        int kind = kind_of(walk, operands[i].value);
        if (kind == Instruction) {
            mix_result(walk, &operands[i]);
            continue;
        }
        if (kind == Int && !walk->layout->plain_uses) mix(walk, plain_hash(walk, operands[i].value, Int));
        else mix_operand(walk, &operands[i], kind, 0);
        constant |= (kind >= AFunction && kind <= NoToken) || kind == Poison;
        if (kind == Int) walk->own->integers[integer_of(walk, operands[i].value) % INTEGERS]++;
    }
    mix_attachments(walk, instruction);
    walk->own->counts[constant][opcode < OPCODES ? opcode : 0]++;
    add_up(sums, opcode, count);
    if (opcode == Br && count == 1) facts->autophase[UNCOND_BRANCHES]++;
    if (opcode == Call) facts->autophase[RETURN_INT] += returns_integer(walk, instruction, operands[count - 1].value);
    if (opcode == Switch) walk->unknown |= count_switch_cases(llvm, instruction, count, facts->autophase) != DONE;
}

static int is_terminator(struct Walk *walk, ref user) {
    byte *known = &walk->own->terminators[((struct Value *)user)->class_];
    if (!*known) *known = walk->llvm->LLVMIsATerminatorInst(user) ? 2 : 1;
    return *known == 2;
}

static unsigned predecessors(struct Walk *walk, const struct Value *block, unsigned limit) {
    unsigned count = 0;
    for (const struct Use *use = block->uses; use && count < limit; use = use->next)
        count += is_terminator(walk, use->user);
    return count;
}

/* `last` is the last instruction of the block. All block operands of a terminator are successors. */
static struct Edges edges_of(struct Walk *walk, const struct Value *block, ref last) {
    struct Edges edges = {predecessors(walk, block, 3), 0, 0};
    unsigned count;
    if (!last || !is_terminator(walk, last)) return edges;
    struct Use *operands = operands_of(last, &count);
    for (unsigned i = 0; i < count; i++) {
        if (kind_of(walk, operands[i].value) != Block) continue;
        edges.successors++, edges.crowded += predecessors(walk, operands[i].value, 2) > 1;
    }
    return edges;
}

static void add_counts(const struct Surveyor *own, struct Facts *facts) {
    for (unsigned opcode = 0; opcode < OPCODES; opcode++) {
        int64 with = own->counts[1][opcode], all = with + own->counts[0][opcode];
        if (!all) continue;
        inst_count_instructions(opcode, all, facts->inst_count);
        count_instructions(opcode, all, facts->autophase);
        if (traits_of(opcode) & BINARY) facts->autophase[BINARY_CONST_ARG] += with;
    }
    for (unsigned traits = 0; traits < INTEGERS; traits++)
        count_integers(traits, own->integers[traits], facts->autophase);
}

/* ---- globals ---- */

/* Bits of a function's header to ignore: whether parameters were created yet, and operands, which stay when unused. */
static const uint64 NOT_OF_FUNCTION = 1 << 16 | (uint64)(MANY | OPERANDS_BEHIND) << 32;
enum { HAS_OPERANDS = 14, IS_SANITISED = 1 << 16 };

static void mix_global(struct Walk *walk, ref global, int kind) {
    const struct Llvm *llvm = walk->llvm;
    uint64 word = ((const uint64 *)global)[4]; /* linkage, visibility, thread model, dso_local, ... */
    unsigned count;
    int is_new;
    mix(walk, number(walk, &walk->own->globals, global, &is_new));
    if (((struct Value *)global)->more & walk->layout->named) {
        const struct Named *named = dense(walk, walk->names, sizeof *named, global);
        mix_bytes(walk, named->name->text, named->name->length);
    } else mix(walk, 0);
    mix(walk, header(global) & ~(kind == AFunction ? NOT_OF_FUNCTION : 0));
    mix(walk, (uint64)kind);
    mix(walk, type_hash(walk, ((struct Value *)global)->type));
    mix(walk, type_hash(walk, llvm->LLVMGlobalGetValueType(global)));
    if (kind == Alias) word &= 2 * IS_SANITISED - 1; /* higher bits are not initialised */
    mix(walk, word);
    struct Use *operands = operands_of(global, &count);
    if (kind == AFunction && !(((struct Value *)global)->data & HAS_OPERANDS)) count = 0;
    for (unsigned i = count; i-- > 0;) mix_operand(walk, &operands[i], kind_of(walk, operands[i].value), 0);
    struct Text partition = llvm->_ZNK4llvm11GlobalValue12getPartitionEv(global);
    mix_bytes(walk, partition.text, partition.length);
    if (word & IS_SANITISED) mix(walk, *llvm->_ZNK4llvm11GlobalValue20getSanitizerMetadataEv(global) & 0xF);
    if (kind == Alias) return;
    mix_attachments(walk, global);
    if (kind == Ifunc) return;
    const char *section = llvm->LLVMGetSection(global);
    mix_text(walk, section);
    mix(walk, llvm->LLVMGetAlignment(global));
    ref comdat = llvm->LLVMGetComdat(global);
    if (comdat) {
        struct Text text = llvm->_ZNK4llvm6Comdat7getNameEv(comdat);
        mix_bytes(walk, text.text, text.length), mix(walk, (uint64)llvm->LLVMGetComdatSelectionKind(comdat));
    }
}

static void mix_variable(struct Walk *walk, ref variable) {
    mix_global(walk, variable, Variable);
    if (((ref *)variable)[walk->layout->variable_attributes]) walk->unknown = 1;
    mix(walk, (uint64)(2 * walk->llvm->LLVMIsGlobalConstant(variable) +
                       walk->llvm->LLVMIsExternallyInitialized(variable)));
}

/* Gives an intrinsic the attributes that LLVM defines for it, as reading bitcode does. */
static void reset_attributes(struct Walk *walk, ref function, unsigned intrinsic) {
    const struct Llvm *llvm = walk->llvm;
    ref *attributes = (ref *)function + walk->layout->function_attributes;
    ref type = llvm->LLVMGlobalGetValueType(function);
    ref key = (ref)((uint64)type | (uint64)intrinsic << 48); /* unique, because it is not an address */
    uint64 known = found(&walk->memo->hashes, key);
    if (known) {
        *attributes = (ref)(known & ~(uint64)1);
        return;
    }
    if (llvm->_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE)
        *attributes = llvm->_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEjPNS_12FunctionTypeE(
            walk->context, intrinsic, type);
    else *attributes = llvm->_ZN4llvm9Intrinsic13getAttributesERNS_11LLVMContextEj(walk->context, intrinsic);
    if (intrinsic < 1 << 16 && !((uint64)type >> 48)) put(walk, &walk->memo->hashes, key, (uint64)*attributes | 1);
}

static int more_room(struct Walk *walk) {
    struct Memo *memo = walk->memo;
    uint64 room = memo->room ? 2 * memo->room : 1024;
    ref *body = walk->llvm->realloc(memo->body, (room + FAR) * sizeof(ref));
    if (body) memo->body = body, memo->room = room;
    else walk->failed = 1;
    return body != 0;
}

/* Has in the cache, when they are needed, an instruction's operands and the place of what is attached to it. */
static inline void fetch_operands(const struct Walk *walk, ref instruction) {
    unsigned count;
    const struct Use *operands = operands_of(instruction, &count);
    if (walk->layout->first_attachment) {
        uint32 first = first_attachment(walk, instruction);
        if (first) __builtin_prefetch(*(const struct Linked *const *)walk->attachments + first);
    } else if (((struct Value *)instruction)->more & HAS_METADATA) {
        const struct Dense *table = walk->attachments;
        const byte *bucket = table->buckets + sizeof(struct Attached) * (place_in_dense(instruction) & (table->size - 1));
        __builtin_prefetch(bucket), __builtin_prefetch(bucket + 64);
    }
    for (unsigned i = 0; i < count; i++) __builtin_prefetch(operands[i].value);
}

/* Numbers the instructions of a function and lists them in the memo, each block after a 0. Of a list in memory the
   processor only sees the next element, but most passes change little: it is told to fetch what was there last time. */
static int number_instructions(struct Walk *walk, ref function) {
    const struct Llvm *llvm = walk->llvm;
    const struct Layout *layout = walk->layout;
    uint32 number = 0;
    FOR_BLOCKS(block, function) {
        char **end = (char **)block + layout->block_list;
        if (walk->listed == walk->memo->room && !more_room(walk)) return 0;
        walk->memo->body[walk->listed++] = 0;
        for (char **node = (char **)end[1]; node != end; node = (char **)node[1]) {
            if (walk->listed == walk->memo->room && !more_room(walk)) return 0;
            ref instruction = node - layout->node, *listed = walk->memo->body + walk->listed++;
            const char *soon = listed[FAR];
            uint32 *order = order_of(walk, instruction);
            __builtin_prefetch(soon), __builtin_prefetch(soon - 64), __builtin_prefetch(soon + 64);
            if (*order != ++number) *order = number;
            fetch_operands(walk, instruction);
            *listed = instruction;
        }
    }
    return 1;
}

static void mix_function(struct Walk *walk, ref function, struct Facts *facts) {
    const struct Llvm *llvm = walk->llvm;
    unsigned intrinsic = llvm->LLVMGetIntrinsicID(function);
    int is_new;
    facts->autophase[TOTAL_FUNCS]++, facts->inst_count[INST_COUNT_TOTAL_FUNCS]++;
    mix_global(walk, function, AFunction);
    const char *collector = llvm->LLVMGetGC(function);
    mix_text(walk, collector);
    if (intrinsic) {
        reset_attributes(walk, function, intrinsic);
        return;
    }
    uint64 attributes = attributes_hash(walk, function, walk->layout->function_attributes,
                                        llvm->LLVMCountParams, llvm->LLVMGetAttributeCountAtIndex,
                                        llvm->LLVMGetAttributesAtIndex);
    mix(walk, attributes);
    if (!llvm->LLVMGetFirstBasicBlock(function)) return;
    empty(&walk->own->locals);
    for (ref one = llvm->LLVMGetFirstParam(function); one; one = llvm->LLVMGetNextParam(one))
        number(walk, &walk->own->locals, one, &is_new);
    if (!number_instructions(walk, function)) return;
    uint64 place = walk->listed;
    FOR_ALL_BACKWARDS(BasicBlock, block, function) {
        struct Sums sums = {0, 0, 0};
        const struct Value *value = llvm->LLVMBasicBlockAsValue(block);
        ref last = walk->memo->body[place - 1];
        walk->addressed |= value->data || value->flags & ~1;
        mix(walk, number(walk, &walk->own->locals, (ref)value, &is_new) << 8 | Block);
        for (ref one; (one = walk->memo->body[--place]);) {
            mix_instruction(walk, one, &sums, facts);
            if (walk->unknown) return;
        }
        facts->inst_count[INST_COUNT_TOTAL_BLOCKS]++;
        count_block(sums, edges_of(walk, value, last), facts->autophase);
    }
    if (llvm->_ZN4llvm8Function14renumberBlocksEv) llvm->_ZN4llvm8Function14renumberBlocksEv(function);
}

static int same(const char *text, size length, const char *expected) {
    for (size i = 0; i < length; i++)
        if (!expected[i] || text[i] != expected[i]) return 0;
    return !expected[length];
}

/* Operands of named metadata are always hashed anew, because module flags are changed in place. */
static void mix_named_metadata(struct Walk *walk, ref module) {
    const struct Llvm *llvm = walk->llvm;
    for (ref one = llvm->LLVMGetFirstNamedMetadata(module); one; one = llvm->LLVMGetNextNamedMetadata(one)) {
        size length;
        const char *name = llvm->LLVMGetNamedMetadataName(one, &length);
        unsigned count = llvm->_ZNK4llvm11NamedMDNode14getNumOperandsEv(one);
        if (same(name, length, "llvm.dbg.cu")) walk->unknown = 1;
        mix_bytes(walk, name, length), mix(walk, count);
        for (unsigned i = 0; i < count && !walk->unknown; i++) {
            ref node = llvm->_ZNK4llvm11NamedMDNode10getOperandEj(one, i);
            forget(walk, node);
            mix(walk, node_hash(walk, node, 0));
        }
    }
}

/* Removes dead users of a constant. Uses that the walk did not meet come after those that it has put in order. */
static void remove_leftovers_of(const struct Walk *walk, ref constant) {
    const struct Table *globals = &walk->own->globals;
    const struct Entry *entry = globals->count ? place_of(globals, constant) : 0;
    const struct Use *met = entry && entry->key ? entry->last : 0;
    if (met ? met->next : ((struct Value *)constant)->uses)
        walk->llvm->_ZNK4llvm8Constant23removeDeadConstantUsersEv(constant);
}

/* An unused constant stays in the use-lists of its operands until it is removed here. A constant that only metadata
   refers to counts as unused too, but it must stay; a module with such a constant is `unknown`. */
static void remove_leftovers(const struct Walk *walk, ref module) {
    const struct Llvm *llvm = walk->llvm;
    const struct Table *constants = &walk->own->constants;
    FOR_ALL_BACKWARDS(Global, one, module) remove_leftovers_of(walk, one);
    FOR_ALL_BACKWARDS(GlobalAlias, one, module) remove_leftovers_of(walk, one);
    FOR_ALL_BACKWARDS(GlobalIFunc, one, module) remove_leftovers_of(walk, one);
    FOR_ALL_BACKWARDS(Function, one, module) {
        remove_leftovers_of(walk, one);
        if (!walk->addressed) continue;
        FOR_BLOCKS(block, one) {
            const struct Value *value = llvm->LLVMBasicBlockAsValue(block);
            if (value->data || value->flags & ~1) /* its address is taken, perhaps by a dead constant */
                llvm->_ZNK4llvm8Constant23removeDeadConstantUsersEv((ref)value);
        }
    }
    for (uint64 i = 0; constants->count && i <= constants->mask; i++)
        if (constants->entries[i].key) remove_leftovers_of(walk, constants->entries[i].key);
}

static void walk_module(struct Walk *walk, ref module, struct Facts *facts) {
    const struct Llvm *llvm = walk->llvm;
    size length;
    empty(&walk->own->globals), empty(&walk->own->constants), empty(&walk->own->brief);
    mix_text(walk, llvm->LLVMGetTarget(module));
    mix_text(walk, llvm->LLVMGetDataLayoutStr(module));
    const char *assembly = llvm->LLVMGetModuleInlineAsm(module, &length);
    mix_bytes(walk, assembly, length);
    const char *source = llvm->LLVMGetSourceFileName(module, &length);
    mix_bytes(walk, source, length);
    mix_named_metadata(walk, module);
    if (walk->unknown) return;
    FOR_ALL_BACKWARDS(Function, one, module) mix_function(walk, one, facts);
    FOR_ALL_BACKWARDS(GlobalIFunc, one, module) mix_global(walk, one, Ifunc);
    FOR_ALL_BACKWARDS(GlobalAlias, one, module) mix_global(walk, one, Alias);
    FOR_ALL_BACKWARDS(Global, one, module) mix_variable(walk, one);
    if (walk->unknown || walk->failed) return;
    remove_leftovers(walk, module);
    *(uint32 *)(((char **)module)[walk->layout->module_names] + walk->layout->counter) = 0;
}

/* ---- interface for Python ---- */

EXPORT void *aiocg_new_surveyor(const struct Llvm *llvm, const struct Layout *layout) {
    struct Surveyor *surveyor = llvm->calloc(1, sizeof *surveyor);
    if (surveyor) surveyor->llvm = llvm, surveyor->layout = layout;
    return surveyor;
}

EXPORT void *aiocg_new_memo(const struct Surveyor *surveyor) { return surveyor->llvm->calloc(1, sizeof(struct Memo)); }

EXPORT void aiocg_free_memo(const struct Surveyor *surveyor, struct Memo *memo) {
    surveyor->llvm->free(memo->hashes.entries), surveyor->llvm->free(memo->types.entries);
    surveyor->llvm->free(memo->body), surveyor->llvm->free(memo);
}

/* Returns the number of metadata kinds in a context that are not predefined; passes add some. */
EXPORT unsigned aiocg_strange_kinds(const struct Surveyor *surveyor, ref context) {
    struct Names names;
    names.begin = names.own, names.count = 0, names.capacity = sizeof names.own / sizeof names.own[0];
    surveyor->llvm->_ZNK4llvm11LLVMContext14getMDKindNamesERNS_15SmallVectorImplINS_9StringRefEEE(context, &names);
    if (names.begin != names.own) surveyor->llvm->free(names.begin); /* it has grown onto the heap */
    return names.count - surveyor->layout->first_kind;
}

/* Brings a module into canonical order and fills in its facts. If `unknown` is set, the order is not canonical. */
EXPORT void aiocg_survey(struct Surveyor *surveyor, struct Memo *memo, ref module, struct Facts *facts) {
    const struct Llvm *llvm = surveyor->llvm;
    struct Walk walk = {.llvm = llvm, .layout = surveyor->layout, .own = surveyor, .memo = memo, .hash = {9, 10, 11, 12}};
    walk.context = llvm->LLVMGetModuleContext(module);
    walk.attachments = *(ref **)walk.context + surveyor->layout->attachments;
    walk.names = *(ref **)walk.context + surveyor->layout->names;
    walk.first = walk.next = surveyor->words, walk.end = walk.first + WORDS - SPARE;
    for (size i = 0; i < sizeof *facts / 8; i++) ((uint64 *)facts)[i] = 0;
    for (unsigned i = 0; i < 1 << QUICK_BITS; i += 64 / sizeof(struct Quick)) __builtin_prefetch(&memo->quick[i]);
    for (unsigned i = 0; i < INTEGERS; i++) surveyor->integers[i] = 0;
    forget_renamed(memo, llvm);
    for (unsigned i = 0; i < OPCODES; i++) surveyor->counts[0][i] = surveyor->counts[1][i] = 0;
    walk_module(&walk, module, facts);
    add_counts(surveyor, facts);
    struct Hash hash = absorb_rest(&walk);
    facts->fingerprint[0] = spread(hash.a), facts->fingerprint[1] = spread(hash.b);
    facts->instructions = (uint64)facts->autophase[TOTAL_INSTS];
    facts->types = memo->types.count, facts->renamings = memo->renamings;
    facts->unknown = (uint64)(walk.unknown | walk.failed), facts->shared = (uint64)walk.shared;
}

/* Runs passes on a module or on one of its functions, then surveys the module. Returns LLVM's error or null. */
EXPORT ref aiocg_run(struct Surveyor *surveyor, struct Memo *memo, ref module, ref function, const char *pipeline,
                     ref machine, ref options, struct Facts *facts) {
    const struct Llvm *llvm = surveyor->llvm;
    ref error = function ? llvm->LLVMRunPassesOnFunction(function, pipeline, machine, options)
                         : llvm->LLVMRunPasses(module, pipeline, machine, options);
    if (!error) aiocg_survey(surveyor, memo, module, facts);
    return error;
}
