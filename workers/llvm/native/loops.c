/* Finds the natural loops of functions, and marks one of them so that LLVM's loop unroller unrolls only that one.

   A back edge is an edge whose target, the header, dominates its source. A natural loop is a header and all blocks that
   reach one of its back edges without passing the header; all back edges to a header belong to one loop, as in LLVM's
   LoopInfo. Unreachable blocks are in no loop. The loops of a function are numbered in the order of their headers in
   its text. */

#define LLVM_FUNCTIONS(X)                                            \
    X(ref, LLVMGetModuleContext, (ref), "")                          \
    X(ref, LLVMGetGlobalParent, (ref), "")                           \
    X(ref, LLVMIntTypeInContext, (ref, unsigned), "")                \
    X(ref, LLVMConstInt, (ref, uint64, int), "")                     \
    X(uint64, LLVMConstIntGetZExtValue, (ref), "")                   \
    X(ref, LLVMGetMetadata, (ref, unsigned), "")                     \
    X(void, LLVMSetMetadata, (ref, unsigned, ref), "")               \
    X(unsigned, LLVMGetMDKindIDInContext, (ref, const char *, unsigned), "") \
    X(unsigned, LLVMGetMDNodeNumOperands, (ref), "")                 \
    X(void, LLVMGetMDNodeOperands, (ref, ref *), "")                 \
    X(ref, LLVMIsAMDNode, (ref), "")                                 \
    X(ref, LLVMIsAMDString, (ref), "")                               \
    X(const char *, LLVMGetMDString, (ref, unsigned *), "")          \
    X(ref, LLVMValueAsMetadata, (ref), "")                           \
    X(ref, LLVMMetadataAsValue, (ref, ref), "")                      \
    X(ref, LLVMMDStringInContext2, (ref, const char *, size), "")    \
    X(ref, LLVMMDNodeInContext2, (ref, ref *, size), "")             \
    X(ref, LLVMTemporaryMDNode, (ref, ref *, size), "")              \
    X(void, LLVMMetadataReplaceAllUsesWith, (ref, ref), "")

typedef __SIZE_TYPE__ size;
#include "llvm.h"

enum { NONE = -1 };

struct Loop {
    int64 function;     /* index among the module's functions with a body; 0 if only one function was read */
    int64 header;       /* index of the block in the function */
    int64 depth;        /* 1: outermost */
    int64 blocks;       /* including those of inner loops */
    int64 instructions; /* in those blocks */
    int64 latches;      /* blocks with an edge to the header */
};

/* Working memory for one function, owned by the caller. Blocks are numbered in the order of the text; a position is a
   place in reverse postorder. */
struct Graph {
    int64 blocks, edges;         /* in: capacity; out: the number in the function */
    ref *block;                  /* [blocks] */
    int64 *slot;                 /* [slots] hash table: 1 + number of a block, or 0 */
    int64 mask;                  /* slots - 1; slots is a power of two and at least twice `blocks` */
    int64 *first;                /* [blocks + 1] into `successor` */
    int64 *successor;            /* [edges] */
    int64 *first_predecessor;    /* [blocks + 1] into `predecessor` */
    int64 *predecessor;          /* [edges] */
    int64 *order;                /* [blocks] the block at a position; `reached` of them */
    int64 *position;             /* [blocks] the position of a block, or NONE if it is unreachable */
    int64 *dominator;            /* [blocks] immediate dominator; that of the entry is the entry */
    int64 *depth;                /* [blocks] number of loops around a block */
    int64 *stack;                /* [2 * blocks] */
    int64 *stamp;                /* [blocks] 1 + the last header whose loop contains the block */
    int64 *instructions;         /* [blocks] */
    int64 reached;
};

static int64 *slot_of(struct Graph *graph, ref block) {
    uint64 hash = (uint64)block * 0x9E3779B97F4A7C15u;
    int64 place = (int64)((hash >> 32) & (uint64)graph->mask);
    while (graph->slot[place] && graph->block[graph->slot[place] - 1] != block) place = (place + 1) & graph->mask;
    return &graph->slot[place];
}

