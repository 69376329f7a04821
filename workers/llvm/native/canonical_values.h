/* Operands: hashes of types, attributes, constants and metadata, and the order of uses. */

/* ---- objects that live as long as their context ---- */

static uint64 text_hash(struct Walk *walk, char *text, uint64 what) {
    struct Pause pause = begin(walk, what);
    mix_text(walk, text);
    walk->llvm->LLVMDisposeMessage(text);
    return end(walk, pause);
}

static uint64 new_type_hash(struct Walk *walk, ref type);

static ALWAYS_INLINE uint64 type_hash(struct Walk *walk, ref type) {
    uint64 hash = remembered(walk, type);
    return hash || walk->unknown ? hash : new_type_hash(walk, type);
}

/* Hashes the structure of a type, because an unnamed type prints its address. Opaque pointers make types finite. */
static uint64 new_type_hash(struct Walk *walk, ref type) {
    const struct Llvm *llvm = walk->llvm;
    int kind = llvm->LLVMGetTypeKind(type), is_new;
    unsigned count = llvm->LLVMGetNumContainedTypes(type);
    if (!count && kind != STRUCT_TYPE)
        return remember(walk, type, text_hash(walk, llvm->LLVMPrintTypeToString(type), 1));
    ref few[16], *contained = count <= 16 ? few : llvm->calloc(count, sizeof(ref));
    if (!contained) {
        walk->failed = 1;
        return 0;
    }
    llvm->LLVMGetSubtypes(type, contained);
    struct Pause pause = begin(walk, 2 + (uint64)kind);
    mix(walk, count);
    for (unsigned i = 0; i < count; i++) {
        uint64 one = type_hash(walk, contained[i]);
        mix(walk, one);
    }
    if (contained != few) llvm->free(contained);
    switch (kind) {
    case STRUCT_TYPE:
        mix_text(walk, llvm->LLVMGetStructName(type));
        mix(walk, (uint64)(4 * llvm->LLVMIsOpaqueStruct(type) + 2 * llvm->LLVMIsPackedStruct(type) +
                           llvm->LLVMIsLiteralStruct(type)));
        if (llvm->LLVMIsLiteralStruct(type)) break;
        put(walk, &walk->memo->types, type, (uint64)llvm->LLVMGetStructName(type));
        if (llvm->LLVMGetStructName(type)) break;
        mix(walk, number(walk, &walk->own->globals, type, &is_new)); /* another type may look the same */
        walk->brief = 1;
        break;
    case ARRAY_TYPE: mix(walk, llvm->LLVMGetArrayLength2(type)); break;
    case VECTOR_TYPE: case SCALABLE_TYPE: mix(walk, llvm->LLVMGetVectorSize(type)); break;
    case FUNCTION_TYPE: mix(walk, (uint64)llvm->LLVMIsFunctionVarArg(type)); break;
    default: walk->unknown = 1; break;
    }
    return remember(walk, type, end(walk, pause));
}

/* Ranges can only be read from the printed form of a function with the attribute. */
static uint64 printed_attribute(struct Walk *walk, ref attribute) {
    const struct Llvm *llvm = walk->llvm;
    ref module = llvm->LLVMModuleCreateWithNameInContext("", walk->context);
    ref function = llvm->LLVMAddFunction(
        module, "f", llvm->LLVMFunctionType(llvm->LLVMVoidTypeInContext(walk->context), 0, 0, 0));
    llvm->LLVMAddAttributeAtIndex(function, 0, attribute);
    uint64 hash = text_hash(walk, llvm->LLVMPrintValueToString(function), 2);
    llvm->LLVMDisposeModule(module);
    return hash;
}

