"""The actions of the LLVM environment: every pass of the new pass manager that is worth taking as a step.

A name is the current LLVM spelling of the pass. `texts` are the pipelines that run it, best first, for passes that
older releases spell differently or that need another pass: `chr` reads a profile summary that nothing else would
compute. Flags are LLVM 10's spellings, as CompilerGym used them, if they differ from the name.
"""

from typing import NamedTuple


class Entry(NamedTuple):
    """One action, before it is matched with the loaded library.

    Attributes:
        name: the current pipeline text.
        description: what the pass does, in one line.
        texts: pipelines to try, of which the first accepted one is used; empty for the name itself.
        flags: LLVM 10 flags for the same pass under an older name.
        similar: LLVM 10 flags whose pass is gone or excluded, and which this pass replaces.
    """

    name: str
    description: str
    texts: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    similar: tuple[str, ...] = ()


_ARITHMETIC = "switch-to-arithmetic;"  # since LLVM 22
_LATE = "no-keep-loops;hoist-common-insts;sink-common-insts"


def _simplifycfg(description: str, first: str, last: str) -> Entry:
    """Return an entry for options, one of which older releases lack, between `first` and `last`."""
    texts = tuple(f"simplifycfg<{first}{middle}{last}>" for middle in (_ARITHMETIC, ""))
    return Entry(texts[0], description, texts)


MODULE = (
    Entry("always-inline", "Inline the functions that are marked alwaysinline, and nothing else"),
    Entry(
        "attributor-light",
        "Deduce attributes to a fixpoint over the module, the cheaper ones only",
        similar=("attributor",),
    ),
    Entry("called-value-propagation", "Note at indirect calls which functions they can reach"),
    Entry("canonicalize-aliases", "Make every alias point straight at a named global"),
    Entry("constmerge", "Merge identical constant globals"),
    Entry("coro-cleanup", "Lower what coroutine intrinsics are left at the end"),
    Entry("coro-early", "Lower the coroutine intrinsics that hide a coroutine's structure from other passes"),
    Entry("cross-dso-cfi", "Emit the control-flow check function that other shared objects call"),
    Entry("deadargelim", "Drop arguments and return values that nobody uses"),
    Entry("elim-avail-extern", "Turn definitions that another file provides back into declarations"),
    Entry("forceattrs", "Set the function attributes that were forced by an option of LLVM"),
    Entry("global-merge", "Lay small globals out in one, so that they share a base address"),
    Entry("global-merge-func", "Share one body between functions that differ in constants only"),
    Entry("globaldce", "Delete globals and functions that nothing reaches"),
    Entry("globalopt", "Shrink, localise, mark constant or evaluate at compile time what is internal to the module"),
    Entry("globalsplit", "Split aggregates of virtual tables into one global per part"),
    Entry("hotcoldsplit", "Move cold regions out of functions into functions of their own"),
    Entry("inferattrs", "Give declarations of well-known library functions the attributes they have"),
    Entry("inliner-wrapper", "Inline mandatory calls first, then by cost, retrying calls that became direct"),
    Entry("ipsccp", "Propagate constants and ranges through the whole module", similar=("ipconstprop",)),
    Entry(
        "ipsccp<func-spec>",
        "Propagate constants through the module and clone functions for constant arguments",
        texts=("ipsccp<func-spec>", "function-specialization"),
    ),
    Entry("iroutliner", "Move repeated stretches of similar code into one shared function"),
    Entry("mergefunc", "Merge functions with equal bodies"),
    Entry("module-inline", "Inline by cost over the whole module, best call first"),
    Entry("name-anon-globals", "Name the globals that have none"),
    Entry("openmp-opt", "Simplify OpenMP runtime calls and parallel regions over the module"),
    Entry("partial-inliner", "Inline the early exits of a function and outline the rest of it"),
    Entry("rel-lookup-table-converter", "Turn tables of pointers into tables of relative offsets"),
    Entry("rewrite-statepoints-for-gc", "Make relocations explicit in functions that a collector manages"),
    Entry("rpo-function-attrs", "Deduce norecurse from the callers, top down", flags=("rpo-functionattrs",)),
    Entry("strip", "Remove the names of values and all debug information"),
    Entry("strip-dead-prototypes", "Remove declarations that nothing uses"),
    Entry("strip-debug-declare", "Remove the debug records that say where a variable is stored"),
    Entry("strip-nondebug", "Remove names, except what debug information needs"),
)

