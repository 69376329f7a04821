"""Passes with parameters, and the choices for each parameter.

The first choice of a parameter is the pass's default; "" omits the parameter. `action_spaces` finds by trial which
choices a release does not accept.
"""

from typing import NamedTuple


class Parametrized(NamedTuple):
    """A pass with parameters.

    Attributes:
        name: the action's name.
        description: what it does, in one line.
        text: the action, with `$<>` where choices are inserted as `<a;b>`, or `${}` where they are inserted as `{a;b}`.
        parameters: the possible texts of each parameter, by its name.
    """

    name: str
    description: str
    text: str
    parameters: dict[str, tuple[str, ...]]


def _switch(*names: str) -> dict[str, tuple[str, ...]]:
    """Return parameters that are either present or absent; a name that begins with `no-` switches something off."""
    return {name.removeprefix("no-"): ("", name) for name in names}


def _number(name: str, *values: int) -> dict[str, tuple[str, ...]]:
    return {name: ("", *(f"{name}={value}" for value in values))}


def _pass(name: str, description: str, parameters: dict[str, tuple[str, ...]]) -> Parametrized:
    return Parametrized(name, description, f"{name}$<>", parameters)


_THRESHOLDS = _number("inliner-threshold", 0, 5, 25, 50, 75, 100, 150, 225, 325, 500, 1000, 3000)
_LEVEL_OPTIONS = {
    **_THRESHOLDS,
    **_number("loop-interleaving", 0),
    **_number("loop-unrolling", 0),
    **_number("merge-functions", 1),
}

PARAMETRIZED = (
    _pass("drop-unnecessary-assumes", "Drop assumptions that no further optimisation can use", _switch("drop-deref")),
    _pass("early-cse", "Reuse earlier equal computations", _switch("memssa")),
    _pass(
        "function-attrs",
        "Deduce attributes such as readonly and nounwind, bottom up",
        _switch("skip-non-recursive-function-attrs"),
    ),
    _pass(
        "global-merge",
        "Lay small globals out in one, so that they share a base address",
        {
            **_switch("no-group-by-use", "no-ignore-single-use", "merge-const", "merge-external"),
            **_number("max-offset", 64, 256, 1024, 4096),
        },
    ),
    _pass(
        "gvn",
        "Number values to remove redundant computations and loads",
        _switch("no-pre", "no-load-pre", "split-backedge-load-pre", "no-memdep", "memoryssa"),
    ),
    Parametrized("inline", "Inline bottom up", "cgscc(inline$<>)", _switch("only-mandatory")),
    Parametrized(
        "inline-and-simplify",
        "Inline bottom up to a threshold of cost, simplifying as -Oz does on the way",
        "${}scc-oz-module-inliner",
        _THRESHOLDS,
    ),
    _pass(
        "instcombine",
        "Rewrite instructions into fewer and simpler ones",
        {"fixpoint": ("no-verify-fixpoint",), **_number("max-iterations", 2, 4, 16)},
    ),
    _pass("ipsccp", "Propagate constants and ranges through the whole module", _switch("no-func-spec")),
    _pass("licm", "Hoist loop invariants out of loops", _switch("no-allowspeculation")),
    _pass("lnicm", "Hoist out of whole loop nests", _switch("no-allowspeculation")),
    _pass(
        "loop-rotate",
        "Turn while-loops into guarded do-while-loops",
        _switch("no-header-duplication", "prepare-for-lto"),
    ),
    _pass(
        "loop-unroll",
        "Unroll loops",
        {
            "level": ("", "O1", "O3"),
            "partial": ("", "partial", "no-partial"),
            "peeling": ("", "peeling", "no-peeling"),
            "runtime": ("", "runtime", "no-runtime"),
            "upperbound": ("", "upperbound", "no-upperbound"),
            **_number("full-unroll-max", 0, 2, 4, 8, 16, 32, 64, 128),
        },
    ),
    _pass(
        "loop-vectorize",
        "Vectorise and interleave innermost loops",
        _switch("interleave-forced-only", "vectorize-forced-only"),
    ),
    _pass(
        "mldst-motion", "Move equal loads and stores of both arms of a branch to its ends", _switch("split-footer-bb")
    ),
    _pass(
        "scalarizer",
        "Split vector operations into scalar ones",
        {**_switch("load-store", "no-variable-insert-extract"), **_number("min-bits", 8, 16, 32, 64)},
    ),
    _pass("separate-const-offset-from-gep", "Split constant offsets off address computations", _switch("lower-gep")),
    _pass("simple-loop-unswitch", "Move invariant conditions out of loops", _switch("nontrivial", "no-trivial")),
    _pass(
        "simplifycfg",
        "Merge blocks, fold branches and form selects",
        {
            **_switch(
                "forward-switch-cond",
                "switch-range-to-icmp",
                "switch-to-arithmetic",
                "switch-to-lookup",
                "no-keep-loops",
                "hoist-common-insts",
                "hoist-loads-stores-with-cond-faulting",
                "sink-common-insts",
                "no-speculate-blocks",
                "no-simplify-cond-branch",
                "speculate-unpredictables",
            ),
            **_number("bonus-inst-threshold", 0, 2, 4, 8, 16),
        },
    ),
    _pass("speculative-execution", "Hoist cheap instructions out of branches", _switch("only-if-divergent-target")),
    _pass(
        "sroa", "Split aggregates on the stack and promote the parts to values", {"cfg": ("modify-cfg", "preserve-cfg")}
    ),
    *(
        Parametrized(level, f"All that LLVM does at -{level}, with options", f"${{}}default<{level}>", _LEVEL_OPTIONS)
        for level in ("O1", "O2", "O3", "Os", "Oz")
    ),
)