static uint64 attribute_hash(struct Walk *walk, ref attribute) {
    const struct Llvm *llvm = walk->llvm;
    uint64 hash = remembered(walk, attribute);
    unsigned length;
    if (hash) return hash;
    int is_type = llvm->LLVMIsTypeAttribute(attribute), is_text = llvm->LLVMIsStringAttribute(attribute);
    if (!llvm->LLVMIsEnumAttribute(attribute) && !is_type && !is_text)
        return remember(walk, attribute, printed_attribute(walk, attribute));
    struct Pause pause = begin(walk, 3);
    if (!is_text) {
        mix(walk, llvm->LLVMGetEnumAttributeKind(attribute));
        mix(walk, is_type ? type_hash(walk, llvm->LLVMGetTypeAttributeValue(attribute))
                          : llvm->LLVMGetEnumAttributeValue(attribute));
    } else {
        const char *text = llvm->LLVMGetStringAttributeKind(attribute, &length);
        mix_bytes(walk, text, length);
        text = llvm->LLVMGetStringAttributeValue(attribute, &length);
        mix_bytes(walk, text, length);
    }
    return remember(walk, attribute, end(walk, pause));
}

/* Hashes the attribute list of a function or a call, whose address is in its `word`. */
static uint64 attributes_hash(struct Walk *walk, ref value, unsigned word, unsigned (*count_parameters)(ref),
                              unsigned (*count_at)(ref, unsigned), void (*list_at)(ref, unsigned, ref *)) {
    ref attributes[MOST_ATTRIBUTES], list = ((ref *)value)[word];
    uint64 hash = list ? remembered(walk, list) : 1;
    if (hash) return hash;
    unsigned parameters = count_parameters(value);
    struct Pause pause = begin(walk, 4);
    for (unsigned index = OF_FUNCTION; index != parameters + 1; index++) {
        unsigned count = count_at(value, index);
        if (!count) continue;
        if (count > MOST_ATTRIBUTES) {
            walk->unknown = 1;
            continue;
        }
        list_at(value, index, attributes);
        mix(walk, index);
        for (unsigned i = 0; i < count; i++) mix(walk, attribute_hash(walk, attributes[i]));
    }
    return remember(walk, list, end(walk, pause));
}

static uint64 new_plain_hash(struct Walk *walk, ref value, int kind) {
    const struct Llvm *llvm = walk->llvm;
    size length;
    if (kind == Int || kind == Float || kind == Asm)
        return remember(walk, value, text_hash(walk, llvm->LLVMPrintValueToString(value), 5));
    struct Pause pause = begin(walk, 10);
    mix(walk, type_hash(walk, ((struct Value *)value)->type)), mix(walk, (uint64)kind);
    if (kind == DataArray || kind == DataVector) {
        const char *bytes = llvm->LLVMGetAsString(value, &length);
        mix_bytes(walk, bytes, length);
    }
    return remember(walk, value, end(walk, pause));
}

/* Hashes a constant without operands, or inline assembly. */
static ALWAYS_INLINE uint64 plain_hash(struct Walk *walk, ref value, int kind) {
    uint64 hash = remembered(walk, value);
    return hash ? hash : new_plain_hash(walk, value, kind);
}

/* Names of metadata kinds and synchronisation scopes. Numbers that are not predefined depend on the history of the
   context, so names are hashed. The keys of these hashes are odd numbers, which no address is. */
enum Names_of { KINDS = 1, SCOPES = 3 };

static uint64 new_name_hash(struct Walk *walk, enum Names_of what, unsigned number, unsigned first) {
    const struct Llvm *llvm = walk->llvm;
    ref key = (ref)((uint64)number << 3 | what);
    struct Names names;
    if (remembered(walk, key)) return remembered(walk, key);
    names.begin = names.own, names.count = 0, names.capacity = sizeof names.own / sizeof names.own[0];
    if (what == KINDS)
        llvm->_ZNK4llvm11LLVMContext14getMDKindNamesERNS_15SmallVectorImplINS_9StringRefEEE(walk->context, &names);
    else llvm->_ZNK4llvm11LLVMContext17getSyncScopeNamesERNS_15SmallVectorImplINS_9StringRefEEE(walk->context, &names);
    for (unsigned i = first; i < names.count; i++) {
        struct Pause pause = begin(walk, 11);
        mix_bytes(walk, names.begin[i].text, names.begin[i].length);
        remember(walk, (ref)((uint64)i << 3 | what), end(walk, pause));
    }
    if (names.begin != names.own) llvm->free(names.begin); /* it has grown onto the heap */
    return remembered(walk, key);
}

