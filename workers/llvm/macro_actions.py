"""Macro actions: pipelines for one task each, from the whole of -O3 to the parts of -Oz.

Pipelines use the names of `pass_table`. `spelled` translates one for a given library: it spells passes as that release
does and omits those that the release lacks.
"""

from collections.abc import Mapping
from typing import NamedTuple

from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.passes import Pass
from aiocg.workers.llvm.pipeline_text import Element, read, write


class Macro(NamedTuple):
    """A macro action.

    Attributes:
        name: the action's name.
        description: what it does, in one line.
        pipeline: a module pipeline, with the names of `pass_table`.
    """

    name: str
    description: str
    pipeline: str


_OZ = "part of -Oz"
_OF_INLINE = "part of the simplification in oz-inline"
_SHARING = "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-common-insts;sink-common-insts>"
_LATE = (
    "simplifycfg<forward-switch-cond;switch-range-to-icmp;switch-to-arithmetic;switch-to-lookup;no-keep-loops;"
    "hoist-common-insts;sink-common-insts>"
)
_LAST = (
    "simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-loads-stores-with-cond-faulting;"
    "speculate-unpredictables>"
)
_MEMORY_LOOPS = (
    "loop-mssa(loop-instsimplify,loop-simplifycfg,licm<no-allowspeculation>,loop-rotate<no-header-duplication>,licm,"
    "simple-loop-unswitch)"
)
_SHAPE_LOOPS = "loop(loop-idiom,indvars,simple-loop-unswitch,loop-deletion,loop-unroll-full)"
_SCALAR = (
    "sroa,early-cse<memssa>,jump-threading,correlated-propagation,simplifycfg<switch-range-to-icmp>,instcombine,"
    "aggressive-instcombine,tailcallelim,reassociate,constraint-elimination"
)
_REDUNDANCY = (
    "sroa,vector-combine,mldst-motion,gvn,sccp,bdce,instcombine,jump-threading,correlated-propagation,adce,memcpyopt,"
    "dse,move-auto-init"
)
_SIMPLIFICATION = (
    f"{_SCALAR},{_MEMORY_LOOPS},simplifycfg<switch-range-to-icmp>,instcombine,{_SHAPE_LOOPS},{_REDUNDANCY},"
    f"loop-mssa(licm),{_SHARING},instcombine"
)

MACROS = (
    *(Macro(level, f"All that LLVM does at -{level}", f"default<{level}>") for level in ("O1", "O2", "O3", "Os", "Oz")),
    Macro(
        "function-simplification",
        "Simplify every function: scalars, loops and redundancies, as -O2 does after inlining",
        f"function({_SIMPLIFICATION})",
    ),
    Macro(
        "loop-nest",
        "Bring loops into shape, hoist, unswitch, interchange, fuse, flatten, and delete dead ones",
        "function(loop-simplify,lcssa,loop-mssa(loop-rotate,licm,simple-loop-unswitch<nontrivial>),"
        "loop(loop-idiom,indvars,loop-interchange,loop-flatten,loop-deletion),loop-fusion,instcombine,simplifycfg)",
    ),
    Macro(
        "vectorize",
        "Vectorise loops and straight-line code, and clean up behind",
        "function(loop-simplify,loop(loop-rotate,indvars),loop-distribute,inject-tli-mappings,loop-vectorize,"
        f"loop-load-elim,instcombine,{_LATE},slp-vectorizer,vector-combine,instcombine,loop-mssa(licm))",
    ),
    Macro(
        "unroll",
        "Unroll loops by the cost model of -O3, and clean up behind",
        "function(loop-simplify,loop(loop-rotate,indvars,loop-unroll-full),loop-unroll<O3>,sroa,early-cse,instcombine,"
        "simplifycfg)",
    ),
    Macro(
        "clean-up",
        "Delete what is dead or repeated, in functions and in the module",
        "function(early-cse<memssa>,instcombine,simplifycfg,adce,dse),deadargelim,globalopt,globaldce,constmerge,"
        "strip-dead-prototypes",
    ),
    Macro(
        "inline-simplify",
        "Inline bottom up, simplifying each function before it is inlined into its callers",
        f"cgscc(inline,function-attrs,function({_SCALAR},simplifycfg)),globaldce",
    ),
    Macro(
        "oz-early",
        f"Promote variables and drop the obvious: {_OZ}, the first",
        "forceattrs,inferattrs,coro-early,function(lower-expect,simplifycfg,sroa,early-cse)",
    ),
    Macro(
        "oz-module",
        f"Propagate constants between functions and shrink globals: {_OZ}, the second",
        "openmp-opt,ipsccp,called-value-propagation,globalopt,"
        "function(mem2reg,instcombine,simplifycfg<switch-range-to-icmp>)",
    ),
    Macro(
        "oz-inline",
        f"Inline bottom up what makes the program smaller, simplifying each function: {_OZ}, the third",
        "always-inline,scc-oz-module-inliner",
    ),
    Macro("oz-scalar", f"Simplify scalars and control flow: {_OF_INLINE}", f"function({_SCALAR})"),
    Macro(
        "oz-loops",
        f"Rotate, hoist, recognise and delete loops: {_OF_INLINE}",
        f"function({_MEMORY_LOOPS},simplifycfg<switch-range-to-icmp>,instcombine,{_SHAPE_LOOPS})",
    ),
    Macro(
        "oz-redundancy",
        f"Number values, delete dead code and dead stores: {_OF_INLINE}",
        f"function({_REDUNDANCY},loop-mssa(licm),coro-elide,{_SHARING},instcombine)",
    ),
    Macro(
        "oz-global",
        f"Drop dead arguments and globals, deduce attributes: {_OZ}, the fourth",
        "deadargelim,coro-cleanup,globalopt,globaldce,elim-avail-extern,rpo-function-attrs",
    ),
    Macro(
        "oz-vectorize",
        f"Vectorise where it was asked for, simplify with all that is allowed late: {_OZ}, the fifth",
        "function(float2int,lower-constant-intrinsics,loop(loop-rotate<no-header-duplication>,loop-deletion),"
        "loop-distribute,inject-tli-mappings,loop-vectorize<no-interleave-forced-only;vectorize-forced-only>,"
        f"infer-alignment,loop-load-elim,instcombine,{_LATE},vector-combine,instcombine)",
    ),
    Macro(
        "oz-last",
        f"Unroll, sink, and simplify once more: {_OZ}, the last",
        "function(loop-unroll,sroa<preserve-cfg>,infer-alignment,instcombine,loop-mssa(licm),"
        f"alignment-from-assumptions,loop-sink,instsimplify,div-rem-pairs,tailcallelim,{_LAST}),"
        "globaldce,constmerge,rel-lookup-table-converter",
    ),
)

