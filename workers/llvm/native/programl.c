/* Builds the ProGraML graph of a module (Cummins et al., "ProGraML: A Graph-based Program Representation for Data Flow
   Analysis and Compiler Optimizations", ICML 2021) as flat arrays. `docs/observations.md` describes the graph and how
   it differs from that of the authors' own builder.

   All memory is an arena of the caller, for graphs of up to `capacity` nodes. When there is no room for something, the
   status becomes FULL and all functions return; the caller tries again with a larger arena. */

#define LLVM_FUNCTIONS(X)                                 \
    X(int, LLVMGetNumOperands, (ref), "")                 \
    X(ref, LLVMGetOperand, (ref, unsigned), "")           \
    X(int, LLVMGetValueKind, (ref), "")                   \
    X(ref, LLVMIsAInstruction, (ref), "")                 \
    X(ref, LLVMIsAFunction, (ref), "")                    \
    X(ref, LLVMGetCalledValue, (ref), "")                 \
    X(const char *, LLVMGetValueName2, (ref, uint64 *), "") \
    X(const char *, LLVMGetSourceFileName, (ref, uint64 *), "") \
    X(ref, LLVMTypeOf, (ref), "")                         \
    X(int, LLVMGetTypeKind, (ref), "")                    \
    X(unsigned, LLVMGetIntTypeWidth, (ref), "")           \
    X(unsigned, LLVMGetPointerAddressSpace, (ref), "")    \
    X(ref, LLVMGetElementType, (ref), "")                 \
    X(uint64, LLVMGetArrayLength2, (ref), "?")            \
    X(unsigned, LLVMGetVectorSize, (ref), "")             \
    X(unsigned, LLVMCountStructElementTypes, (ref), "")   \
    X(ref, LLVMStructGetTypeAtIndex, (ref, unsigned), "") \
    X(char *, LLVMPrintTypeToString, (ref), "")           \
    X(void, LLVMDisposeMessage, (char *), "")             \
    X(ref, LLVMGetSwitchCaseValue, (ref, unsigned), "?")

#include "llvm.h"

typedef __INT8_TYPE__ int8;
typedef __INT32_TYPE__ int32;
typedef __UINTPTR_TYPE__ uintptr;

enum { DONE = 0, SWITCH_CASES_OUT_OF_REACH = 1, FULL = 2 };
enum { INSTRUCTION, VARIABLE, CONSTANT, TYPE };
enum { CONTROL, DATA, CALL, TYPES };
enum { ROOT = 0, NONE = -1 };

enum { EDGES_PER_NODE = 4, TEXT_PER_NODE = 16, NAMES_PER_NODE = 64 };

/* Members of LLVMTypeKind and LLVMValueKind. */
enum { INTEGER_TYPE = 8, STRUCT_TYPE = 10, ARRAY_TYPE, POINTER_TYPE, VECTOR_TYPE, SCALABLE_VECTOR_TYPE = 17 };
enum { ARGUMENT = 0, BASIC_BLOCK = 1, FUNCTION = 5, CONSTANT_BYTE = 19, METADATA = 22, INLINE_ASM = 23, INSTRUCTION_VALUE = 24 };

/* `text` and `names` are the concatenated texts and function names; `text_ends` and `name_ends` are the end of each. */
struct Graph {
    int64 nodes, edges, texts, functions;
    int8 *node_kind;
    int32 *node_text, *node_function, *node_block;
    int32 *edge_source, *edge_target, *edge_position;
    int8 *edge_flow;
    ref *node_value;               /* the instruction, the producer of a variable, the constant or the type */
    char *text, *names;
    int64 *text_ends, *name_ends;

    int64 status;
    const struct Llvm *llvm;
    int64 capacity, mask, used;
    ref *keys;                     /* hash table from LLVM objects to their numbers; 0: a free slot */
    int32 *numbers;
    int32 *type_of;                /* node -> number of the type of a variable or constant */
    ref *types;                    /* number of a type -> the type */
    int32 *type_text, *type_node;  /* number of a type -> its text and its node, or NONE */
    int64 type_count;
    int32 *entry;                  /* function -> node */
    int32 *exits;                  /* nodes, function by function */
    int64 *exits_end;              /* function -> end of its exits */
    int64 exit_count;
    int32 *call_node;
    ref *callee;
    int64 call_count;
    int32 blocks;
    int32 opcode_text[OPCODES + 1];
};

/* ---- the arena ---- */