CALL_GRAPH = (
    Entry("argpromotion", "Pass by value what a function only loads through a pointer argument"),
    Entry("attributor-light-cgscc", "Deduce the cheaper attributes within each cycle of the call graph"),
    Entry("coro-annotation-elide", "Call the heap-free form of a coroutine where the caller is annotated as safe"),
    Entry("coro-split", "Split coroutines into their start, resume and destroy functions"),
    Entry("function-attrs", "Deduce attributes such as readonly and nounwind, bottom up", flags=("functionattrs",)),
    Entry(
        "function-attrs<skip-non-recursive-function-attrs>",
        "Deduce attributes of recursive functions, and of arguments elsewhere",
    ),
    Entry("inline", "Inline bottom up where the cost model says it pays", texts=("cgscc(inline)",)),
    Entry("openmp-opt-cgscc", "Simplify OpenMP runtime calls within each cycle of the call graph"),
)

FUNCTION = (
    Entry("adce", "Delete all code that no effect depends on, assuming code dead until proven live"),
    Entry("add-discriminators", "Number the blocks that share a source line, for profiles"),
    Entry("aggressive-instcombine", "Combine instruction patterns that take a wider search than instcombine's"),
    Entry("alignment-from-assumptions", "Raise the alignment of accesses to what assumptions promise"),
    Entry("bdce", "Delete or narrow computations whose bits nobody reads"),
    Entry("break-crit-edges", "Put a block on every edge from a branching block to a merging one"),
    Entry("callsite-splitting", "Split a call by what each predecessor knows about its arguments"),
    Entry(
        "chr",
        "Merge branches that a profile shows to go the same way into one test",
        texts=("require<profile-summary>,function(chr)",),
    ),
    Entry("consthoist", "Hoist expensive constants to one place and derive the others from them"),
    Entry("constraint-elimination", "Remove comparisons that follow from dominating conditions"),
    Entry("coro-elide", "Allocate a coroutine's frame on the caller's stack where its life ends there"),
    Entry("correlated-propagation", "Simplify values by what dominating branches imply about them"),
    Entry("dce", "Delete instructions whose results are unused", similar=("die",)),
    Entry("dfa-jump-threading", "Thread the jumps of a state machine that a switch in a loop drives"),
    Entry("div-rem-pairs", "Bring a division and its remainder together, or split them, as the target prefers"),
    Entry("drop-unnecessary-assumes", "Drop assumptions that no further optimisation can use"),
    Entry("drop-unnecessary-assumes<drop-deref>", "Drop unused assumptions, those of dereferenceability too"),
    Entry("dse", "Delete stores that are overwritten before they are read"),
    Entry("early-cse", "Reuse earlier equal computations, in one walk of the dominator tree"),
    Entry(
        "early-cse<memssa>", "Reuse earlier equal computations, with MemorySSA for loads", flags=("early-cse-memssa",)
    ),
    Entry("ee-instrument", "Insert the entry and exit calls that function attributes ask for, before inlining"),
    Entry(
        "ee-instrument<post-inline>",
        "Insert the entry and exit calls that function attributes ask for after inlining",
        flags=("post-inline-ee-instrument",),
    ),
    Entry("expand-reductions", "Expand reductions of vectors into shuffles and scalar operations"),
    Entry("fix-irreducible", "Give every cycle of the control-flow graph one header"),
    Entry(
        "flatten-cfg",
        "Flatten if-regions into one condition",
        texts=("flatten-cfg", "flattencfg"),
        flags=("flattencfg",),
    ),
    Entry("float2int", "Do in integers what floating point computes exactly"),
    Entry("guard-widening", "Let one guard check what later guards would check"),
    Entry("gvn", "Number values to remove redundant computations and loads, partial ones too"),
    Entry("gvn<no-load-pre>", "Number values, without partial redundancy of loads"),
    Entry("gvn<no-pre>", "Number values, full redundancies only"),
    Entry("gvn-hoist", "Hoist computations that occur on every path to where the paths divide"),
    Entry("infer-address-spaces", "Replace generic address spaces by specific ones"),
    Entry("infer-alignment", "Raise the alignment of loads and stores to what is known of the pointer"),
    Entry("inject-tli-mappings", "Note at calls which vector forms of a library function exist"),
    Entry(
        "instcombine",
        "Rewrite instructions into fewer and simpler ones",
        texts=("instcombine<no-verify-fixpoint>", "instcombine"),
    ),
    Entry("instnamer", "Name the values that have no name"),
    Entry("instsimplify", "Replace instructions by existing values and folded constants", similar=("constprop",)),
    Entry("irce", "Split a loop so that its main part needs no range checks"),
    Entry("jump-table-to-switch", "Turn calls through a small table of functions into a switch"),
    Entry("jump-threading", "Send predecessors straight to where a known condition leads"),
    Entry("lcssa", "Close the values of loops with phi nodes at their exits"),
    Entry("libcalls-shrinkwrap", "Guard calls of mathematical functions that matter only for their errors"),
    Entry("load-store-vectorizer", "Join adjacent loads and stores into vector accesses"),
    Entry("loop-data-prefetch", "Insert prefetches for strided accesses, where the target asks for them"),
    Entry("loop-distribute", "Split a loop so that the part without dependences can be vectorised"),
    Entry("loop-fusion", "Fuse neighbouring loops that run equally often"),
    Entry("loop-load-elim", "Forward stored values to loads of the next iteration"),
    Entry("loop-simplify", "Give loops a preheader, a single back edge and exits of their own"),
    Entry("loop-sink", "Sink loop invariants from the preheader into cold blocks of the loop"),
    Entry("loop-unroll", "Unroll loops, fully, partly or by peeling, as the cost model of -O2 says"),
    Entry("loop-unroll<O3>", "Unroll loops as the cost model of -O3 says"),
    Entry("loop-vectorize", "Vectorise and interleave innermost loops"),
    Entry("loop-versioning", "Add a copy of a loop for the case that its pointers do not overlap"),
    Entry(
        "lower-atomic",
        "Make atomic operations plain: sound in single-threaded programs only",
        texts=("lower-atomic", "loweratomic"),
        flags=("loweratomic",),
    ),
    Entry("lower-constant-intrinsics", "Decide the intrinsics that ask whether a value or size is known"),
    Entry("lower-expect", "Turn expectations about values into branch weights"),
    Entry("lower-guard-intrinsic", "Turn guards into branches to deoptimisation"),
    Entry(
        "lower-invoke",
        "Turn invokes into calls: exceptions are no longer caught",
        texts=("lower-invoke", "lowerinvoke"),
        flags=("lowerinvoke",),
    ),
    Entry("lower-matrix-intrinsics", "Lower matrix intrinsics to vector operations"),
    Entry("lower-matrix-intrinsics<minimal>", "Lower matrix intrinsics without fusing or optimising them"),
    Entry(
        "lower-switch",
        "Turn switches into trees of branches",
        texts=("lower-switch", "lowerswitch"),
        flags=("lowerswitch",),
    ),
    Entry("lower-widenable-condition", "Take widenable conditions to be true"),
    Entry("make-guards-explicit", "Turn guards into branches on widenable conditions"),
    Entry("mem2reg", "Promote stack slots that are only loaded and stored to values"),
    Entry("memcpyopt", "Shorten chains of memory copies and merge stores into memset"),
    Entry("mergeicmps", "Turn chains of comparisons of neighbouring fields into memcmp"),
    Entry("mergereturn", "Give every function a single return"),
    Entry("mldst-motion", "Move equal loads and stores of both arms of a branch to its ends"),
    Entry("mldst-motion<split-footer-bb>", "Move equal loads and stores of both arms, splitting the join if needed"),
    Entry("move-auto-init", "Move automatic initialisation of variables nearer to their use"),
    Entry("nary-reassociate", "Regroup chains of additions so that parts computed already are reused"),
    Entry("newgvn", "Number values with the optimistic algorithm; rarely miscompiles, or ends otherwise the next time"),
    Entry("partially-inline-libcalls", "Inline the fast path of library calls such as sqrt"),
    Entry("pgo-memop-opt", "Specialise memory operations for the sizes that a profile shows"),
    Entry("reassociate", "Rank and regroup operands so that constants and invariants come together"),
    Entry("redundant-dbg-inst-elim", "Remove debug records that say nothing new"),
    Entry("reg2mem", "Demote values that cross blocks to stack slots"),
    Entry("scalarize-masked-mem-intrin", "Expand masked loads, stores, gathers and scatters into branches"),
    Entry("scalarizer", "Split vector operations into scalar ones"),
    Entry("scalarizer<load-store>", "Split vector operations into scalar ones, loads and stores too"),
    Entry("sccp", "Propagate constants along the paths that can be taken"),
    Entry("separate-const-offset-from-gep", "Split constant offsets off address computations"),
    Entry(
        "separate-const-offset-from-gep<lower-gep>",
        "Split constant offsets off addresses and lower those to arithmetic",
    ),
    Entry("simplifycfg", "Merge blocks, fold branches and form selects"),
    Entry(
        "simplifycfg<switch-range-to-icmp>", "Simplify control flow and turn switches over one range into a comparison"
    ),
    _simplifycfg(
        "Simplify control flow and share equal code of the two arms of a branch",
        "switch-range-to-icmp;",
        "hoist-common-insts;sink-common-insts",
    ),
    _simplifycfg(
        "Simplify control flow with all that is allowed late: lookup tables, lost loop shape",
        "forward-switch-cond;switch-range-to-icmp;",
        f"switch-to-lookup;{_LATE}",
    ),
    _simplifycfg(
        "Simplify control flow as the last step does: make accesses and selects conditional",
        "switch-range-to-icmp;",
        "hoist-loads-stores-with-cond-faulting;speculate-unpredictables",
    ),
    Entry("sink", "Sink instructions to the blocks that use them"),
    Entry("slp-vectorizer", "Vectorise similar scalar operations that stand side by side"),
    Entry("slsr", "Compute related products from each other instead of afresh"),
    Entry("speculative-execution", "Hoist cheap instructions out of branches"),
    Entry("sroa", "Split aggregates on the stack and promote the parts to values", texts=("sroa<modify-cfg>", "sroa")),
    Entry("sroa<preserve-cfg>", "Split and promote aggregates without touching control flow"),
    Entry("tailcallelim", "Turn self-recursive tail calls into loops and mark the other tail calls"),
    Entry("unreachableblockelim", "Delete blocks that nothing reaches"),
    Entry("vector-combine", "Combine vector operations as the target's costs say"),
)