static void read_blocks(const struct Llvm *llvm, struct Graph *graph, ref function) {
    graph->blocks = 0;
    for (int64 i = 0; i <= graph->mask; i++) graph->slot[i] = 0;
    FOR_BLOCKS(block, function) {
        int64 number = graph->blocks++, instructions = 0;
        graph->block[number] = block;
        *slot_of(graph, block) = number + 1;
        FOR_INSTRUCTIONS(instruction, block) instructions++;
        graph->instructions[number] = instructions;
    }
}

/* Lists the successors and the predecessors of all blocks; predecessors are counted first. */
static void read_edges(const struct Llvm *llvm, struct Graph *graph) {
    int64 edges = 0;
    for (int64 i = 0; i <= graph->blocks; i++) graph->first_predecessor[i] = 0;
    for (int64 i = 0; i < graph->blocks; i++) {
        ref terminator = llvm->LLVMGetBasicBlockTerminator(graph->block[i]);
        unsigned successors = terminator ? llvm->LLVMGetNumSuccessors(terminator) : 0;
        graph->first[i] = edges;
        for (unsigned s = 0; s < successors; s++) {
            int64 successor = *slot_of(graph, llvm->LLVMGetSuccessor(terminator, s)) - 1;
            graph->successor[edges++] = successor;
            graph->first_predecessor[successor + 1]++;
        }
    }
    graph->first[graph->blocks] = graph->edges = edges;
    for (int64 i = 0; i < graph->blocks; i++) {
        graph->stack[i] = 0;
        graph->first_predecessor[i + 1] += graph->first_predecessor[i];
    }
    for (int64 i = 0; i < graph->blocks; i++)
        for (int64 e = graph->first[i]; e < graph->first[i + 1]; e++) {
            int64 successor = graph->successor[e];
            graph->predecessor[graph->first_predecessor[successor] + graph->stack[successor]++] = i;
        }
}

/* Puts the reachable blocks in reverse postorder. */
static void order_blocks(struct Graph *graph) {
    int64 depth = 0, place = graph->blocks;
    int64 *path = graph->stack, *edge = graph->stack + graph->blocks;
    for (int64 i = 0; i < graph->blocks; i++) graph->position[i] = NONE;
    path[depth] = 0, edge[depth++] = graph->first[0];
    graph->position[0] = 0;
    while (depth) {
        int64 block = path[depth - 1];
        if (edge[depth - 1] == graph->first[block + 1]) {
            graph->order[--place] = block;
            depth--;
            continue;
        }
        int64 next = graph->successor[edge[depth - 1]++];
        if (graph->position[next] != NONE) continue;
        graph->position[next] = 0;
        path[depth] = next, edge[depth++] = graph->first[next];
    }
    graph->reached = graph->blocks - place;
    for (int64 i = 0; i < graph->reached; i++) {
        graph->order[i] = graph->order[place + i];
        graph->position[graph->order[i]] = i;
    }
}

/* Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", 2001. */
static void find_dominators(struct Graph *graph) {
    int changed = 1;
    for (int64 i = 0; i < graph->blocks; i++) graph->dominator[i] = NONE;
    graph->dominator[0] = 0;
    while (changed) {
        changed = 0;
        for (int64 i = 1; i < graph->reached; i++) {
            int64 block = graph->order[i], found = NONE;
            for (int64 e = graph->first_predecessor[block]; e < graph->first_predecessor[block + 1]; e++) {
                int64 other = graph->predecessor[e];
                if (graph->position[other] == NONE || graph->dominator[other] == NONE) continue;
                if (found == NONE) {
                    found = other;
                    continue;
                }
                while (found != other) {
                    if (graph->position[found] < graph->position[other]) other = graph->dominator[other];
                    else found = graph->dominator[found];
                }
            }
            if (graph->dominator[block] == found) continue;
            graph->dominator[block] = found;
            changed = 1;
        }
    }
}

static int dominates(const struct Graph *graph, int64 block, int64 other) {
    while (graph->position[other] > graph->position[block]) other = graph->dominator[other];
    return other == block;
}

