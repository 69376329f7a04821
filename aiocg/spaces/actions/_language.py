"""The language of actions that a compiler understands, and its form on the wire."""

import re
from collections.abc import Iterable, Sequence
from typing import Protocol

from aiocg.datasets.source_tree import SourceTree
from aiocg.errors import InvalidAction, NotExpressible, UnknownName
from aiocg.spaces.actions._command_line import PROGRAM, ChoiceLine, choice_line
from aiocg.transport.messages import Action, ActionSpaceSpec, ActionSpec
from aiocg.transport.options import Option


class Notation(Protocol):
    """A notation of lists of actions for an external tool, such as command lines for LLVM's `opt`."""

    def write(self, texts: Sequence[str], tree: SourceTree | None = None) -> str:
        """Return actions in this notation.

        Args:
            texts: the actions.
            tree: the program's sources, which a compiler of sources names in its line.

        Raises:
            NotExpressible: when one of them has no such form.
        """

    def write_exact(self, texts: Sequence[str], tree: SourceTree | None = None) -> str:
        """Return actions for a tool that leads to exactly the environment's program; raises as `write` does."""

    def read(self, line: str) -> list[Sequence[str]]:
        """Return, for each action in this notation, the texts that it may have, the likeliest first.

        Raises:
            InvalidAction: when the line cannot be read.
        """

    def recognises(self, line: str) -> bool:
        """Return whether a line is in this notation."""

    def effects(self, texts: Sequence[str]) -> dict[str, str]:
        """Return the words of a line that may change what a program does, and how; raises as `write` does."""

    def without_effects(self, texts: Sequence[str]) -> Sequence[str]:
        """Return the actions without such words; raises as `write` does."""


_DECORATION = re.compile(
    r"^\s*(?:(?:opt|clang|clang\+\+|gcc)\s+)?-{0,2}(?:passes=)?"
)  # of a level or pass on a command line


class ActionLanguage:
    """Every action has a text; those of the compiler's first action space have an index as well, which is shorter.

    Attributes:
        actions: those of the first action space.
        names: their names, which are texts too.
        indices: the index of each name, and of each other spelling.
        notation: how lists of actions are written for other tools, None if only as a list of texts.
        line: the command lines that are texts of actions, None if there are none.
        elsewhere: for each name and text in a discrete space, the name of the first such space, and the text.
    """

    def __init__(
        self,
        first: ActionSpaceSpec,
        notation: "Notation | None" = None,
        options: Sequence[Option] = (),
        program: str = PROGRAM,
    ) -> None:
        self.actions: tuple[ActionSpec, ...] = first.actions
        self.names = tuple(action.name for action in first.actions)
        self.indices = indices_of(first.actions)
        self.notation = notation
        self.line: ChoiceLine | None = choice_line(options, program) if options else None
        self.elsewhere: dict[str, tuple[str, str]] = {}
        self.learn(first)

    def learn(self, space: ActionSpaceSpec) -> None:
        """Note where the actions of a discrete space are found."""
        for action in space.actions if space.kind == "discrete" else ():
            text = action.name if action.text is None else action.text
            for known in (action.name, text, *action.aliases):
                self.elsewhere.setdefault(known, (space.name, text))

    def encode(self, text: str) -> Action:
        """Return the form on the wire of an action given as text: the index, if it has one, so that forms are unique.

        Command lines are canonicalised. Whether any other text is an action is for the compiler to decide.

        Raises:
            InvalidAction: for a command line with a word that is no option, and for half a surrogate pair.
        """
        index = self.indices.get(text)
        if index is None and self.line is not None and self.line.begins(text):
            return self.line.canonical(text)
        if index is None and not text.isascii():
            _check_unicode(text)
        return str.__str__(text) if index is None else index  # it may be of a class of its own, such as NumPy's

    def encode_all(self, texts: Iterable[str]) -> tuple[Action, ...]:
        """Return the forms on the wire of several actions given as texts.

        Raises:
            InvalidAction: when they are not a list of texts.
        """
        return tuple(map(self.encode, list_of_texts(texts)))

    def text(self, action: Action) -> str:
        """Return the text of an action in its form on the wire."""
        return action if isinstance(action, str) else self.names[action]

    def write(self, texts: Sequence[str], *, exact: bool = False, tree: SourceTree | None = None) -> str:
        """Return actions in the notation of the compiler's own tool or, with `exact`, of ours where that may differ.

        Raises:
            NotExpressible: when there is none, or it has no form for one of them.
        """
        if self.notation is None:
            raise NotExpressible("this compiler has no tool with a command line for lists of actions")
        return self.notation.write_exact(texts, tree) if exact else self.notation.write(texts, tree)

    def hint(self, text: str, space: str, names: Sequence[str]) -> str:
        """Return which action is meant by a text that is none of a space, `-O3` for one; "" if there is no telling.

        Args:
            text: what was given as an action.
            space: the name of the space.
            names: of its actions.
        """
        word = _DECORATION.sub("", text)
        if not word.strip():
            return "(no action at all is an empty list: env.step([]))"
        if word == "O0" and "O1" in self.elsewhere:
            return "(O0 is default<O0>: env.step_texts(['default<O0>']))"
        where, meant = self.elsewhere.get(word, (space, word))
        if where == space or word in names:
            return f"({word} is {meant})" if meant != word else ""
        is_a = f"{word} is" if meant == word else f"{word} is {meant},"
        return f"({is_a} an action of {where}: use action_space={where!r}, or env.step_texts([{meant!r}]))"

    def unknown(self, name: str, reason: str) -> UnknownName:
        """Return the error for an unknown name, with the compiler's message."""
        return UnknownName("action", name, self.indices, f"({reason})")


