"""The language of action texts: reading them, and writing them in their one canonical form.

    action   := ""                                   nothing
              | pipeline                             what `opt -passes=` takes, or the name of an action of `Passes`
              | "{" options "}" pipeline             options of the pass builder first
              | target "(" pipeline ")"              on one function
              | target ":" number "(" unroll ")"     on one loop of a function
    options  := name "=" value (";" name "=" value)*
    target   := "@" name | '@"' name '"'             a function, written as LLVM writes it
    unroll   := "unroll<" number ">" | "unroll<full>"

This module knows the form only; `vocabulary` knows which pipelines the loaded library takes.
"""

import re
from typing import NamedTuple

_PLAIN_NAME = re.compile(rb"[-a-zA-Z._][-a-zA-Z._0-9]*")  # what LLVM writes without quotes
_TARGET = re.compile(r'@(?:(?P<plain>[-a-zA-Z$._][-a-zA-Z$._0-9]*)|"(?P<quoted>[^"]*)")')
_LOOP_NUMBER = re.compile(r":(\d{1,9})")
_UNROLL = re.compile(r"unroll<(full|\d{1,4})>")
_OPTION = re.compile(r"([a-z][-a-z0-9]*)=([^;{}=]+)")
_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{2})")
_FACTORS = range(2, 1025)
LONGEST = 100_000  # characters: more passes than anybody lists, and little to remember
_DEEPEST = 100  # parentheses in parentheses; whoever reads a pipeline does so recursively, LLVM too


class ActionSyntaxError(ValueError):
    """A text that is no action; the message says what is wrong, where, and what was expected."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        rest = text[position:]
        found = f"found {rest[:20]!r}" if rest else "the text ends"
        super().__init__(f"{text!r} is not an action: expected {expected} at position {position}, {found}")
        self.text = text
        self.position = position
        self.expected = expected


class ActionText(NamedTuple):
    """An action text that was read.

    Attributes:
        pipeline: what `opt -passes=` takes; empty for the action that does nothing and for unrolling.
        options: names and values of options of the pass builder, sorted by name.
        function: the function that the action is for, as in the program; None for the whole module.
        loop: the number of a loop of that function; None for the whole function.
        factor: how often to unroll the loop; 0 is fully.
    """

    pipeline: str = ""
    options: tuple[tuple[str, str], ...] = ()
    function: bytes | None = None
    loop: int | None = None
    factor: int = 0

    def __str__(self) -> str:
        """Return the canonical text: equal actions have equal texts."""
        if self.function is None:
            options = ";".join(f"{name}={value}" for name, value in self.options)
            return f"{{{options}}}{self.pipeline}" if options else self.pipeline
        target = quote(self.function)
        if self.loop is None:
            return f"{target}({self.pipeline})"
        return f"{target}:{self.loop}(unroll<{self.factor or 'full'}>)"


def parse(text: str) -> ActionText:
    """Read an action text.

    Raises:
        ActionSyntaxError: when it is none.
    """
    if len(text) > LONGEST:
        raise ActionSyntaxError(f"{text[:50]}...", len(text), f"at most {LONGEST} characters, not {len(text)},")
    strange = next((i for i, character in enumerate(text) if not " " <= character <= "~"), None)
    if strange is not None:
        raise ActionSyntaxError(text, strange, "printable ASCII, with other bytes of a quoted name as \\XX,")
    action = _with_options(text) if text[:1] == "{" else _on_function(text) if text[:1] == "@" else ActionText(text)
    if (place := _too_deep(action.pipeline)) is not None:
        raise ActionSyntaxError(text, text.rindex(action.pipeline) + place, f"parentheses at most {_DEEPEST} deep")
    return action


def quote(name: bytes) -> str:
    """Write the name of a function as LLVM does: `@main`, `@"odd name"`."""
    if _PLAIN_NAME.fullmatch(name):
        return f"@{name.decode()}"
    written = (chr(c) if 32 <= c < 127 and c != 34 else f"\\{c:02X}" for c in name.replace(b"\\", b"\\\\"))
    return f'@"{"".join(written)}"'


def _with_options(text: str) -> ActionText:
    end = text.find("}")
    if end < 0:
        raise ActionSyntaxError(text, len(text), "'}' after the options")
    options: dict[str, str] = {}
    position = 1
    for part in text[1:end].split(";"):
        found = _OPTION.fullmatch(part)
        if not found:
            raise ActionSyntaxError(text, position, "an option like 'inliner-threshold=50'")
        name, value = found.groups()
        if name in options:
            raise ActionSyntaxError(text, position, f"the option {name!r} only once")
        options[name] = value
        position += len(part) + 1
    if text[end + 1 :].startswith(("{", "@")) or not text[end + 1 :]:
        raise ActionSyntaxError(text, end + 1, "a pipeline after the options")
    return ActionText(text[end + 1 :], tuple(sorted(options.items())))


def _on_function(text: str) -> ActionText:
    target = _TARGET.match(text)
    function = _unescape(target["plain"] or target["quoted"]) if target else b""
    if not target or not function or b"\0" in function:  # LLVM has no names with NUL
        raise ActionSyntaxError(text, 1, 'the name of a function, like @main or @"odd name"')
    position = target.end()
    number = _LOOP_NUMBER.match(text, position)
    if number:
        position = number.end()
    if text[position : position + 1] != "(":
        raise ActionSyntaxError(text, position, "'(' and a pipeline, or ':' and the number of a loop")
    if not text.endswith(")"):
        raise ActionSyntaxError(text, len(text), "')'")
    inner = text[position + 1 : -1]
    if not number:
        if not inner or inner.startswith(("{", "@")):
            raise ActionSyntaxError(text, position + 1, "a pipeline of passes over functions")
        return ActionText(inner, function=function)
    unroll = _UNROLL.fullmatch(inner)
    factor = 0 if not unroll or unroll[1] == "full" else int(unroll[1])
    if not unroll or (factor not in _FACTORS and unroll[1] != "full"):
        raise ActionSyntaxError(text, position + 1, "unroll<full>, or unroll<N> with N from 2 to 1024")
    return ActionText(function=function, loop=int(number[1]), factor=factor)


def _too_deep(pipeline: str) -> int | None:
    """Return the place of the first parenthesis that is too deep inside of others."""
    depth = 0
    for place, character in enumerate(pipeline):
        depth += (character == "(") - (character == ")")
        if depth > _DEEPEST:
            return place
    return None


def _unescape(written: str) -> bytes:
    def byte(found: re.Match[str]) -> str:
        return found[1] if found[1] == "\\" else chr(int(found[1], 16))

    return _ESCAPE.sub(byte, written).encode("latin-1")
