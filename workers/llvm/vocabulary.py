"""What actions a loaded library understands: names and texts in, the engine's canonical texts out."""

import difflib
from fnmatch import fnmatchcase
from typing import Any

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm import pass_options
from aiocg.workers.llvm.action_text import ActionSyntaxError, ActionText, parse
from aiocg.workers.llvm.library import Library
from aiocg.workers.llvm.pass_exclusions import REFUSED
from aiocg.workers.llvm.passes import Pass, available, needs_memory_ssa
from aiocg.workers.llvm.pipeline_text import Element, read, walk
from aiocg.workers.llvm.probe import Probe

_REMEMBERED = 20_000  # texts; a program has few targets, so this is many episodes
_LONGEST_REMEMBERED = 2_000  # characters


class Vocabulary:
    """The actions of a library: those with a name, and every text that it takes.

    Attributes:
        passes: the actions with a name, in the order of their indexes.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        self._probe = Probe(library)
        self.passes: tuple[Pass, ...] = available(library)
        self._texts = tuple(one.pipeline for one in self.passes)
        self._by_name = {one.name: one for one in self.passes}
        self._known: dict[str, str] = {"": ""}

    def resolve(self, action: Any) -> str:
        """Return an action's canonical text, which the engine takes: equal actions have equal texts.

        Args:
            action: the index of a pass, or a text.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` when it is no action.
        """
        if type(action) is int and 0 <= action < len(self._texts):
            return self._texts[action]
        if not isinstance(action, str):
            last = len(self._texts) - 1
            raise _unknown(f"{action!r} is not an action: expected an index from 0 to {last}, or a text")
        known = self._known.get(action)
        if known is None:
            known = self._resolve(action)
            if len(action) <= _LONGEST_REMEMBERED:
                if len(self._known) >= _REMEMBERED:
                    self._known = {"": ""}
                self._known[action] = known
        return known

    def _resolve(self, text: str) -> str:
        try:
            action = parse(text)
        except ActionSyntaxError as error:
            raise _unknown(str(error)) from None
        if action.pipeline not in self._by_name and (problem := _problem(action)):
            raise _unknown(f"{text!r} is not an action: {problem}")
        if action.function is None:
            return str(self._over_module(text, action))
        if not self._library.has("LLVMRunPassesOnFunction"):
            raise _unknown(
                f"{text!r} is not an action here: LLVM {self._library.version_text} cannot run passes on one function "
                "(LLVM 20 and later can)"
            )
        return str(action if action.loop is not None else self._on_function(text, action))

    def _over_module(self, text: str, action: ActionText) -> ActionText:
        for name, value in action.options:
            if problem := pass_options.complaint(self._library, name, value):
                raise _unknown(f"{text!r} is not an action: {problem}")
        if action.pipeline in self._by_name:
            return action._replace(pipeline=self._by_name[action.pipeline].pipeline)
        if refusal := self._probe.refusal(action.pipeline, action.options):
            raise self._refused(text, refusal, action.pipeline)
        return action

    def _on_function(self, text: str, action: ActionText) -> ActionText:
        named = self._by_name.get(action.pipeline)
        if named is not None and named.on_function:
            return action._replace(pipeline=named.on_function)
        if refusal := self._probe.refusal_on_function(action.pipeline):
            if named is not None:
                refusal = f"{named.name} is no pass over functions, but over the whole module"
            raise self._refused(text, refusal, action.pipeline)
        return action

    def _refused(self, text: str, refusal: str, pipeline: str) -> CompilationError:
        """Make the error for what LLVM does not take, with names that are near to those it does not know."""
        near = {
            name: difflib.get_close_matches(name.lstrip("-"), self._by_name, n=3, cutoff=0.6)
            for name in (element.name for element, _ in walk(_elements(pipeline)))
            if name not in self._by_name and f"'{name}'" in refusal
        }
        advice = "".join(f"; near to {name!r}: {', '.join(names)}" for name, names in near.items() if names)
        return _unknown(f"{text!r} is not an action: LLVM {self._library.version_text} says: {refusal}{advice}")


def _unknown(message: str) -> CompilationError:
    return CompilationError(FailureCode.ACTION_UNKNOWN, message)


def _problem(action: ActionText) -> str | None:
    """Say what is wrong with a pipeline that LLVM would accept, or return None."""
    elements = _elements(action.pipeline)
    for element, above in walk(elements):
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
        return ()  # LLVM has better words for it