/* Returns whether the edge from `block` to `header` is a back edge. */
static int is_back_edge(const struct Graph *graph, int64 block, int64 header) {
    return graph->position[block] != NONE && graph->position[header] != NONE && dominates(graph, header, block);
}

/* Measures the loop with this header and increments its blocks' depth. A block with two back edges is one latch. */
static void find_loop(struct Graph *graph, int64 header, struct Loop *loop) {
    int64 waiting = 0, mark = header + 1;
    loop->header = header;
    loop->blocks = loop->instructions = loop->latches = 0;
    for (int64 e = graph->first_predecessor[header]; e < graph->first_predecessor[header + 1]; e++) {
        int64 latch = graph->predecessor[e];
        if (!is_back_edge(graph, latch, header)) continue;
        if (e == graph->first_predecessor[header] || graph->predecessor[e - 1] != latch) loop->latches++;
        if (graph->stamp[latch] == mark) continue;
        graph->stamp[latch] = mark;
        graph->stack[waiting++] = latch;
    }
    if (!loop->latches) return;
    if (graph->stamp[header] != mark) graph->stamp[header] = mark, graph->stack[waiting++] = header;
    while (waiting) {
        int64 block = graph->stack[--waiting];
        graph->depth[block]++;
        loop->blocks++;
        loop->instructions += graph->instructions[block];
        if (block == header) continue;
        for (int64 e = graph->first_predecessor[block]; e < graph->first_predecessor[block + 1]; e++) {
            int64 before = graph->predecessor[e];
            if (graph->position[before] == NONE || graph->stamp[before] == mark) continue;
            graph->stamp[before] = mark;
            graph->stack[waiting++] = before;
        }
    }
}

static int64 find_loops(const struct Llvm *llvm, struct Graph *graph, ref function, struct Loop *loops) {
    int64 count = 0;
    read_blocks(llvm, graph, function);
    read_edges(llvm, graph);
    order_blocks(graph);
    find_dominators(graph);
    for (int64 i = 0; i < graph->blocks; i++) graph->depth[i] = graph->stamp[i] = 0;
    for (int64 header = 0; header < graph->blocks; header++) {
        if (graph->position[header] == NONE) continue;
        find_loop(graph, header, &loops[count]);
        if (loops[count].latches) count++;
    }
    for (int64 i = 0; i < count; i++) loops[i].depth = graph->depth[loops[i].header];
    return count;
}

static void measure(const struct Llvm *llvm, ref function, int64 *most, int64 *all) {
    int64 blocks = 0, edges = 0;
    FOR_BLOCKS(block, function) {
        ref terminator = llvm->LLVMGetBasicBlockTerminator(block);
        blocks++;
        if (terminator) edges += llvm->LLVMGetNumSuccessors(terminator);
    }
    if (blocks > most[0]) most[0] = blocks;
    if (edges > most[1]) most[1] = edges;
    *all += blocks;
}

/* Writes the most blocks and the most edges of a function, and the number of blocks of all functions. */
EXPORT void aiocg_loop_sizes(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) measure(llvm, function, out, &out[2]);
}

EXPORT void aiocg_loop_sizes_of_function(const struct Llvm *llvm, ref function, int64 *out) {
    measure(llvm, function, out, &out[2]);
}

/* Lists the loops of a module, function by function, and returns their number; `loops` has room for one per block. */
EXPORT int64 aiocg_loops(const struct Llvm *llvm, ref module, struct Graph *graph, struct Loop *loops) {
    int64 count = 0, number = 0;
    FOR_FUNCTIONS(function, module) {
        if (!llvm->LLVMGetFirstBasicBlock(function)) continue;
        int64 found = find_loops(llvm, graph, function, loops + count);
        for (int64 i = 0; i < found; i++) loops[count + i].function = number;
        count += found;
        number++;
    }
    return count;
}

/* Returns the header of a function's loop by its number, or null. */
EXPORT ref aiocg_loop_header(const struct Llvm *llvm, ref function, struct Graph *graph, struct Loop *loops,
                             int64 number) {
    return number < find_loops(llvm, graph, function, loops) ? graph->block[loops[number].header] : 0;
}