static ALWAYS_INLINE uint64 name_hash(struct Walk *walk, enum Names_of what, unsigned number, unsigned first) {
    return number < first ? number : new_name_hash(walk, what, number, first);
}

/* ---- operands ---- */

/* Moves a use behind the uses of its value that were met before. If it is there already, nothing is written, and only
   memory that was visited before is read. */
static inline void put_in_order(struct Entry *entry, struct Use *use) {
    struct Use **place = entry->last ? &entry->last->next : &use->value->uses;
    if (*place != use) {
        *use->previous = use->next;
        if (use->next) use->next->previous = use->previous;
        use->next = *place, use->previous = place;
        if (use->next) use->next->previous = &use->next;
        *place = use;
    }
    entry->last = use;
}

/* An instruction's number in its function, once `number_instructions` has run. LLVM stores the number within the block
   here, and only needs it to ascend within the block, as ours does. */
static inline uint32 *order_of(const struct Walk *walk, ref instruction) {
    return (uint32 *)((byte *)instruction + walk->layout->order);
}

/* Returns whether two neighbours in a use-list are in order: later uses come first. */
static inline int in_order(const struct Walk *walk, const struct Use *use, const struct Use *next) {
    if (use->user == next->user) return use < next;
    return *order_of(walk, use->user) > *order_of(walk, next->user);
}

/* Merge sort of a use-list; only `next` is valid afterwards. */
static struct Use *sorted(const struct Walk *walk, struct Use *uses, uint64 count) {
    struct Use *other = uses, *first = 0, **end = &first;
    uint64 half = count / 2;
    if (count < 2) {
        if (uses) uses->next = 0;
        return uses;
    }
    for (uint64 i = 0; i < half; i++) other = other->next;
    other = sorted(walk, other, count - half), uses = sorted(walk, uses, half);
    while (uses && other) {
        struct Use **from = in_order(walk, uses, other) ? &uses : &other;
        *end = *from, end = &(*from)->next, *from = *end;
    }
    *end = uses ? uses : other;
    return first;
}

static void sort_uses(const struct Walk *walk, struct Value *value) {
    uint64 count = 0;
    for (struct Use *use = value->uses; use; use = use->next) count++;
    value->uses = sorted(walk, value->uses, count);
    struct Use **previous = &value->uses;
    for (struct Use *use = value->uses; use; previous = &use->next, use = use->next) use->previous = previous;
}

static inline struct Use *operands_of(ref user, unsigned *count) {
    const struct Value *value = user;
    *count = value->more & MANY;
    return value->more & OPERANDS_BEHIND ? ((struct Use **)user)[-1] : (struct Use *)user - *count;
}

static inline int kind_of(const struct Walk *walk, ref value) {
    return value ? walk->layout->kinds[((const struct Value *)value)->class_] : Nothing;
}

/* Returns the traits of an integer (`counts.h`). */
static inline unsigned integer_of(struct Walk *walk, ref integer) {
    struct Quick *quick = quick_of(walk, integer);
    if (quick->key != integer) return integer_traits(walk->llvm, integer);
    if (!quick->traits) quick->traits = integer_traits(walk->llvm, integer) | KNOWN;
    return quick->traits;
}