static void *take(uintptr *arena, int64 bytes) {
    uintptr start = *arena;
    *arena += (uintptr)((bytes + 15) & ~15ll);
    return (void *)start;
}

/* Lays out the arena and returns its size; with address 0, only measures. `capacity` is a power of two above 1. */
static int64 lay_out(struct Graph *g, uintptr arena, int64 capacity) {
    uintptr start = arena;
    int64 n = capacity, e = EDGES_PER_NODE * capacity;
    g->keys = take(&arena, 2 * n * (int64)sizeof(ref));
    g->numbers = take(&arena, 2 * n * 4);
    g->node_kind = take(&arena, n);
    g->node_text = take(&arena, 4 * n);
    g->node_function = take(&arena, 4 * n);
    g->node_block = take(&arena, 4 * n);
    g->edge_source = take(&arena, 4 * e);
    g->edge_target = take(&arena, 4 * e);
    g->edge_position = take(&arena, 4 * e);
    g->edge_flow = take(&arena, e);
    g->text = take(&arena, TEXT_PER_NODE * n);
    g->text_ends = take(&arena, 8 * n);
    g->names = take(&arena, NAMES_PER_NODE * n);
    g->name_ends = take(&arena, 8 * n);
    g->node_value = take(&arena, 8 * n);
    g->type_of = take(&arena, 4 * n);
    g->types = take(&arena, 8 * n);
    g->type_text = take(&arena, 4 * n);
    g->type_node = take(&arena, 4 * n);
    g->entry = take(&arena, 4 * n);
    g->exits = take(&arena, 4 * n);
    g->exits_end = take(&arena, 8 * n);
    g->call_node = take(&arena, 4 * n);
    g->callee = take(&arena, 8 * n);
    g->capacity = capacity;
    g->mask = 2 * n - 1;
    return (int64)(arena - start);
}

/* ---- the table ---- */

static int64 place_of(struct Graph *g, ref key) {
    uint64 hash = ((uintptr)key >> 3) * 0x9E3779B97F4A7C15ull;
    int64 place = (int64)(hash >> 32) & g->mask;
    while (g->keys[place] && g->keys[place] != key) place = (place + 1) & g->mask;
    return place;
}

static int32 find(struct Graph *g, ref key) {
    int64 place = place_of(g, key);
    return g->keys[place] ? g->numbers[place] : NONE;
}

static void insert(struct Graph *g, ref key, int32 number) {
    int64 place = place_of(g, key);
    if (2 * g->used++ >= 3 * g->capacity) {
        g->status = FULL;
        return;
    }
    g->keys[place] = key;
    g->numbers[place] = number;
}

/* ---- texts ---- */

static int64 text_end(struct Graph *g) { return g->texts ? g->text_ends[g->texts - 1] : 0; }

/* Appends bytes to the text under construction, which ends at `*end`. */
static void append(struct Graph *g, int64 *end, const char *bytes) {
    for (; *bytes; bytes++) {
        if (*end == TEXT_PER_NODE * g->capacity) {
            g->status = FULL;
            return;
        }
        g->text[(*end)++] = *bytes;
    }
}

static void append_number(struct Graph *g, int64 *end, uint64 number) {
    char digits[24];
    int i = (int)sizeof digits - 1;
    digits[i] = 0;
    do digits[--i] = (char)('0' + number % 10);
    while (number /= 10);
    append(g, end, digits + i);
}

/* Returns the number of the text under construction, which ends at `end`; equal texts share a number. */
static int32 intern(struct Graph *g, int64 end) {
    int64 start = text_end(g), from = 0;
    for (int64 i = 0; i < g->texts; from = g->text_ends[i++]) {
        int64 length = g->text_ends[i] - from, same = 0;
        if (length != end - start) continue;
        while (same < length && g->text[from + same] == g->text[start + same]) same++;
        if (same == length) return (int32)i;
    }
    if (g->texts == g->capacity) {
        g->status = FULL;
        return 0;
    }
    g->text_ends[g->texts] = end;
    return (int32)g->texts++;
}

static int32 text_of(struct Graph *g, const char *text) {
    int64 end = text_end(g);
    append(g, &end, text);
    return intern(g, end);
}

