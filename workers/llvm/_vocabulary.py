"""The actions that a loaded library understands, by name and canonical text, and the action spaces among them."""

import re
from collections.abc import Iterator
from contextlib import closing
from fnmatch import fnmatchcase
from typing import Any

from aiocg.transport.messages import ActionParameter, ActionSpaceSpec, ActionSpec
from aiocg.workers.compilation import CompilationError, unknown_action
from aiocg.workers.llvm._action_text import LONG, UNMARK, ActionSyntaxError, ActionText, parse, quote, split_mark
from aiocg.workers.llvm._attributes import MARKS
from aiocg.workers.llvm._codegen_options import PREFIX, CodegenOptions
from aiocg.workers.llvm._inlining import split
from aiocg.workers.llvm._library import Library
from aiocg.workers.llvm._passes import (
    CLANG_OZ,
    FLAGS,
    MACROS,
    PARAMETRIZED,
    REFUSED,
    SEQUENCES,
    WITHOUT_EQUIVALENT,
    Parametrized,
    Pass,
    Probe,
    available,
    needs_memory_ssa,
    nested,
    spelled,
)
from aiocg.workers.llvm._pipeline_text import Element, complaint, read, walk, with_scalar_pre
from aiocg.workers.llvm.observations.decisions import BRANCHES, CALL_SITES
from aiocg.workers.llvm.observations.targets import FUNCTIONS, LOOPS

_REMEMBERED = 20_000  # texts; a program has few targets, so this lasts for many episodes