def _check_unicode(text: str) -> None:
    """Raise InvalidAction for what is no text that can be written down, such as JSON's `\\ud800`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidAction(f"{text!r} is not an action: it has half a surrogate pair, which is no character") from None


def indices_of(actions: Sequence[ActionSpec]) -> dict[str, int]:
    """Return the index of each name of an action, and of each other spelling that is no name."""
    aliases = {alias: i for i, action in enumerate(actions) for alias in action.aliases}
    return aliases | {action.name: i for i, action in enumerate(actions)}


def list_of_texts(texts: Iterable[str]) -> list[str]:
    """Return texts of actions as a list.

    Raises:
        InvalidAction: when they are not a list of texts.
    """
    if isinstance(texts, (str, bytes)) or not isinstance(texts, Iterable):
        raise InvalidAction(f"texts of actions are given as a list, not as {type(texts).__name__}: {texts!r}")
    found = list(texts)
    for text in found:
        if not isinstance(text, str):
            raise InvalidAction(f"the text of an action is a str, not {type(text).__name__}: {text!r}")
    return found


def split_list(text: str, separator: str = ",") -> list[str]:
    """Split a list at separators outside of brackets and quotes, dropping empty items."""
    parts, depth, start, quoted = [], 0, 0, False
    for position, character in enumerate(text + separator):
        if character == '"':
            quoted = not quoted
        elif quoted and position < len(text):
            continue
        elif character in "<({[":
            depth += 1
        elif character in ">)}]":
            depth -= 1
        elif character == separator and (depth <= 0 or position == len(text)):
            parts.append(text[start:position].strip())
            start = position + 1
    return [part for part in parts if part]


def join_texts(texts: Iterable[str]) -> str:
    """Write texts of actions as a list that `split_texts` reads: with commas between, and `[...]` around lists."""
    return ",".join(text if split_list(text) == [text] else f"[{text}]" for text in texts)


def split_texts(line: str) -> list[str]:
    """Read what `join_texts` wrote."""
    parts = split_list(line)
    return [part[1:-1] if part.startswith("[") and part.endswith("]") else part for part in parts]


def is_name(text: str) -> bool:
    """Return whether a text could be a misspelt name rather than structured."""
    return text.replace("-", "").replace("_", "").isalnum()