/* LLVM's names of the opcodes; the last one is for unknown opcodes. */
static const char *const OPCODE_NAMES[OPCODES + 1] = {
    [Ret] = "ret", [Br] = "br", [Switch] = "switch", [IndirectBr] = "indirectbr", [Invoke] = "invoke",
    [Unreachable] = "unreachable", [Add] = "add", [FAdd] = "fadd", [Sub] = "sub", [FSub] = "fsub", [Mul] = "mul",
    [FMul] = "fmul", [UDiv] = "udiv", [SDiv] = "sdiv", [FDiv] = "fdiv", [URem] = "urem", [SRem] = "srem",
    [FRem] = "frem", [Shl] = "shl", [LShr] = "lshr", [AShr] = "ashr", [And] = "and", [Or] = "or", [Xor] = "xor",
    [Alloca] = "alloca", [Load] = "load", [Store] = "store", [GetElementPtr] = "getelementptr", [Trunc] = "trunc",
    [ZExt] = "zext", [SExt] = "sext", [FPToUI] = "fptoui", [FPToSI] = "fptosi", [UIToFP] = "uitofp",
    [SIToFP] = "sitofp", [FPTrunc] = "fptrunc", [FPExt] = "fpext", [PtrToInt] = "ptrtoint",
    [IntToPtr] = "inttoptr", [BitCast] = "bitcast", [ICmp] = "icmp", [FCmp] = "fcmp", [PHI] = "phi",
    [Call] = "call", [Select] = "select", [VAArg] = "va_arg", [ExtractElement] = "extractelement",
    [InsertElement] = "insertelement", [ShuffleVector] = "shufflevector", [ExtractValue] = "extractvalue",
    [InsertValue] = "insertvalue", [Fence] = "fence", [AtomicCmpXchg] = "cmpxchg", [AtomicRMW] = "atomicrmw",
    [Resume] = "resume", [LandingPad] = "landingpad", [AddrSpaceCast] = "addrspacecast",
    [CleanupRet] = "cleanupret", [CatchRet] = "catchret", [CatchPad] = "catchpad", [CleanupPad] = "cleanuppad",
    [CatchSwitch] = "catchswitch", [FNeg] = "fneg", [CallBr] = "callbr", [Freeze] = "freeze",
    [PtrToAddr] = "ptrtoaddr", [OPCODES] = "<unknown>",
};

static int32 opcode_text(struct Graph *g, unsigned opcode) {
    if (opcode >= OPCODES || !OPCODE_NAMES[opcode]) opcode = OPCODES;
    if (g->opcode_text[opcode] == NONE) g->opcode_text[opcode] = text_of(g, OPCODE_NAMES[opcode]);
    return g->opcode_text[opcode];
}

/* Before LLVM 17, lengths above 32 bits are only in the printed type. */
static void append_array_length(struct Graph *g, int64 *end, ref array) {
    if (g->llvm->LLVMGetArrayLength2) {
        append_number(g, end, g->llvm->LLVMGetArrayLength2(array));
        return;
    }
    char *printed = g->llvm->LLVMPrintTypeToString(array); /* [8 x i32] */
    uint64 length = 0;
    for (char *digit = printed + 1; *digit >= '0' && *digit <= '9'; digit++) length = 10 * length + (*digit - '0');
    append_number(g, end, length);
    g->llvm->LLVMDisposeMessage(printed);
}

/* Appends the text of a type as LLVM prints it, but with `struct` for every structure and `ptr` for every pointer. */
static void append_type(struct Graph *g, int64 *end, ref type) {
    const struct Llvm *llvm = g->llvm;
    int kind = llvm->LLVMGetTypeKind(type);
    if (kind == INTEGER_TYPE) {
        append(g, end, "i");
        append_number(g, end, llvm->LLVMGetIntTypeWidth(type));
    } else if (kind == POINTER_TYPE) {
        unsigned space = llvm->LLVMGetPointerAddressSpace(type);
        append(g, end, "ptr");
        if (!space) return;
        append(g, end, " addrspace(");
        append_number(g, end, space);
        append(g, end, ")");
    } else if (kind == STRUCT_TYPE) {
        append(g, end, "struct");
    } else if (kind == ARRAY_TYPE) {
        append(g, end, "[");
        append_array_length(g, end, type);
        append(g, end, " x ");
        append_type(g, end, llvm->LLVMGetElementType(type));
        append(g, end, "]");
    } else if (kind == VECTOR_TYPE || kind == SCALABLE_VECTOR_TYPE) {
        append(g, end, kind == VECTOR_TYPE ? "<" : "<vscale x ");
        append_number(g, end, llvm->LLVMGetVectorSize(type));
        append(g, end, " x ");
        append_type(g, end, llvm->LLVMGetElementType(type));
        append(g, end, ">");
    } else {
        char *printed = llvm->LLVMPrintTypeToString(type);
        append(g, end, printed);
        llvm->LLVMDisposeMessage(printed);
    }
}