/* Returns whether functions of a type return an integer. */
static inline int gives_integer(struct Walk *walk, ref type) {
    const struct Llvm *llvm = walk->llvm;
    struct Quick *quick = quick_of(walk, type);
    unsigned known = quick->key == type ? quick->traits : 0;
    if (!known) known = (llvm->LLVMGetTypeKind(llvm->LLVMGetReturnType(type)) == INTEGER_TYPE) | KNOWN;
    if (quick->key == type) quick->traits = known;
    return known & 1;
}

static inline uint64 header(ref value) {
    const struct Value *v = value;
    return (v->class_ | (uint64)(v->flags & 0xFE) << 8 | (uint64)v->data << 16 | (uint64)v->more << 32) &
           ~((uint64)7 << 59);
}

static uint64 constant_number(struct Walk *walk, ref constant, int kind, int depth, int *has_global);
static void mix_metadata_value(struct Walk *walk, ref value);

static inline void mix_result(struct Walk *walk, struct Use *use) {
    mix(walk, (uint64)*order_of(walk, use->value) << 8 | Instruction);
    if (use->next && !in_order(walk, use, use->next)) sort_uses(walk, use->value);
}

/* Mixes an operand that is not an instruction, and puts its use in order. Returns whether it depends on a global. */
static int mix_operand(struct Walk *walk, struct Use *use, int kind, int depth) {
    ref value = use->value;
    struct Entry *entry;
    int is_new, has_global = 0;
    if (kind == Zero && walk->layout->since_23) { /* a vector of floating-point zeros is a number where it is read */
        ref read = walk->llvm->LLVMConstNull(((struct Value *)value)->type);
        if (depth && read != value) walk->unknown = 1;
        else use->value = value = read, kind = kind_of(walk, read); /* neither has a list of uses */
    }
    switch (kind) {
    case Nothing: mix(walk, 0); return 0;
    case Argument: case Block:
        entry = entry_of(walk, &walk->own->locals, value, &is_new);
        mix(walk, entry->value << 8 | Block);
        put_in_order(entry, use);
        return 0;
    case Undef: case Zero: case DataArray: case DataVector: case Int: case Float: case Null: case NoToken: case Poison:
        mix(walk, plain_hash(walk, value, kind));
        if (walk->layout->plain_uses) put_in_order(entry_of(walk, &walk->own->globals, value, &is_new), use);
        return 0;
    case AFunction: case Alias: case Ifunc: case Variable:
        entry = entry_of(walk, &walk->own->globals, value, &is_new);
        mix(walk, entry->value << 8 | Variable);
        put_in_order(entry, use);
        return 1;
    case BlockAddress: case Expression: case ConstArray: case ConstStruct: case ConstVector:
        mix(walk, constant_number(walk, value, kind, depth, &has_global) << 8 | Expression);
        put_in_order(entry_of(walk, &walk->own->globals, value, &is_new), use);
        return has_global;
    case Asm: mix(walk, plain_hash(walk, value, kind)); return 0;
    case MetadataValue: mix_metadata_value(walk, value); return 0;
    default: walk->unknown = 1; return 0;
    }
}

static void mix_range(struct Walk *walk, ref expression) {
    const uint64 *range = (const uint64 *)expression + walk->layout->source_type + 2;
    if (!walk->layout->source_type || !((const byte *)range)[32]) return;
    mix(walk, range[0]), mix(walk, range[2]); /* two APInts: values up to 64 bits wide, otherwise addresses */
}

/* Returns the number of blocks before one in its function. */
static uint64 position(const struct Walk *walk, ref function, ref block) {
    const struct Llvm *llvm = walk->llvm;
    uint64 before = 0;
    FOR_BLOCKS(one, function) {
        if (one == block) break;
        before++;
    }
    return before;
}

