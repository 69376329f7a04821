/* Finds the natural loops of functions, and marks one of them so that LLVM's loop unroller takes that one and no other.

   A natural loop is a block, its header, that dominates the source of an edge to it, and all blocks that reach such a
   source without passing the header. All edges to one header make one loop, as in LLVM's LoopInfo. Blocks that cannot
   be reached from the entry are in no loop. The loops of a function are numbered in the order of their headers in the
   function's text. */

#define LLVM_FUNCTIONS(X)                                            \
    X(ref, LLVMGetFirstFunction, (ref), "")                          \
    X(ref, LLVMGetNextFunction, (ref), "")                           \
    X(ref, LLVMGetFirstBasicBlock, (ref), "")                        \
    X(ref, LLVMGetNextBasicBlock, (ref), "")                         \
    X(ref, LLVMGetFirstInstruction, (ref), "")                       \
    X(ref, LLVMGetNextInstruction, (ref), "")                        \
    X(ref, LLVMGetBasicBlockTerminator, (ref), "")                   \
    X(unsigned, LLVMGetNumSuccessors, (ref), "")                     \
    X(ref, LLVMGetSuccessor, (ref, unsigned), "")                    \
    X(ref, LLVMGetModuleContext, (ref), "")                          \
    X(ref, LLVMGetGlobalParent, (ref), "")                           \
    X(ref, LLVMInt32TypeInContext, (ref), "")                        \
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
    int64 function;     /* which of the module's functions with a body; 0 when one function was asked for */
    int64 header;       /* which block of the function */
    int64 depth;        /* 1: in no other loop */
    int64 blocks;       /* with those of loops inside */
    int64 instructions; /* in those blocks */
    int64 latches;      /* blocks with an edge to the header */
};

/* What one function is worked on in; the caller owns the memory. All numbers are places of blocks in the text, except
   that `order` and `position` are reverse postorder. */
struct Graph {
    int64 blocks, edges;         /* in: how many there is room for; out, after `read_graph`: how many there are */
    ref *block;                  /* [blocks] */
    int64 *slot;                 /* [slots] hash table: 1 + number of a block, or 0 */
    int64 mask;                  /* slots - 1; slots is a power of two and at least twice `blocks` */
    int64 *first;                /* [blocks + 1] into `successor` */
    int64 *successor;            /* [edges] */
    int64 *first_predecessor;    /* [blocks + 1] into `predecessor` */
    int64 *predecessor;          /* [edges] */
    int64 *order;                /* [blocks] block at a position; `reached` of them */
    int64 *position;             /* [blocks] of a block, or NONE: cannot be reached */
    int64 *dominator;            /* [blocks] immediate dominator; the entry has itself */
    int64 *depth;                /* [blocks] how many loops a block is in */
    int64 *stack;                /* [2 * blocks] */
    int64 *stamp;                /* [blocks] 1 + the last header whose loop was found to have the block */
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

/* Lists successors, and predecessors by counting them first. */
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

/* Numbers the blocks that the entry reaches in reverse postorder. */
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

/* Is the edge into `header` from `block` one that closes a loop? */
static int is_back_edge(const struct Graph *graph, int64 block, int64 header) {
    return graph->position[block] != NONE && graph->position[header] != NONE && dominates(graph, header, block);
}

/* Counts the loop with this header, and its blocks one deeper. A block with two edges to the header is one latch. */
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

/* out: the blocks and the edges of the function that has most, and the blocks of all functions. */
EXPORT void aiocg_loop_sizes(const struct Llvm *llvm, ref module, int64 *out) {
    FOR_FUNCTIONS(function, module) measure(llvm, function, out, &out[2]);
}

EXPORT void aiocg_loop_sizes_of_function(const struct Llvm *llvm, ref function, int64 *out) {
    measure(llvm, function, out, &out[2]);
}

/* Lists the loops of a module, function by function, and returns how many; `loops` has room for one per block. */
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

/* Returns the header of a function's loop with this number, or null. */
EXPORT ref aiocg_loop_header(const struct Llvm *llvm, ref function, struct Graph *graph, struct Loop *loops,
                             int64 number) {
    return number < find_loops(llvm, graph, function, loops) ? graph->block[loops[number].header] : 0;
}

/* ---- Unrolling one loop ----

   A loop's hints are operands of a node that is attached to the branches back to its header, and whose first operand is
   the node itself. While the unroller runs, the branch of the loop to unroll and all others with such a node have one
   of ours instead, which has the number of the branch in it. The unroller copies hints that it does not know, so that
   whatever it makes of a loop can be given that loop's own node back. What has a node without a number is the loop that
   takes the remaining iterations, for which it makes a new one. */

#define TAG "aiocg.loop"
#define UNROLL "llvm.loop.unroll."
#define OPERANDS 64 /* of a node that is looked at; there are about ten kinds of hints */

static unsigned loop_kind(const struct Llvm *llvm, ref context) {
    return llvm->LLVMGetMDKindIDInContext(context, "llvm.loop", 9);
}

static ref string(const struct Llvm *llvm, ref context, const char *text) {
    size length = 0;
    while (text[length]) length++;
    return llvm->LLVMMDStringInContext2(context, text, length);
}

/* A node of a name and, unless it is negative, a number. */
static ref hint(const struct Llvm *llvm, ref context, const char *name, int64 number) {
    ref operands[2] = {string(llvm, context, name), 0};
    if (number < 0) return llvm->LLVMMDNodeInContext2(context, operands, 1);
    ref value = llvm->LLVMConstInt(llvm->LLVMInt32TypeInContext(context), (uint64)number, 0);
    operands[1] = llvm->LLVMValueAsMetadata(value);
    return llvm->LLVMMDNodeInContext2(context, operands, 2);
}

/* Does the operand of a loop's node have a name that begins so? If it does and has a number, that is stored. */
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

/* Is it a hint on unrolling, or one with the name of ours, that the program came with? */
static int is_replaced(const struct Llvm *llvm, ref operand) {
    return is_hint(llvm, operand, UNROLL, 0) || is_hint(llvm, operand, TAG, 0);
}

/* Makes a loop's node: itself, the hints of `old` (or none) but those replaced, the number, and one hint more. */
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
    llvm->LLVMMetadataReplaceAllUsesWith(self, node); /* a node that has itself as operand becomes a distinct one */
    return llvm->LLVMMetadataAsValue(context, node);
}

/* Marks the loop with this header to be unrolled `factor` times (0: fully), and keeps all others from being unrolled.
   `kept` has room for one node per block of the function and gets what branches had before. Returns the number of the
   branch that is marked, or NONE: the block heads no loop. */
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

/* Takes all marks away again: `kept` and `marked` are from `aiocg_mark_loop`. */
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