CLANG_OZ = "clang<Oz>"
"""The action that runs the passes of `clang -Oz`."""

_COMBINE = "instcombine<no-verify-fixpoint>"
# What LLVM 22.1 builds for `default<Oz>`, in the order in which it says that it runs passes, and the SLP vectoriser,
# which clang adds. A text cannot say how eager the inliner is, so the part that has it is named as a whole.
_CLANG_OZ_22 = (
    "memprof-remove-attributes,annotation2metadata,forceattrs,inferattrs,coro-early,"
    "function<eager-inv>(ee-instrument,lower-expect,simplifycfg,sroa<modify-cfg>,early-cse),"
    "openmp-opt,ipsccp,called-value-propagation,globalopt,"
    f"function<eager-inv>(mem2reg,{_COMBINE},simplifycfg<switch-range-to-icmp>),"
    "always-inline,scc-oz-module-inliner,"
    "deadargelim,coro-cleanup,globalopt,globaldce,elim-avail-extern,rpo-function-attrs,recompute-globalsaa,"
    "function<eager-inv>(drop-unnecessary-assumes,float2int,lower-constant-intrinsics,"
    "loop(loop-rotate<no-header-duplication>,loop-deletion),loop-distribute,inject-tli-mappings,"
    "loop-vectorize<vectorize-forced-only>,drop-unnecessary-assumes<drop-deref>,infer-alignment,loop-load-elim,"
    f"{_COMBINE},{_LATE},slp-vectorizer,vector-combine,{_COMBINE},loop-unroll<O2>,transform-warning,sroa<preserve-cfg>,"
    f"infer-alignment,{_COMBINE},loop-mssa(licm),alignment-from-assumptions,loop-sink,instsimplify,div-rem-pairs,"
    "tailcallelim,simplifycfg<switch-range-to-icmp;switch-to-arithmetic;hoist-loads-stores-with-cond-faulting;"
    "speculate-unpredictables>),"
    "alloc-token,globaldce,constmerge,cg-profile,rel-lookup-table-converter,function(annotation-remarks)"
)

_MANAGERS = ("cgscc", "function", "loop", "loop-mssa")
_AS_THEY_ARE = ("default", "loop-vectorize", "scc-oz-module-inliner")  # not names of `Passes`, or with parameters


def clang_oz(library: Library) -> str:
    """Return the pipeline of `CLANG_OZ`: `default<Oz>` for releases of LLVM whose pipeline is not known."""
    return _CLANG_OZ_22 if library.version[0] == 22 else "default<Oz>"


def spelled(pipeline: str, passes: Mapping[str, Pass]) -> str:
    """Translate a pipeline from the names of `pass_table` to those of one library.

    Args:
        pipeline: a module pipeline.
        passes: the library's passes, by name.
    """
    return write(_spelled(read(pipeline), passes))


def _spelled(elements: tuple[Element, ...], passes: Mapping[str, Pass]) -> tuple[Element, ...]:
    kept: list[Element] = []
    for element in elements:
        if element.name in _MANAGERS:
            if inner := _spelled(element.inner, passes):
                kept.append(Element(element.name, inner))
        elif element.name.partition("<")[0] in _AS_THEY_ARE:
            kept.append(element)
        elif element.name in passes:
            own = read(passes[element.name].pipeline)
            kept.extend(own[0].inner or own)
    return tuple(kept)