/* ---- Unrolling one loop ----

   A loop's hints are operands of a metadata node, which is attached to the branches of its latches and whose first
   operand is the node itself. While the unroller runs, nodes of our own replace those of the loop to unroll and of all
   other loops that have one; each contains the number of its branch. The unroller copies hints that it does not know,
   so each resulting loop can get its original node back. The loop for the remaining iterations gets a new node without
   a number. */

#define TAG "aiocg.loop"
#define UNROLL "llvm.loop.unroll."
#define OPERANDS 64 /* most operands of a node that are read; there are about ten kinds of hints */

static unsigned loop_kind(const struct Llvm *llvm, ref context) {
    return llvm->LLVMGetMDKindIDInContext(context, "llvm.loop", 9);
}

static ref string(const struct Llvm *llvm, ref context, const char *text) {
    size length = 0;
    while (text[length]) length++;
    return llvm->LLVMMDStringInContext2(context, text, length);
}

/* Makes a hint: a node of a name and, unless it has no bits, a number. */
static ref sized_hint(const struct Llvm *llvm, ref context, const char *name, int64 number, unsigned bits) {
    ref operands[2] = {string(llvm, context, name), 0};
    if (!bits) return llvm->LLVMMDNodeInContext2(context, operands, 1);
    ref value = llvm->LLVMConstInt(llvm->LLVMIntTypeInContext(context, bits), (uint64)number, 0);
    operands[1] = llvm->LLVMValueAsMetadata(value);
    return llvm->LLVMMDNodeInContext2(context, operands, 2);
}

/* Makes a hint with a number of 32 bits, or without if that is negative. */
static ref hint(const struct Llvm *llvm, ref context, const char *name, int64 number) {
    return sized_hint(llvm, context, name, number, number < 0 ? 0 : 32);
}

/* Returns whether an operand is a hint whose name has this prefix; if it has a number, stores that. */
static int is_hint(const struct Llvm *llvm, ref operand, const char *prefix, int64 *number) {
    ref parts[OPERANDS];
    unsigned length;
    if (!operand || !llvm->LLVMIsAMDNode(operand)) return 0;
    unsigned count = llvm->LLVMGetMDNodeNumOperands(operand);
    if (count == 0 || count > OPERANDS) return 0;
    llvm->LLVMGetMDNodeOperands(operand, parts);
    if (!parts[0] || !llvm->LLVMIsAMDString(parts[0])) return 0;
    const char *name = llvm->LLVMGetMDString(parts[0], &length);
    for (unsigned i = 0; prefix[i]; i++)
        if (i >= length || name[i] != prefix[i]) return 0;
    if (number && count == 2) *number = (int64)llvm->LLVMConstIntGetZExtValue(parts[1]);
    return 1;
}

/* Returns whether our node leaves out a hint: one on unrolling, or one with our own name. */
static int is_replaced(const struct Llvm *llvm, ref operand) {
    return is_hint(llvm, operand, UNROLL, 0) || is_hint(llvm, operand, TAG, 0);
}

/* Makes a loop's node: itself, the hints of `old` (may be null) that are kept, the number, and the hint `last`. */
static ref make_node(const struct Llvm *llvm, ref context, ref old, int64 number, ref last) {
    ref operands[OPERANDS + 3], olds[OPERANDS];
    unsigned count = 1, old_count = old ? llvm->LLVMGetMDNodeNumOperands(old) : 0;
    ref self = operands[0] = llvm->LLVMTemporaryMDNode(context, 0, 0);
    if (old_count > OPERANDS) old_count = 0;
    if (old_count) llvm->LLVMGetMDNodeOperands(old, olds);
    for (unsigned i = 1; i < old_count; i++)
        if (olds[i] && !is_replaced(llvm, olds[i])) operands[count++] = llvm->LLVMValueAsMetadata(olds[i]);
    operands[count++] = hint(llvm, context, TAG, number);
    operands[count++] = last;
    ref node = llvm->LLVMMDNodeInContext2(context, operands, count);
    llvm->LLVMMetadataReplaceAllUsesWith(self, node); /* a node with itself as operand becomes distinct */
    return llvm->LLVMMetadataAsValue(context, node);
}