class Vocabulary:
    """The actions of a library: the named ones, and every text that it accepts.

    Attributes:
        passes: the named actions, in index order.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._probe = Probe(library)
        self._codegen = CodegenOptions(library)
        self.passes: tuple[Pass, ...] = available(library)
        self._texts = tuple(one.pipeline for one in self.passes)
        self._by_name = {one.name: one for one in self.passes}
        self.known: dict[Any, str] = {"": "", **dict(enumerate(self._texts))}

    def resolve(self, action: Any) -> str:
        """Return an action's canonical text, which the engine accepts; equal actions have equal texts.

        Args:
            action: the index of a pass, or a text.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if it is not an action.
        """
        if type(action) is int and 0 <= action < len(self._texts):
            return self._texts[action]
        if not isinstance(action, str):
            last = len(self._texts) - 1
            raise unknown_action(f"{action!r} is not an action: expected an index from 0 to {last}, or a text")
        known = self.known.get(action)
        if known is None:
            known = self._resolve(action)
            if len(action) <= LONG:
                if len(self.known) >= _REMEMBERED:
                    self.known = {"": "", **dict(enumerate(self._texts))}
                self.known[action] = known
        return known

    def _resolve(self, text: str) -> str:
        try:
            action = parse(text)
        except ActionSyntaxError as error:
            raise unknown_action(str(error)) from None
        if text in MARKS or text in (CLANG_OZ, UNMARK):
            return text
        if action.decisions:
            return str(action)
        if text.startswith(PREFIX):
            try:
                self._codegen.resolve(text)
            except ValueError as error:
                raise unknown_action(f"{text!r} is not an action: {error}") from None
            return text
        if self._library.version[0] >= 23:
            action = action._replace(pipeline=with_scalar_pre(action.pipeline))
        if action.each:
            parts = [(function, self._checked_part(function, pipeline)) for function, pipeline in action.each]
            return str(ActionText(each=tuple(parts)))
        if action.pipeline not in self._by_name and (problem := _problem(action)):
            raise unknown_action(f"{text!r} is not an action: {problem}")
        if action.function is None:
            return str(self._over_module(text, action))
        if not self._library.has("LLVMRunPassesOnFunction"):
            raise unknown_action(
                f"{text!r} is not an action here: LLVM {self._library.version_text} cannot run passes on one function "
                "(LLVM 20 and later can)"
            )
        return str(action if action.loop is not None else self._on_function(text, action))

    def _checked_part(self, function: bytes, pipeline: str) -> str:
        """Return the canonical pipeline of one of several functions; checks of its passes are cached."""
        try:
            unmarked, mark = split_mark(pipeline)
            _, rest = split(unmarked)
            elements = list(map(str, read(rest))) if rest else []
            if misplaced := next((one for one in elements if one.startswith(("mark<", "inline<"))), ""):
                raise ValueError(f"{misplaced} is for the {'end' if misplaced[0] == 'm' else 'beginning'}")
            parts = [self.resolve(f"@f({one})")[3:-1] for one in elements]
            inlined = unmarked[: len(unmarked) - len(rest)].rstrip(",")
            return ",".join(filter(None, (inlined, *parts, mark)))
        except ValueError as error:
            raise unknown_action(f"{quote(function)}({pipeline}) is not an action: {error}") from None

    def _over_module(self, text: str, action: ActionText) -> ActionText:
        for name, value in action.options:
            if problem := complaint(self._library, name, value):
                raise unknown_action(f"{text!r} is not an action: {problem}")
        if action.pipeline in self._by_name:
            return action._replace(pipeline=self._by_name[action.pipeline].pipeline)
        if refusal := self._probe.refusal(action.pipeline, action.options):
            raise self._refused(text, refusal, action.pipeline)
        return action

    def _on_function(self, text: str, action: ActionText) -> ActionText:
        named = self._by_name.get(action.pipeline)
        if named is not None and named.on_function:
            return action._replace(pipeline=named.on_function)
        if refusal := self._probe.refusal(action.pipeline, on_function=True):
            if named is not None:
                refusal = f"{named.name} is a module pass, not a function pass"
            raise self._refused(text, refusal, action.pipeline)
        return action

    def _refused(self, text: str, refusal: str, pipeline: str) -> CompilationError:
        """Return the error for text that LLVM refuses, with names similar to the unknown ones."""
        import difflib

        near = {
            name: _level(name) or difflib.get_close_matches(name.lstrip("-"), self._by_name, n=3, cutoff=0.6)
            for name in (element.name for element, _ in walk(_elements(pipeline)))
            if name not in self._by_name and f"'{name}'" in refusal
        }
        advice = "".join(f"; near to {name!r}: {', '.join(names)}" for name, names in near.items() if names)
        return unknown_action(f"{text!r} is not an action: LLVM {self._library.version_text} says: {refusal}{advice}")


def _level(name: str) -> list[str]:
    """Return the pipeline of an optimisation level as compilers spell it, such as `-O3`."""
    level = re.fullmatch(r"(?:(?:opt|clang|clang\+\+)\s+)?-{0,2}(O[0123sz])", name)
    return [f"default<{level[1]}>"] if level else []


def _problem(action: ActionText) -> str | None:
    """Return what is wrong with a pipeline that LLVM would accept, or None."""
    elements = _elements(action.pipeline)
    for element, above in walk(elements):
        if f"{element.name}<".startswith(PREFIX):
            return f"{PREFIX}...> is an action of its own, for the whole program, and no part of a pipeline"
        for reason, patterns in REFUSED.items():
            if any(fnmatchcase(element.name, pattern) for pattern in patterns):
                return f"{element.name} may not be run: {reason}"
        chosen_by_llvm = action.function is None and not above and needs_memory_ssa(elements[0].name)
        if needs_memory_ssa(element.name) and "loop-mssa" not in above and not chosen_by_llvm:
            return f"{element.name} needs MemorySSA here: write loop-mssa({element.name})"
    return None


def _elements(pipeline: str) -> tuple[Element, ...]:
    try:
        return read(pipeline)
    except ValueError:
        return ()  # LLVM's own message is better


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
        "speed": "Mark it for nothing, as clang -O2 and -O3 do",
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
        return complaint(library, name, value) is None
    return probe(entry.text.replace("$<>", f"<{choice}>"))