/* Returns the number of a constant with operands; mixes its content the first time. */
static uint64 constant_number(struct Walk *walk, ref constant, int kind, int depth, int *has_global) {
    const struct Llvm *llvm = walk->llvm;
    unsigned count;
    int is_new, opcode;
    uint64 own = number(walk, &walk->own->globals, constant, &is_new);
    *has_global = 1;
    if (!is_new) return own;
    number(walk, &walk->own->constants, constant, &is_new);
    if (depth > MOST_DEPTH) {
        walk->unknown = 1;
        return own;
    }
    mix(walk, header(constant)), mix(walk, type_hash(walk, ((struct Value *)constant)->type));
    struct Use *operands = operands_of(constant, &count);
    if (kind == BlockAddress) {
        ref block = count ? llvm->LLVMValueAsBasicBlock(operands[count - 1].value) /* before LLVM 22 after the function */
                          : llvm->LLVMGetBlockAddressBasicBlock(constant); /* since LLVM 23 */
        ref function = llvm->LLVMGetBasicBlockParent(block);
        struct Entry *entry = entry_of(walk, &walk->own->globals, function, &is_new);
        mix(walk, entry->value), mix(walk, position(walk, function, block));
        if (count > 1) put_in_order(entry, &operands[0]);
        return own; /* the use of the block stays behind all uses in its function */
    }
    if (kind == Expression) {
        opcode = llvm->LLVMGetConstOpcode(constant);
        mix(walk, (uint64)opcode);
        if (opcode == GetElementPtr) {
            mix(walk, type_hash(walk, llvm->LLVMGetGEPSourceElementType(constant)));
            mix_range(walk, constant);
        } else if (opcode == ICmp || opcode == FCmp || opcode == ShuffleVector || opcode == ExtractValue ||
                   opcode == InsertValue) {
            walk->unknown = 1; /* only before LLVM 19 */
        }
    }
    *has_global = 0;
    for (unsigned i = count; i-- > 0;) *has_global |= mix_operand(walk, &operands[i], kind_of(walk, operands[i].value), depth + 1);
    if (!*has_global) walk->shared = 1;
    return own;
}

/* ---- metadata ---- */

static uint64 new_node_hash(struct Walk *walk, ref node, int depth);
static ALWAYS_INLINE uint64 node_hash(struct Walk *walk, ref node, int depth);

static int storage_of(ref metadata) { return ((const byte *)metadata)[1] & 0x7F; }

/* Hashes an operand of a node, or a metadata value. As an operand, the C API shows `!{null}` as `!{}`, and a node with
   a single constant as that constant. */
static uint64 metadata_hash(struct Walk *walk, ref value, int depth) {
    const struct Llvm *llvm = walk->llvm;
    int is_new, kind;
    unsigned length;
    if (!value) return 6;
    kind = kind_of(walk, value);
    if (kind == MetadataValue) {
        ref metadata = llvm->LLVMValueAsMetadata(value);
        switch (llvm->LLVMGetMetadataKind(metadata)) {
        case MD_STRING: {
            struct Pause pause = begin(walk, 7);
            const char *text = llvm->LLVMGetMDString(value, &length);
            mix_bytes(walk, text, length);
            return end(walk, pause);
        }
        case MD_TUPLE:
            walk->unknown |= depth && !llvm->LLVMGetMDNodeNumOperands(value) && storage_of(metadata) == UNIQUED;
            return node_hash(walk, metadata, depth);
        default: walk->unknown = 1; return 0;
        }
    }
    if ((kind >= Undef && kind <= NoToken) || kind == Poison) return plain_hash(walk, value, kind);
    if (kind >= AFunction && kind <= Variable) {
        walk->brief = 1;
        return number(walk, &walk->own->globals, value, &is_new) << 8 | Variable;
    }
    walk->unknown = 1; /* constants with operands, and local values */
    return 0;
}

static ALWAYS_INLINE uint64 node_hash(struct Walk *walk, ref node, int depth) {
    uint64 hash = remembered(walk, node);
    return hash ? hash : new_node_hash(walk, node, depth);
}

