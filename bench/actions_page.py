"""Writes the action reference: `python -m bench.actions_page > docs/actions.md`."""

from collections.abc import Iterator, Mapping

from aiocg.transport.codegen_options import CHOICES
from aiocg.workers.llvm._codegen_options import SMALLER
from aiocg.workers.llvm._passes import (
    ENTRIES,
    ENTRIES_OF,
    EXCLUSIONS,
    FLAGS,
    MACROS,
    PARAMETRIZED,
    REFUSED,
    SEQUENCES,
    WITHOUT_EQUIVALENT,
    Entry,
    Parametrized,
)
from aiocg.workers.llvm._pipeline_text import OPTIONS
from aiocg.workers.llvm._vocabulary import DECISIONS

LEVELS = {
    "Passes over the module": ENTRIES_OF["module"],
    "Passes over the call graph, bottom up": ENTRIES_OF["cgscc"],
    "Passes over each function": ENTRIES_OF["function"],
    "Passes over each loop": ENTRIES_OF["loop"],
}

INTRODUCTION = """\
# Actions of the LLVM environment

An action is a text in one small language, and an action space is a selection of such texts. `aiocg describe llvm-v0`
lists the spaces that the library in use has; what it lacks is left out.

| space | an action is |
|---|---|
| `Passes` | one of the passes below; the default |
| `PassesLegacy124` | one of CompilerGym's 124 flags, in CompilerGym's order, which is today's pass of that job |
| `Pipelines` | a macro action: a whole optimisation level, or a pipeline that does one job |
| `ParametrizedPasses` | a pass with a choice for each of its parameters, or an optimisation level with options |
| `FunctionPasses` | a function of the program, and a pass to run on that function only (LLVM 20 and later) |
| `LoopUnroll` | a loop of the program, and how often to unroll it (LLVM 20 and later) |
| `CallDecisions` | a call, and whether the passes that come later inline it |
| `LoopDecisions` | a loop, and how they unroll, vectorise, interleave or distribute it |
| `BranchDecisions` | a branch, and how likely they take it to be |
| `FunctionDecisions` | a function, and whether they take it to be hot or cold, or keep all calls of it |
| `PipelineText` | any text of the language |

## The language

| text | meaning |
|---|---|
| `gvn` | a pass by its name in the tables below: the same pass, run soundly, in every release of LLVM |
| `function(sroa,loop-mssa(licm),gvn)` | a pipeline, as `opt -passes=` takes it; inside of one, names are LLVM's own |
| `{{inliner-threshold=50;loop-unrolling=0}}default<O2>` | options of LLVM's pass builder, and a pipeline |
| `@main(sroa)`, `@"odd name"(gvn)` | a pass by its name, or a pipeline over functions, on one function |
| `@main(sroa,gvn)@parse(licm)` | passes on several functions, each its own; each function is named once |
| `@main(inline<@parse;@next>,sroa)` | calls of two functions in `main` inlined, then passes on it, if any |
| `mark<minsize>`, `mark<optsize>` | mark all functions for size, as `clang -Oz` and `-Os` do |
| `mark<speed>` | mark no function for size, as `clang -O2` and `-O3` do. This and `mark<optsize>` stay when \
functions are marked `minsize` later, by an action or for a measure |
| `mark<minsize;frame-pointer>`, `mark<optsize;frame-pointer>` | the same, with frame pointers, as by \
`-fno-omit-frame-pointer`; without in programs whose inline assembly or calls may use that register otherwise |
| `@main(sroa,mark<optsize>)` | passes on one function, if any, and then a mark of its own, which those of all do not \
change |
| `@main:@parse:1(mark<noinline>)` | the second call of `parse` in `main` [marked](#decisions) for the pipeline that \
comes later: `alwaysinline`, `noinline`, or `none` to take our mark back |
| `@main:2(mark<unroll=4>)` | a loop marked so: {loop_marks} |
| `@main:branch:3(mark<likely>)` | a conditional branch marked so: `likely` to go where it goes if its condition is \
true, `unlikely`, `unpredictable`, `none` |
| `@parse(mark<cold>)` | a function marked so: `hot`, `cold`, `noinline`, `none`; may come after passes, too |
| `@main:@parse:1(mark<noinline>)@main:2(mark<unroll=full>)` | any number of calls, loops and branches, each marked |
| `mark<none>` | all these marks taken back; those for size stay |
| `codegen<size>`, `codegen<size;disable-lsr=false>` | [options of the code generator]\
(#options-of-the-code-generator) for the whole program, in place of those that it carries |
| `@main:2(unroll<4>)`, `@main:2(unroll<full>)` | the loop of a function that has this number, unrolled |
| the empty text | nothing |

A text is checked before it is applied: LLVM refuses what it does not know, and its words are in the error. Inside of a
pipeline write `instcombine<no-verify-fixpoint>`: without, LLVM since release 18 ends the process when the pass does not
come to rest.

Names of functions are quoted and escaped as in LLVM's assembly, and the observation `Functions` lists them. `Loops`
lists the loops, and `LoopFeatures` what they are like: the natural loops of a function are numbered from 0 in the order
of their headers in the function's text. An action on what the program does not have is an error and changes nothing.

`inline<...>` inlines direct calls where LLVM can, never of functions marked `noinline`. Calls within what is copied
stay. The observation `Calls` lists the pairs of functions that there are to choose from. The functions stay too; where
nobody calls them any more, `globaldce` removes them.

Unrolling makes that many copies of the body, with a loop behind for remaining iterations where LLVM cannot rule them
out. No other loop is unrolled, the hints on loops are what they were, and where LLVM cannot unroll nothing changes.

The options of the pass builder say how LLVM builds a pipeline, so they act on `default<O2>`, on
`scc-oz-module-inliner` and their like, and not on a pass that is named itself: `cgscc(inline)` has its own threshold.

{options}

## Decisions

Which calls are inlined, and what becomes of a loop, LLVM decides inside of a pipeline such as `clang<Oz>` or
`default<O2>`. These marks decide it beforehand: they are attributes of calls and functions, hints of loops and weights
of branches, as a person writes them in the source, and any pipeline that comes later obeys where it can.

`CallSites` lists the calls that may be decided, `CallSiteFeatures` what they are like, and `InlinedByOz` what
`clang -Oz` does with them. The calls of a pair of functions are numbered from 0 in the order of the caller's text. Not
among them are calls of a function to itself, those that the source decides (`always_inline`, `noinline`), those of
functions that the linker may replace (`weak`), and those between functions for different targets or sanitizers, which
LLVM would inline wrongly if told to. A call that LLVM cannot inline, as of a function with variable arguments, stays.
`alwaysinline` is not the same as what the inliner does by itself: LLVM inlines such calls before it simplifies.

`Branches` lists the conditional branches of which the source says nothing, numbered from 0 in the order of the text.

A mark takes the place of our last one of its kind, and of what the source said of a loop in that respect. `none`
brings back what was there. In the object file there is nothing of a mark but its effect.

## Options of the code generator

After all passes, LLVM's code generator still decides in which order blocks stand, how loops step, what is hoisted and
what is spilled. It has options for that, which clang takes as `-mllvm -NAME=VALUE`, and the action `codegen<...>`
chooses them. The program carries them as metadata: all observations of object code are with them, and so are the
objects, assembly and executables that aiocg writes. **Other tools ignore the metadata**: who generates code for the
bitcode with clang has to pass the options, which the observation `CodegenOptions` lists and `aiocg search` prints.

`size` stands for the values in the last column, as far as the release has the option; what comes later in the text
counts. Only options that choose between pieces of code that do the same are taken.

{codegen}

## Texts that are refused

A pipeline may run any pass that LLVM has, those too that are in no space, except for these. `*` stands for any text.

{refused}

`licm` and `lnicm` outside of `loop-mssa(...)` are refused too: LLVM would end the process at the first loop.

"""

