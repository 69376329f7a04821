"""The action spaces of the LLVM environment: selections from the vocabulary of the loaded library."""

from collections.abc import Iterator
from contextlib import closing

from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec
from aiocg.workers.llvm import _pass_options as pass_options
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._macro_actions import spelled
from aiocg.workers.llvm._pass_table import FLAGS, MACROS, PARAMETRIZED, SEQUENCES, WITHOUT_EQUIVALENT, Parametrized
from aiocg.workers.llvm._passes import Pass, nested
from aiocg.workers.llvm._probe import Probe
from aiocg.workers.llvm.observations.decisions import BRANCHES, CALL_SITES
from aiocg.workers.llvm.observations.targets import FUNCTIONS, LOOPS

FACTORS = ("2", "3", "4", "8", "16", "full")
_NONE = {"none": "Take our mark back"}
DECISIONS = {
    "CallDecisions": (CALL_SITES, "A call, and whether the passes inline it", {
        "alwaysinline": "Inline the call, where LLVM can", "noinline": "Keep the call", **_NONE,
    }),
    "LoopDecisions": (LOOPS, "A loop, and how the passes unroll, vectorise or distribute it", {
        **{f"unroll={one}": f"Unroll the loop {one} times" for one in ("2", "4", "8")},
        "unroll=full": "Unroll the loop fully, where its trip count is known", "unroll=none": "Do not unroll the loop",
        **{f"vectorize={one}": f"Vectorise the loop by {one}, where LLVM can" for one in ("2", "4", "8", "16")},
        "vectorize=none": "Do not vectorise the loop",
        **{f"interleave={one}": f"Interleave {one} iterations of a loop that is vectorised" for one in ("2", "4")},
        "interleave=none": "Do not interleave iterations", "distribute": "Split the loop, where LLVM can", **_NONE,
    }),
    "BranchDecisions": (BRANCHES, "A branch, and how likely it goes where it goes if its condition is true", {
        "likely": "As by __builtin_expect", "unlikely": "As by __builtin_expect",
        "unpredictable": "As by __builtin_unpredictable", **_NONE,
    }),
    "FunctionDecisions": (FUNCTIONS, "A function, and how the passes treat it", {
        "hot": "Take the function to be called often", "cold": "Take it to be called seldom",
        "noinline": "Keep all calls of it", **_NONE,
        "minsize": "Mark it as clang -Oz does", "optsize": "Mark it as clang -Os does",
    }),
}  # fmt: skip
"""By space: what is decided, in words, and the marks."""


def action_spaces(library: Library, passes: tuple[Pass, ...]) -> tuple[ActionSpaceSpec, ...]:
    """Return the spaces that the library can offer. Action indexes on the wire refer to the first one.

    Args:
        library: asked which pipelines it accepts, where that is not known.
        passes: the actions of the first space.
    """
    with closing(Probe(library)) as probe:
        return (
            ActionSpaceSpec("Passes", tuple(map(_pass, passes)), description="Every pass worth taking as a step"),
            ActionSpaceSpec(
                "PassesLegacy124",
                tuple(_legacy(flag, passes) for flag in FLAGS),
                description="The 124 actions of CompilerGym, by their flags and in their order",
            ),
            ActionSpaceSpec(
                "Pipelines",
                tuple(_macros(probe, passes)),
                description="Macro actions: whole optimisation levels, and pipelines that do one job",
            ),
            ActionSpaceSpec(
                "ParametrizedPasses",
                tuple(_parametrized(library, probe)),
                "parametrized",
                "A pass and its parameters, or an optimisation level and its options",
            ),
            *(_targeted(passes) if library.has("LLVMRunPassesOnFunction") else ()),
            *(
                ActionSpaceSpec(
                    name, tuple(ActionSpec(f"mark<{one}>", what) for one, what in marks.items()), "targeted", about, at
                )
                for name, (at, about, marks) in DECISIONS.items()
            ),
            ActionSpaceSpec(
                "PipelineText",
                kind="text",
                description="Any pipeline that `opt -passes=` takes, and any other text of the language of actions",
            ),
        )


def _targeted(passes: tuple[Pass, ...]) -> Iterator[ActionSpaceSpec]:
    """Yield the spaces whose actions target one part of the program."""
    on_function = (ActionSpec(one.name, one.description, one.aliases) for one in passes if one.on_function)
    yield ActionSpaceSpec("FunctionPasses", tuple(on_function), "targeted", "A function, and a pass for it", FUNCTIONS)
    unroll = (ActionSpec(f"unroll<{factor}>", _unrolling(factor)) for factor in FACTORS)
    yield ActionSpaceSpec("LoopUnroll", tuple(unroll), "targeted", "A loop, and how often to unroll it", LOOPS)


def _unrolling(factor: str) -> str:
    return (
        "Unroll the loop fully, where its trip count is known"
        if factor == "full"
        else f"Make {factor} copies of the loop's body, with a loop behind for what remains"
    )


def _pass(one: Pass) -> ActionSpec:
    return ActionSpec(one.name, one.description, one.aliases, pipeline=one.nested)


def _legacy(flag: str, passes: tuple[Pass, ...]) -> ActionSpec:
    """Return the action for a legacy flag. If the pass is gone, the action's text is empty: it does nothing."""
    name, aliases = f"-{flag}", (flag,)
    one = next((one for one in passes if flag in (one.name, *one.aliases)), None)
    if one is not None:
        description = one.description if one.name == flag else f"`{one.name}`: {one.description}"
        return ActionSpec(name, description, aliases, one.name, pipeline=one.nested)
    if flag in SEQUENCES:
        pipeline = SEQUENCES[flag]
        return ActionSpec(name, f"gone, but `{pipeline}` does its job", aliases, pipeline, pipeline=pipeline)
    return ActionSpec(name, f"gone: {WITHOUT_EQUIVALENT.get(flag, 'this LLVM does not have it')}", aliases, "")


def _macros(probe: Probe, passes: tuple[Pass, ...]) -> Iterator[ActionSpec]:
    by_name = {one.name: one for one in passes}
    for macro in MACROS:
        pipeline = spelled(macro.pipeline, by_name)
        if probe(pipeline):
            yield ActionSpec(macro.name, macro.description, text=pipeline, pipeline=pipeline)


def _parametrized(library: Library, probe: Probe) -> Iterator[ActionSpec]:
    """Yield the actions with parameters, without the choices that the library does not accept."""
    for entry in PARAMETRIZED:
        plain = entry.text.replace("$<>", "").replace("${}", "")
        kept = (
            ActionParameter(name, tuple(choice for choice in choices if _accepts(library, probe, entry, choice)))
            for name, choices in entry.parameters.items()
        )
        parameters = tuple(parameter for parameter in kept if any(parameter.choices))
        if parameters and probe(plain):
            pipeline = nested(probe, plain).replace(plain, entry.text) if "$<>" in entry.text else ""
            yield ActionSpec(entry.name, entry.description, text=entry.text, parameters=parameters, pipeline=pipeline)


def _accepts(library: Library, probe: Probe, entry: Parametrized, choice: str) -> bool:
    if not choice:
        return True
    if "${}" in entry.text:
        name, _, value = choice.partition("=")
        return pass_options.complaint(library, name, value) is None
    return probe(entry.text.replace("$<>", f"<{choice}>"))