/* Hashes a tuple. A distinct one is identified by its number, which it gets when it is first met. */
static uint64 new_node_hash(struct Walk *walk, ref node, int depth) {
    const struct Llvm *llvm = walk->llvm;
    uint64 hash, own = 0;
    int storage = storage_of(node), is_new = 1;
    if (llvm->LLVMGetMetadataKind(node) != MD_TUPLE || storage > DISTINCT || depth > MOST_DEPTH) {
        walk->unknown = 1;
        return 0;
    }
    if (storage == DISTINCT) {
        own = number(walk, &walk->own->globals, node, &is_new);
        walk->brief = 1;
        if (!is_new) return own << 8 | MetadataValue;
    }
    ref value = llvm->LLVMMetadataAsValue(walk->context, node);
    ref shown = llvm->LLVMValueAsMetadata(value);
    int is_null = shown != node && llvm->LLVMGetMetadataKind(shown) == MD_TUPLE; /* otherwise it is a constant */
    unsigned count = is_null ? 1 : llvm->LLVMGetMDNodeNumOperands(value);
    ref few[16], *operands = count <= 16 ? few : llvm->calloc(count, sizeof(ref));
    if (!operands) {
        walk->failed = 1;
        return 0;
    }
    if (is_null) operands[0] = 0;
    else llvm->LLVMGetMDNodeOperands(value, operands);
    struct Pause pause = begin(walk, 8 + (uint64)storage);
    mix(walk, own), mix(walk, count);
    walk->brief = storage == DISTINCT;
    for (unsigned i = 0; i < count; i++) {
        uint64 operand = metadata_hash(walk, operands[i], depth + 1);
        mix(walk, operand);
    }
    hash = end(walk, pause);
    if (operands != few) llvm->free(operands);
    return storage == UNIQUED ? remember(walk, node, hash) : hash;
}

static void mix_metadata_value(struct Walk *walk, ref value) {
    uint64 hash = metadata_hash(walk, value, 0);
    mix(walk, hash);
}

/* Sums of these hashes do not depend on the order of kinds. `before` is the index among nodes of the same kind. */
static uint64 attachment_hash(struct Walk *walk, unsigned kind, ref node, uint64 before) {
    uint64 hash = node_hash(walk, node, 0);
    return spread(hash ^ K2 * (name_hash(walk, KINDS, kind, walk->layout->first_kind) + 1) ^ K1 * before);
}

static __attribute__((noinline)) void mix_found_attachments(struct Walk *walk, ref value) {
    const struct Attached *found = dense(walk, walk->attachments, sizeof *found, value);
    uint64 sum = 0;
    for (uint32 i = 0; i < found->count; i++) {
        uint64 before = 0;
        for (uint32 j = 0; j < i; j++) before += found->nodes[j].kind == found->nodes[i].kind;
        sum += attachment_hash(walk, found->nodes[i].kind, found->nodes[i].node, before);
    }
    mix_two(walk, found->count, sum);
}

static __attribute__((noinline)) void mix_linked_attachments(struct Walk *walk, uint32 first) {
    const struct Linked *all = *(const struct Linked *const *)walk->attachments;
    uint64 sum = 0, count = 0;
    for (uint32 i = first; i; i = all[i].next, count++) {
        uint64 before = 0;
        for (uint32 j = first; j != i; j = all[j].next) before += all[j].kind == all[i].kind;
        sum += attachment_hash(walk, all[i].kind, all[i].node, before);
    }
    mix_two(walk, count, sum);
}

static inline uint32 first_attachment(const struct Walk *walk, ref value) {
    return *(const uint32 *)((const byte *)value + walk->layout->first_attachment);
}

static inline void mix_attachments(struct Walk *walk, ref value) {
    if (walk->layout->first_attachment) {
        uint32 first = first_attachment(walk, value);
        if (first) mix_linked_attachments(walk, first);
    } else if (((struct Value *)value)->more & HAS_METADATA) mix_found_attachments(walk, value);
}