static int32 new_type(struct Graph *g, ref type) {
    if (g->type_count == g->capacity) {
        g->status = FULL;
        return 0;
    }
    g->types[g->type_count] = type;
    g->type_text[g->type_count] = g->type_node[g->type_count] = NONE;
    return (int32)g->type_count++;
}

static int32 type_text(struct Graph *g, int32 type) {
    if (g->type_text[type] == NONE) {
        int64 end = text_end(g);
        append_type(g, &end, g->types[type]);
        g->type_text[type] = intern(g, end);
    }
    return g->type_text[type];
}

/* All pointers to one address space are one type, as in LLVM since 15. Their key is an odd number, which no address
   is. */
static int32 type_number(struct Graph *g, ref type) {
    int32 number = find(g, type);
    if (number != NONE) return number;
    if (g->llvm->LLVMGetTypeKind(type) == POINTER_TYPE) {
        ref key = (ref)(uintptr)(8ull * g->llvm->LLVMGetPointerAddressSpace(type) + 1);
        number = find(g, key);
        if (number == NONE) insert(g, key, number = new_type(g, type));
    } else {
        number = new_type(g, type);
    }
    insert(g, type, number);
    return number;
}

/* ---- nodes and edges ---- */

static int32 add_node(struct Graph *g, int kind, ref value, int32 text, int32 function, int32 block) {
    int64 node = g->nodes;
    if (node == g->capacity) {
        g->status = FULL;
        return 0;
    }
    g->node_kind[node] = (int8)kind;
    g->node_text[node] = text;
    g->node_function[node] = function;
    g->node_block[node] = block;
    g->node_value[node] = value;
    g->nodes++;
    return (int32)node;
}

static void add_edge(struct Graph *g, int flow, int32 source, int32 target, unsigned position) {
    int64 edge = g->edges;
    if (edge == EDGES_PER_NODE * g->capacity) {
        g->status = FULL;
        return;
    }
    g->edge_flow[edge] = (int8)flow;
    g->edge_source[edge] = source;
    g->edge_target[edge] = target;
    g->edge_position[edge] = (int32)position;
    g->edges++;
}

static int32 add_data(struct Graph *g, int kind, ref value, int32 function, int32 block) {
    int32 type = type_number(g, g->llvm->LLVMTypeOf(value));
    int32 node = add_node(g, kind, value, type_text(g, type), function, block);
    g->type_of[node] = type;
    return node;
}

/* ---- instructions ---- */

static int32 constant_node(struct Graph *g, ref constant) {
    int32 node = find(g, constant);
    if (node == NONE) insert(g, constant, node = add_data(g, CONSTANT, constant, NONE, NONE));
    return node;
}

/* Adds a node for an operand that is data, and the edge to the instruction that uses it. */
static void visit_operand(struct Graph *g, ref value, unsigned position, int32 user, int32 function) {
    int kind = g->llvm->LLVMGetValueKind(value);
    int32 node;
    if (kind > CONSTANT_BYTE && g->llvm->LLVMIsACondBrInst) kind--; /* LLVM 23 inserted one */
    if (kind == FUNCTION || kind == BASIC_BLOCK || kind == METADATA || kind == INLINE_ASM) return;
    if (kind == INSTRUCTION_VALUE && g->llvm->LLVMIsAInstruction(value)) { /* some rare constants have this kind too */
        node = add_data(g, VARIABLE, value, function, g->blocks);
    } else if (kind == ARGUMENT) {
        node = find(g, value);
        if (node == NONE) insert(g, value, node = add_data(g, VARIABLE, value, function, NONE));
    } else {
        node = constant_node(g, value);
    }
    add_edge(g, DATA, node, user, position);
}

/* Since LLVM 22 the case values of a switch are not operands; they are treated like operands. */
static void visit_cases(struct Graph *g, ref instruction, unsigned operands, int32 user) {
    unsigned successors = g->llvm->LLVMGetNumSuccessors(instruction);
    if (successors < 2 || operands != successors + 1) return;
    if (!g->llvm->LLVMGetSwitchCaseValue) {
        g->status = SWITCH_CASES_OUT_OF_REACH;
        return;
    }
    for (unsigned i = 1; i < successors && g->status == DONE; i++)
        add_edge(g, DATA, constant_node(g, g->llvm->LLVMGetSwitchCaseValue(instruction, i)), user, 2 * i);
}

