"""The language of actions: names of edits, and command lines that set all options at once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiocg.transport.messages import ActionSpaceSpec, ActionSpec, FailureCode
from aiocg.transport.options import UNSET, Option, OptionReader, UnknownOption
from aiocg.workers.compilation import CompilationError

_FEW = 10  # options with at least this many choices are changed in steps
_STEPS = ((10, 1), (50, 10), (500, 100), (5000, 1000))  # pairs: minimal number of choices, step


class _Edit(NamedTuple):
    """An action on option number `option`: set it to `choice`, or move it by `step` choices if that is not 0."""

    action: ActionSpec
    option: int
    last: int  # the option's last choice
    choice: int = UNSET
    step: int = 0


def edits(options: Iterable[Option]) -> tuple[_Edit, ...]:
    """Return all edits in the order of the options; names are unique."""
    found = []
    for index, option in enumerate(options):
        if len(option) < _FEW:
            for choice in range(len(option)):
                found.append(_Edit(ActionSpec(option.word(choice), option.description), index, len(option) - 1, choice))
            continue
        for least, step in _STEPS:
            for signed in (step, -step) if len(option) >= least else ():
                action = ActionSpec(f"{option.name}[{signed:+}]", option.description)
                found.append(_Edit(action, index, len(option) - 1, step=signed))
    return tuple(found)


def apply(edit: _Edit, choices: Sequence[int]) -> tuple[int, ...]:
    """Return the choices after an edit, equal to those before if it has no effect.

    A step stops at the last choice or, downwards, at `UNSET`.
    """
    before = choices[edit.option]
    after = min(max(before + edit.step, UNSET), edit.last) if edit.step else edit.choice
    return (*choices[: edit.option], after, *choices[edit.option + 1 :])


NAME = "gcc"  # the first word of a command line that is an action


class Language(NamedTuple):
    """The language of actions for one compiler's options."""

    options: tuple[Option, ...]
    edits: tuple[_Edit, ...]
    by_name: Mapping[str, _Edit]
    reader: OptionReader

    @staticmethod
    def of(options: tuple[Option, ...]) -> "Language":
        """Return the language of some options."""
        made = edits(options)
        return Language(options, made, {edit.action.name: edit for edit in made}, OptionReader(options))

    def find(self, action: Any) -> _Edit | None:
        """Return the edit with a name or an index; None for any other text.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if the action is neither an index nor a text.
        """
        if isinstance(action, str):
            return self.by_name.get(action)
        if type(action) is not int or not 0 <= action < len(self.edits):
            raise _unknown(f"{action!r} is not an action: expected an index from 0 to {len(self.edits) - 1}, or a text")
        return self.edits[action]

    def read(self, line: str) -> tuple[int, ...]:
        """Parse a command line into choices.

        Raises:
            CompilationError: with `FailureCode.ACTION_UNKNOWN` if it is not one.
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