LOOP = (
    Entry("canon-freeze", "Move freeze instructions out of induction cycles"),
    Entry("indvars", "Bring induction variables into canonical form and compute exit values"),
    Entry("licm", "Hoist loop invariants out of loops and sink what only their exits need"),
    Entry("licm<no-allowspeculation>", "Hoist only loop invariants that are sure to execute"),
    Entry("lnicm", "Hoist out of whole loop nests"),
    Entry(
        "loop(guard-widening)",
        "Let one guard check what later guards of the loop would check",
        flags=("loop-guard-widening",),
    ),
    Entry("loop-deletion", "Delete loops that compute nothing"),
    Entry("loop-flatten", "Flatten a nest of two loops into one"),
    Entry("loop-idiom", "Turn loops into memset, memcpy, population count and the like"),
    Entry("loop-idiom-vectorize", "Turn byte-comparing loops into vector code, where the target can"),
    Entry("loop-instsimplify", "Simplify the instructions of loops to existing values"),
    Entry("loop-interchange", "Swap the loops of a nest for better locality"),
    Entry("loop-predication", "Replace guards of each iteration by one ahead of the loop"),
    Entry("loop-reduce", "Reduce the strength of address computations in loops"),
    Entry("loop-reroll", "Roll an unrolled loop up again"),
    Entry("loop-rotate", "Turn while-loops into guarded do-while-loops"),
    Entry("loop-rotate<no-header-duplication>", "Rotate loops only where nothing but the test is copied"),
    Entry("loop-simplifycfg", "Fold constant branches and merge blocks inside loops"),
    Entry("loop-term-fold", "Let another induction variable decide when the loop ends"),
    Entry("loop-unroll-and-jam", "Unroll an outer loop and fuse the copies of its inner loop"),
    Entry("loop-unroll-full", "Unroll loops of known small trip count completely"),
    Entry("loop-versioning-licm", "Add a copy of a loop without aliasing, so that more can be hoisted"),
    Entry("simple-loop-unswitch", "Move trivial invariant conditions out of loops"),
    Entry(
        "simple-loop-unswitch<nontrivial>",
        "Move invariant conditions out of loops, copying the loop",
        similar=("loop-unswitch",),
    ),
)

ENTRIES = MODULE + CALL_GRAPH + FUNCTION + LOOP