/* Marks the loop with this header for unrolling `factor` times (0: fully), and disables unrolling of all other loops
   with hints. `kept` has room for one node per block and receives the original nodes of the branches. Returns the block
   number of the marked branch, or NONE if the block is not a loop header. */
EXPORT int64 aiocg_mark_loop(const struct Llvm *llvm, ref function, struct Graph *graph, struct Loop *loops, ref header,
                             int64 factor, ref *kept) {
    ref context = llvm->LLVMGetModuleContext(llvm->LLVMGetGlobalParent(function));
    unsigned kind = loop_kind(llvm, context);
    int64 marked = NONE, head;
    find_loops(llvm, graph, function, loops);
    head = *slot_of(graph, header) - 1;
    if (head == NONE) return NONE;
    for (int64 e = graph->first_predecessor[head]; e < graph->first_predecessor[head + 1]; e++)
        if (is_back_edge(graph, graph->predecessor[e], head)) marked = graph->predecessor[e];
    for (int64 i = 0; i < graph->blocks; i++) {
        ref branch = llvm->LLVMGetBasicBlockTerminator(graph->block[i]);
        kept[i] = llvm->LLVMGetMetadata(branch, kind);
        if (!kept[i] && i != marked) continue;
        ref last = i != marked ? hint(llvm, context, UNROLL "disable", NONE)
                   : factor    ? hint(llvm, context, UNROLL "count", factor)
                               : hint(llvm, context, UNROLL "full", NONE);
        llvm->LLVMSetMetadata(branch, kind, make_node(llvm, context, kept[i], i, last));
    }
    return marked;
}

/* Restores the original nodes; `kept` and `marked` are from `aiocg_mark_loop`. */
EXPORT void aiocg_unmark_loops(const struct Llvm *llvm, ref function, ref *kept, int64 marked) {
    ref context = llvm->LLVMGetModuleContext(llvm->LLVMGetGlobalParent(function));
    unsigned kind = loop_kind(llvm, context);
    FOR_BLOCKS(block, function) {
        ref operands[OPERANDS + 3];
        ref branch = llvm->LLVMGetBasicBlockTerminator(block);
        ref node = llvm->LLVMGetMetadata(branch, kind);
        unsigned count = node ? llvm->LLVMGetMDNodeNumOperands(node) : 0;
        int64 number = marked;
        if (count == 0 || count > OPERANDS + 3) continue;
        llvm->LLVMGetMDNodeOperands(node, operands);
        for (unsigned i = 1; i < count; i++) is_hint(llvm, operands[i], TAG, &number);
        llvm->LLVMSetMetadata(branch, kind, kept[number]);
    }
}

/* ---- Hints that stay ----

   A node of ours has, besides hints, one whose name is MARK and that refers to the loop's original node, if it had one.
   So the original comes back exactly. All latches of a loop get the same node, as LLVM expects. */

#define MARK "aiocg.mark"

/* Returns the hint of ours among a node's operands, or null. */
static ref mark_of(const struct Llvm *llvm, ref node) {
    ref operands[OPERANDS + 3];
    unsigned count = node ? llvm->LLVMGetMDNodeNumOperands(node) : 0;
    if (count == 0 || count > OPERANDS + 3) return 0;
    llvm->LLVMGetMDNodeOperands(node, operands);
    for (unsigned i = 1; i < count; i++)
        if (is_hint(llvm, operands[i], MARK, 0)) return operands[i];
    return 0;
}

/* Returns the node that a loop had before it was marked; null if it had none. */
static ref original_of(const struct Llvm *llvm, ref mark) {
    ref parts[2];
    if (llvm->LLVMGetMDNodeNumOperands(mark) != 2) return 0;
    llvm->LLVMGetMDNodeOperands(mark, parts);
    return parts[1];
}