PASSES = """\
# Passes

The table has {actions} passes for LLVM 14 to 23; the space `Passes` is what the loaded libLLVM has of them, sorted by
name, so that indexes are stable for one release. Every name is also accepted with a dash in front (`-mem2reg`), and so
are the flags of LLVM 10 that CompilerGym used. A flag in the second column is that very pass. One marked with ~ is gone
from LLVM or excluded below, and the action does the same job.
"""

MACRO = """\
# Macro actions

The space `Pipelines`. Those called `oz-` are what `default<Oz>` is made of. In releases before 22 a pipeline goes
without the passes that the release does not have.
"""

PARAMETERS = """\
# Passes with parameters

The space `ParametrizedPasses`. Each parameter, between semicolons, is left alone or gets one of the choices listed.
What the loaded library does not take is left out, and so is a pass without any choice.
"""

EXCLUDED = """\
## Passes that are not in the space
"""

LEGACY = """\
## Flags of CompilerGym that no pass has

Of CompilerGym's {flags} flags, {kept} are one of the passes above. The others do nothing in `PassesLegacy124`, except
where a pipeline does their job.
"""


def render() -> str:
    """Return the reference as Markdown."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield INTRODUCTION.format(
        options="\n".join(_options()),
        codegen="\n".join(_codegen()),
        refused="\n".join(_patterns(REFUSED)),
        loop_marks=", ".join(f"`{mark}`" for mark in DECISIONS["LoopDecisions"][2]),
    )
    yield PASSES.format(actions=len(ENTRIES))
    for title, entries in LEVELS.items():
        yield f"## {title}\n"
        yield "| action | LLVM 10 | what it does |\n|---|---|---|"
        yield from (_row(entry) for entry in sorted(entries))
        yield ""
    yield EXCLUDED
    yield from _patterns(EXCLUSIONS)
    yield "\n" + LEGACY.format(flags=len(FLAGS), kept=len(FLAGS) - len(SEQUENCES) - len(WITHOUT_EQUIVALENT))
    yield "| flag | why |\n|---|---|"
    for flag, pipeline in SEQUENCES.items():
        yield f"| {_code('-' + flag)} | was removed; {_code(pipeline)} does its job |"
    for flag, reason in WITHOUT_EQUIVALENT.items():
        yield f"| {_code('-' + flag)} | {reason} |"
    yield "\n" + MACRO
    yield "| action | what it does | pipeline |\n|---|---|---|"
    for macro in MACROS:
        yield f"| {_code(macro.name)} | {macro.description} | {_code(macro.pipeline)} |"
    yield "\n" + PARAMETERS
    yield "| action | what it does | text | choices |\n|---|---|---|---|"
    for entry in PARAMETRIZED:
        yield f"| {_code(entry.name)} | {entry.description} | {_code(entry.text)} | {_choices(entry)} |"
    yield ""


def _options() -> Iterator[str]:
    yield "| option | value | what it does |\n|---|---|---|"
    for name, option in OPTIONS.items():
        yield f"| {_code(name)} | {'0 or 1' if option.boolean else 'a number'} | {option.description} |"


def _codegen() -> Iterator[str]:
    yield "| option | values, LLVM's own first | `size` |\n|---|---|---|"
    for name, values in CHOICES.items():
        yield f"| {_code(name)} | {_code(*values)} | {_code(SMALLER[name]) if name in SMALLER else ''} |"


def _patterns(reasons: Mapping[str, list[str]]) -> Iterator[str]:
    yield "| why | passes |\n|---|---|"
    for reason, patterns in reasons.items():
        yield f"| {reason} | {_code(*patterns)} |"


def _choices(entry: Parametrized) -> str:
    """List the choices of each parameter; the numbers that one accepts follow its name."""
    found = []
    for choices in entry.parameters.values():
        names = [choice for choice in choices if choice]
        name, _, number = names[0].partition("=")
        numbers = ", ".join(choice.partition("=")[2] for choice in names)
        always = "" if "" in choices else "always "
        found.append(f"`{name}=` {numbers}" if number else always + _code(*names))
    return "; ".join(found)


def _row(entry: Entry) -> str:
    flags = [f"`-{flag}`" for flag in entry.flags]
    if entry.name in FLAGS and entry.name not in WITHOUT_EQUIVALENT:
        flags.insert(0, f"`-{entry.name}`")
    flags += [f"~ `-{flag}`" for flag in entry.similar]
    return f"| `{entry.name}` | {', '.join(flags)} | {entry.description} |"


def _code(*texts: str) -> str:
    return ", ".join(f"`{text}`" for text in texts)


if __name__ == "__main__":
    print(render(), end="")