static void visit_call(struct Graph *g, ref instruction, int32 node) {
    ref callee = g->llvm->LLVMGetCalledValue(instruction);
    if (!g->llvm->LLVMIsAFunction(callee)) return;
    g->call_node[g->call_count] = node; /* there are at most as many calls as nodes */
    g->callee[g->call_count++] = callee;
}

static int32 visit_instruction(struct Graph *g, ref instruction, int32 function) {
    const struct Llvm *llvm = g->llvm;
    unsigned opcode = opcode_of(llvm, instruction);
    unsigned operands = (unsigned)llvm->LLVMGetNumOperands(instruction);
    int32 node = add_node(g, INSTRUCTION, instruction, opcode_text(g, opcode), function, g->blocks);
    insert(g, instruction, node);
    for (unsigned i = 0; i < operands && g->status == DONE; i++)
        visit_operand(g, llvm->LLVMGetOperand(instruction, i), i, node, function);
    if (g->status != DONE) return node;
    if (opcode == Switch) visit_cases(g, instruction, operands, node);
    if (opcode == Call || opcode == Invoke || opcode == CallBr) visit_call(g, instruction, node);
    return node;
}

/* ---- functions ---- */

/* Adds an edge to each variable from the instruction that produces it, which may come after its uses. */
static void connect_producers(struct Graph *g, int64 first) {
    for (int64 node = first; node < g->nodes && g->status == DONE; node++)
        if (g->node_kind[node] == VARIABLE && g->node_block[node] != NONE) /* arguments are in no block */
            add_edge(g, DATA, find(g, g->node_value[node]), (int32)node, 0);
}

/* Adds the edges between blocks; a block without successors is an exit of the function. */
static void connect_blocks(struct Graph *g, ref function) {
    const struct Llvm *llvm = g->llvm;
    FOR_BLOCKS(block, function) {
        ref terminator = llvm->LLVMGetBasicBlockTerminator(block);
        unsigned successors = terminator ? llvm->LLVMGetNumSuccessors(terminator) : 0;
        int32 source = find(g, terminator);
        if (g->status != DONE) return;
        if (!successors) g->exits[g->exit_count++] = source;
        for (unsigned i = 0; i < successors; i++)
            add_edge(g, CONTROL, source,
                     find(g, llvm->LLVMGetFirstInstruction(llvm->LLVMGetSuccessor(terminator, i))), i);
    }
}

static void visit_body(struct Graph *g, ref function, int32 number) {
    const struct Llvm *llvm = g->llvm;
    int64 first = g->nodes;
    FOR_BLOCKS(block, function) {
        int32 previous = NONE;
        FOR_INSTRUCTIONS(instruction, block) {
            int32 node = visit_instruction(g, instruction, number);
            if (g->status != DONE) return;
            if (previous != NONE) add_edge(g, CONTROL, previous, node, 0);
            previous = node;
        }
        g->blocks++;
    }
    connect_producers(g, first);
    connect_blocks(g, function);
}

static void visit_function(struct Graph *g, ref function, int32 number) {
    g->entry[number] = (int32)g->nodes;
    if (g->llvm->LLVMGetFirstBasicBlock(function))
        visit_body(g, function, number);
    else
        g->exits[g->exit_count++] =
            add_node(g, INSTRUCTION, 0, text_of(g, "; undefined function"), number, NONE);
    g->exits_end[number] = g->exit_count;
}

static void add_function(struct Graph *g, ref function) {
    uint64 length;
    const char *name = g->llvm->LLVMGetValueName2(function, &length);
    int64 end = g->functions ? g->name_ends[g->functions - 1] : 0;
    if (g->functions == g->capacity || (int64)length > NAMES_PER_NODE * g->capacity - end) {
        g->status = FULL;
        return;
    }
    for (uint64 i = 0; i < length; i++) g->names[end++] = name[i];
    g->name_ends[g->functions] = end;
    insert(g, function, (int32)g->functions++);
}

/* Adds the edges of a call: to the entry of the function, and back from its exits. */
static void connect_call(struct Graph *g, int32 caller, int32 function) {
    add_edge(g, CALL, caller, g->entry[function], 0);
    for (int64 i = function ? g->exits_end[function - 1] : 0; i < g->exits_end[function] && g->status == DONE; i++)
        add_edge(g, CALL, g->exits[i], caller, 0);
}