/* A hint to add: see `sized_hint`. */
struct Hint {
    const char *name;
    int64 number, bits;
};

/* Makes a loop's node of the hints of `old` (may be null) whose names do not begin with `family`, and of new ones. */
static ref marked_node(const struct Llvm *llvm, ref context, ref old, const char *family, const struct Hint *hints,
                       int64 count) {
    ref operands[OPERANDS + 8], olds[OPERANDS], parts[2] = {string(llvm, context, MARK), 0};
    ref mark = mark_of(llvm, old), self = operands[0] = llvm->LLVMTemporaryMDNode(context, 0, 0);
    unsigned number = 1, old_count = old ? llvm->LLVMGetMDNodeNumOperands(old) : 0;
    if (old_count > OPERANDS) old_count = 0;
    if (old_count) llvm->LLVMGetMDNodeOperands(old, olds);
    for (unsigned i = 1; i < old_count; i++)
        if (olds[i] && !is_hint(llvm, olds[i], family, 0) && !is_hint(llvm, olds[i], MARK, 0))
            operands[number++] = llvm->LLVMValueAsMetadata(olds[i]);
    for (int64 i = 0; i < count; i++)
        operands[number++] = sized_hint(llvm, context, hints[i].name, hints[i].number, (unsigned)hints[i].bits);
    if (old && !mark) parts[1] = llvm->LLVMValueAsMetadata(old);
    operands[number++] = mark ? llvm->LLVMValueAsMetadata(mark)
                              : llvm->LLVMMDNodeInContext2(context, parts, parts[1] ? 2 : 1);
    ref node = llvm->LLVMMDNodeInContext2(context, operands, number);
    llvm->LLVMMetadataReplaceAllUsesWith(self, node);
    return llvm->LLVMMetadataAsValue(context, node);
}

/* Marks the loop with this number by at most 4 hints in place of those of their family, or, if `family` is null, gives
   it its original node again. Returns whether there is such a loop. */
EXPORT int64 aiocg_hint_loop(const struct Llvm *llvm, ref function, struct Graph *graph, struct Loop *loops,
                             int64 number, const char *family, const struct Hint *hints, int64 count) {
    ref context = llvm->LLVMGetModuleContext(llvm->LLVMGetGlobalParent(function)), node = 0;
    unsigned kind = loop_kind(llvm, context);
    if (number >= find_loops(llvm, graph, function, loops)) return 0;
    int64 head = loops[number].header, first = graph->first_predecessor[head], latches = 0;
    for (int64 e = first; e < graph->first_predecessor[head + 1]; e++) {
        if (!is_back_edge(graph, graph->predecessor[e], head)) continue;
        ref branch = llvm->LLVMGetBasicBlockTerminator(graph->block[graph->predecessor[e]]);
        ref found = llvm->LLVMGetMetadata(branch, kind);
        node = latches++ && found != node ? 0 : found; /* LLVM ignores nodes that differ */
    }
    ref mark = mark_of(llvm, node);
    if (family) node = marked_node(llvm, context, node, family, hints, count);
    else if (mark) node = original_of(llvm, mark);
    else return 1;
    for (int64 e = first; e < graph->first_predecessor[head + 1]; e++) {
        if (!is_back_edge(graph, graph->predecessor[e], head)) continue;
        llvm->LLVMSetMetadata(llvm->LLVMGetBasicBlockTerminator(graph->block[graph->predecessor[e]]), kind, node);
    }
    return 1;
}

/* Gives all marked loops of a module their original nodes again. */
EXPORT void aiocg_unhint_loops(const struct Llvm *llvm, ref module) {
    unsigned kind = loop_kind(llvm, llvm->LLVMGetModuleContext(module));
    FOR_FUNCTIONS(function, module) FOR_BLOCKS(block, function) {
        ref branch = llvm->LLVMGetBasicBlockTerminator(block);
        ref mark = branch ? mark_of(llvm, llvm->LLVMGetMetadata(branch, kind)) : 0;
        if (mark) llvm->LLVMSetMetadata(branch, kind, original_of(llvm, mark));
    }
}
