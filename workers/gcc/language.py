"""The language of actions: the names of edits, and command lines, which set all options at once."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from aiocg.transport.messages import ActionSpaceSpec, FailureCode
from aiocg.transport.options import Option, OptionReader, UnknownOption
from aiocg.workers.compilation import CompilationError
from aiocg.workers.gcc.edits import Edit, edits

__all__ = ["NAME", "Language", "action_spaces"]

NAME = "gcc"  # the first word of a command line that is an action


class Language(NamedTuple):
    """The language of actions, as the options of a compiler make it."""

    options: tuple[Option, ...]
    edits: tuple[Edit, ...]
    by_name: Mapping[str, Edit]
    reader: OptionReader

    @staticmethod
    def of(options: tuple[Option, ...]) -> "Language":
        """Return the language of some options."""
        made = edits(options)
        return Language(options, made, {edit.action.name: edit for edit in made}, OptionReader(options))

    def find(self, action: Any) -> Edit | None:
        """Return the edit that an action is, by its name or its index; None for any other text.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` for what is neither index nor text.
        """
        if isinstance(action, str):
            return self.by_name.get(action)
        if type(action) is not int or not 0 <= action < len(self.edits):
            raise _unknown(f"{action!r} is not an action: expected an index from 0 to {len(self.edits) - 1}, or a text")
        return self.edits[action]

    def read(self, line: str) -> tuple[int, ...]:
        """Return the choices that a command line makes.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` when it is none.
        """
        first, *rest = line.split(" ")
        if first != NAME:
            raise _unknown(f"{line!r} is neither an edit of an option nor a command line, whose first word is {NAME}")
        try:
            return tuple(self.reader.read(rest))
        except UnknownOption as error:
            raise _unknown(str(error)) from None


def action_spaces(language: Language) -> tuple[ActionSpaceSpec, ...]:
    """Return the action spaces for a language."""
    options = language.options
    return (
        ActionSpaceSpec(
            "edits", tuple([edit.action for edit in language.edits]), description="changes of one option each"
        ),
        ActionSpaceSpec("choices", kind="options", options=options, description="choices for all options, in a vector"),
        ActionSpaceSpec("options", kind="mapping", description="choices for those same options, by their names"),
        ActionSpaceSpec("command_line", kind="text", description="command lines, as texts"),
    )


def _unknown(message: str) -> CompilationError:
    return CompilationError(FailureCode.ACTION_UNKNOWN, message)