/* ---- types ---- */

static int32 type_node(struct Graph *g, int32 type);

/* Adds a node for a type and nodes for its parts. Each member of a structure gets a new node; the element type of an
   array or vector shares the node of all values of that type. */
static int32 add_type(struct Graph *g, ref type) {
    const struct Llvm *llvm = g->llvm;
    int kind = llvm->LLVMGetTypeKind(type);
    int vector = kind == VECTOR_TYPE || kind == SCALABLE_VECTOR_TYPE, array = kind == ARRAY_TYPE;
    int32 text = vector ? text_of(g, "vector") : array ? text_of(g, "[]") : type_text(g, type_number(g, type));
    int32 node = add_node(g, TYPE, type, text, NONE, NONE);
    if (array || vector)
        add_edge(g, TYPES, type_node(g, type_number(g, llvm->LLVMGetElementType(type))), node, 0);
    if (kind == STRUCT_TYPE)
        for (unsigned i = 0; i < llvm->LLVMCountStructElementTypes(type) && g->status == DONE; i++)
            add_edge(g, TYPES, add_type(g, llvm->LLVMStructGetTypeAtIndex(type, i)), node, i);
    return node;
}

static int32 type_node(struct Graph *g, int32 type) {
    if (g->status != DONE) return 0; /* when memory is full, `type` may be the number of another type */
    if (g->type_node[type] == NONE) {
        int32 node = add_type(g, g->types[type]);
        g->type_node[type] = node;
    }
    return g->type_node[type];
}

static void connect_types(struct Graph *g) {
    int64 last = g->nodes; /* nodes of types come after these */
    for (int64 node = 0; node < last && g->status == DONE; node++)
        if (g->node_kind[node] == VARIABLE || g->node_kind[node] == CONSTANT)
            add_edge(g, TYPES, type_node(g, g->type_of[node]), (int32)node, 0);
}

/* ---- the graph ---- */

static void build(struct Graph *g, ref module) {
    const struct Llvm *llvm = g->llvm;
    int32 number = 0;
    add_node(g, INSTRUCTION, 0, text_of(g, "[external]"), NONE, NONE);
    FOR_FUNCTIONS(function, module) {
        add_function(g, function);
        if (g->status != DONE) return;
    }
    FOR_FUNCTIONS(function, module) {
        visit_function(g, function, number++);
        if (g->status != DONE) return;
    }
    for (int32 i = 0; i < number && g->status == DONE; i++) connect_call(g, ROOT, i);
    for (int64 i = 0; i < g->call_count && g->status == DONE; i++)
        connect_call(g, g->call_node[i], find(g, g->callee[i]));
    connect_types(g);
}

/* Returns the size in bytes of an arena for a graph of up to `capacity` nodes. */
EXPORT int64 aiocg_programl_bytes(int64 capacity) {
    struct Graph graph;
    return lay_out(&graph, 0, capacity);
}

/* Builds the graph and writes the number and address of everything to `out`: see `_RESULT` in `programl.py`. */
EXPORT int aiocg_programl(const struct Llvm *llvm, ref module, char *arena, int64 capacity, int64 *out) {
    struct Graph graph, *g = &graph;
    lay_out(g, (uintptr)arena, capacity);
    g->llvm = llvm;
    g->nodes = g->edges = g->texts = g->functions = g->status = 0;
    g->used = g->type_count = g->exit_count = g->call_count = 0;
    g->blocks = 0;
    for (int i = 0; i <= OPCODES; i++) g->opcode_text[i] = NONE;
    for (int64 i = 0; i <= g->mask; i++) g->keys[i] = 0;
    build(g, module);
    uint64 source_length;
    const char *source = llvm->LLVMGetSourceFileName(module, &source_length);
    int64 counts[] = {g->nodes, g->edges, g->texts, g->functions, (int64)source_length};
    const void *places[] = {g->node_kind, g->node_text, g->node_function, g->node_block, g->edge_source,
                            g->edge_target, g->edge_flow, g->edge_position, g->text, g->text_ends, g->names,
                            g->name_ends, source, g->node_value};
    for (int i = 0; i < 5; i++) *out++ = counts[i];
    for (int i = 0; i < 14; i++) *out++ = (int64)(uintptr)places[i];
    return (int)g->status;
}
