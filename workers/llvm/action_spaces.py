"""The action spaces of the LLVM environment: selections from the vocabulary of the loaded library."""

from collections.abc import Iterator

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec
from aiocg.workers.llvm.legacy_flags import FLAGS, SEQUENCES, WITHOUT_EQUIVALENT
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.macro_actions import MACROS, spelled
from aiocg.workers.llvm.passes import Pass
from aiocg.workers.llvm.probe import Probe


def action_spaces(library: Library, passes: tuple[Pass, ...]) -> tuple[ActionSpaceSpec, ...]:
    """Return the spaces that the library can offer; the first is the one that indexes on the wire are of.

    Args:
        library: tried for what is not known to work.
        passes: the actions of the first space.
    """
    with Probe(library) as probe:
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
                "PipelineText",
                kind="text",
                description="Any pipeline that `opt -passes=` takes, and any other text of the language of actions",
            ),
        )


def _pass(one: Pass) -> ActionSpec:
    return ActionSpec(one.name, one.description, one.aliases, pipeline=one.nested)


def _legacy(flag: str, passes: tuple[Pass, ...]) -> ActionSpec:
    """Make the action of a flag; the text of one that is gone is empty: it does nothing."""
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
