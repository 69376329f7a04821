"""The action space of CompilerGym: 124 flags of LLVM 10's pass manager, without their leading dash."""

FLAGS: tuple[str, ...] = tuple(
    """
    add-discriminators adce aggressive-instcombine alignment-from-assumptions always-inline argpromotion
    attributor barrier bdce break-crit-edges simplifycfg callsite-splitting called-value-propagation
    canonicalize-aliases consthoist constmerge constprop coro-cleanup coro-early coro-elide coro-split
    correlated-propagation cross-dso-cfi deadargelim dce die dse reg2mem div-rem-pairs early-cse-memssa
    early-cse elim-avail-extern ee-instrument flattencfg float2int forceattrs inline
    insert-gcov-profiling gvn-hoist gvn globaldce globalopt globalsplit guard-widening hotcoldsplit
    ipconstprop ipsccp indvars irce infer-address-spaces inferattrs inject-tli-mappings instsimplify
    instcombine instnamer jump-threading lcssa licm libcalls-shrinkwrap load-store-vectorizer
    loop-data-prefetch loop-deletion loop-distribute loop-fusion loop-guard-widening loop-idiom
    loop-instsimplify loop-interchange loop-load-elim loop-predication loop-reroll loop-rotate
    loop-simplifycfg loop-simplify loop-sink loop-reduce loop-unroll-and-jam loop-unroll loop-unswitch
    loop-vectorize loop-versioning-licm loop-versioning loweratomic lower-constant-intrinsics
    lower-expect lower-guard-intrinsic lowerinvoke lower-matrix-intrinsics lowerswitch
    lower-widenable-condition memcpyopt mergefunc mergeicmps mldst-motion sancov name-anon-globals
    nary-reassociate newgvn pgo-memop-opt partial-inliner partially-inline-libcalls
    post-inline-ee-instrument functionattrs mem2reg prune-eh reassociate redundant-dbg-inst-elim
    rpo-functionattrs rewrite-statepoints-for-gc sccp slp-vectorizer sroa scalarizer
    separate-const-offset-from-gep simple-loop-unswitch sink speculative-execution slsr
    strip-dead-prototypes strip-debug-declare strip-nondebug strip tailcallelim mergereturn
    """.split()  # noqa: SIM905 - 124 quoted names are harder to read
)

SEQUENCES: dict[str, str] = {
    "prune-eh": "cgscc(function-attrs),function(simplifycfg)"  # which calls may throw, and the code dead as a result
}

WITHOUT_EQUIVALENT: dict[str, str] = {
    "barrier": "does nothing: it only separated the pass managers of the old kind",
    "insert-gcov-profiling": "instruments, and writes .gcno files into the working directory",
    "loop-reroll": "was removed from LLVM between releases 14 and 19; an action where the library still has it",
    "sancov": "instruments, and does nothing unless options name a kind of coverage",
}
