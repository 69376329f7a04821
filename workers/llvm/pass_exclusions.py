"""The passes that are not actions, and why.

Patterns match names as in a shell. Together with the action table they cover all that `opt --print-passes` lists for
releases 14, 19 and 22. The numbers in the reasons come from two experiments: random sequences of 6 to 21 actions on 24
programs, run in two processes and compared byte by byte; and the output of 35 programs after `sroa`, the pass, and then
`dse`, or `early-cse<memssa>`, `gvn` and `licm`.

Passes that `aiocg llvm audit` blames are excluded, or `KEPT` for a reason; docs/audit.md has its tables.

A pass that is excluded from the spaces can still be named in a pipeline. Passes that may not run at all, because they
do something other than change the program, are `REFUSED`.
"""

# fmt: off
EXCLUSIONS: dict[str, tuple[str, ...]] = {
    "prints, draws, counts or checks; leaves the program as it is": (
        "aa-eval", "annotation-remarks", "count-visits", "dot-*", "func-properties-stats", "helloworld",
        "instcount", "kernel-info", "lint", "pa-eval", "print", "print-*", "print<*", "transform-warning",
        "verify", "verify<*", "view-*",
    ),
    "serves the pass manager or tests it": (
        "free-machine-function", "invalidate<all>", "no-op-*", "recompute-globalsaa", "trigger-*",
    ),
    "a pipeline of passes that are actions, not a pass": (
        "default", "extra-simple-loop-unswitch-passes", "extra-vector-passes", "fatlto-pre-link",
        "function-simplification", "lto", "lto-pre-link", "scc-oz-module-inliner", "thinlto",
        "thinlto-pre-link",
    ),
    "the inliner again: `inline` without a first round, or with a model that LLVM was not built with": (
        "inliner-ml-advisor-release", "inliner-wrapper-no-mandatory-first",
    ),
    "instruments: inserts checks, counters or probes and makes the program slower": (
        "alloc-token", "asan", "asan-module", "bounds-checking", "cfguard", "ctx-instr-*", "dfsan",
        "hwasan", "instrorderfile", "instrprof", "jmc-instrumenter", "kcfi", "lower-allow-check", "memprof",
        "memprof-module", "msan", "msan-module", "nsan", "pgo-instr-gen", "poison-checking", "pseudo-probe",
        "pseudo-probe-update", "rtsan", "safe-stack", "sancov-module", "sanmd-module", "stack-protector",
        "tsan", "tsan-module", "tysan",
    ),
    "instruments, and writes .gcno files into the working directory": (
        "insert-gcov-profiling",
    ),
    "reads or prepares a profile that an episode does not have": (
        "assign-guid", "cg-profile", "ctx-prof-flatten*", "memprof-context-disambiguation",
        "memprof-remove-attributes", "memprof-use", "pgo-force-function-attrs", "pgo-icall-prom",
        "pgo-instr-use", "prof-inject", "prof-verify", "sample-profile", "strip-dead-cg-profile",
        "synthetic-counts-propagation",
    ),
    "does nothing without an option, a file or a library that LLVM must be given": (
        "assume-builder", "assume-simplify", "expand-variadics", "function-import", "replace-with-veclib",
        "rewrite-symbols", "tlshoist",
    ),
    "belongs to linking: wants the whole program, type tests or a summary index": (
        "embed-bitcode", "fatlto-cleanup", "lowertypetests", "noinline-nonprevailing",
        "norecurse-lto-inference", "openmp-opt-postlink", "simplify-type-tests", "wholeprogramdevirt",
    ),
    "changes what the module offers to others, so that the program may no longer link": (
        "internalize",
    ),
    "cuts programs into pieces for reducing test cases": (
        "extract-blocks", "loop-extract",
    ),
    "renames or reorders only": (
        "metarenamer", "normalize",
    ),
    "adds, moves or removes debug information, remarks and declarations only": (
        "annotation2metadata", "check-debugify", "debugify", "declare-runtime-libcalls",
        "declare-to-assign", "strip-dead-debug-info", "strip-nonlinetable-debuginfo",
    ),
    "lowers for code generation and wants a target machine": (
        "atomic-expand", "codegenprepare", "complex-deinterleaving", "dwarf-eh-prepare", "expand-ir-insts",
        "expand-large-div-rem", "expand-large-fp-convert", "expand-memcmp", "hardware-loops",
        "indirectbr-expand", "interleaved-access", "interleaved-load-combine",
        "pre-isel-intrinsic-lowering", "select-optimize", "typepromotion",
    ),
    "lowers for one kind of target, object format, exception model, collector or language": (
        "callbr-prepare", "dxil-upgrade", "gc-lowering", "hipstdpar-*", "lower-emutls",
        "lower-global-dtors", "lower-ifunc", "objc-arc", "objc-arc-*", "place-safepoints",
        "shadow-stack-gc-lowering", "sjlj-eh-prepare", "strip-gc-relocates", "wasm-eh-prepare",
        "win-eh-prepare",
    ),
    "crashes or miscompiles ordinary programs, and is meant for the back ends of GPUs": (
        "structurizecfg", "unify-loop-exits",
    ),
    "miscompiles with LLVM 22: followed by `dse` or `gvn`, it made a program misbehave in 14 of 70 trials": (
        "attributor-cgscc",
    ),
    "miscompiles with LLVM 22 (10 of 70 trials), and differs between two runs (15 of 516 uses)": (
        "attributor",
    ),
    "crashes on ordinary programs with LLVM 22 (12 of 515 uses)": (
        "loop-bound-split",
    ),
    "differs between two runs on the same program with LLVM 22 (1 of 558 uses; often with LLVM 14)": (
        "gvn-sink",
    ),
    "differs between two runs on the same program with LLVM 22 (8 of 512 uses)": (
        "sandbox-vectorizer",
    ),
}

KEPT: dict[str, tuple[str, ...]] = {
    "miscompiles with LLVM 22 where it follows `gvn` and `dse`, and only there; it is an action of CompilerGym": (
        "newgvn",
    ),
}

REFUSED: dict[str, tuple[str, ...]] = {
    "it writes files into the worker's working directory, or opens a viewer": (
        "dot-*", "insert-gcov-profiling", "view-*",
    ),
    "it reads a file of the worker's machine, but a state may depend on nothing but benchmark and actions": (
        "extract-blocks", "function-import", "memprof-use", "memprof-use<*", "pgo-instr-use", "rewrite-symbols",
        "sample-profile",
    ),
    "it only prints, into the worker's output": (
        "aa-eval", "check-debugify", "helloworld", "lint", "lint<*", "pa-eval", "print", "print-*", "print<*",
    ),
    "it is there to crash the compiler": (
        "trigger-*",
    ),
    "it works on machine code, which a program has not become yet": (
        "free-machine-function", "machine-function", "machine-function<*",
    ),
}
# fmt: on

UNSTEADY = frozenset(
    name for reason, names in EXCLUSIONS.items() if "differs between two runs" in reason for name in names
)
"""Passes whose outcomes nobody should remember for others."""
