"""The language of action texts: parses them, and writes them in their canonical form.

    action   := ""                                   nothing
              | pipeline                             what `opt -passes=` takes, or the name of an action of `Passes`
              | "clang<Oz>"                          the passes of clang -Oz: as default<Oz>, with slp-vectorizer
              | "{" options "}" pipeline             pass builder options first
              | mark                                 mark functions for the code generator
              | "codegen<" setting (";" setting)* ">"   options of the code generator
              | target "(" pipeline ")"              on one function
              | target "(" inline ["," pipeline] ")"   on one function, some of whose calls are inlined first
              | target "(" [pipeline ","] mark ")"     on one function, which has this mark in the end
              | (target "(" pipeline ")") (target "(" pipeline ")")+   on several, each its own passes
              | target ":" number "(" unroll ")"     on one loop of a function
    options  := name "=" value (";" name "=" value)*
    target   := "@" name | '@"' name '"'             a function, written as LLVM writes it
    mark     := "mark<" ("minsize" | "optsize") [";frame-pointer"] ">"   as clang does for -Oz or -Os
    setting  := "size" | name "=" value            what makes most programs smaller, or one option of LLVM's
    inline   := "inline<" target (";" target)* ">"  the functions whose calls are inlined
    unroll   := "unroll<" number ">" | "unroll<full>"

This module knows only the syntax; `vocabulary` knows which pipelines the loaded library accepts.
"""

import itertools
import re
from functools import lru_cache
from typing import NamedTuple

_PLAIN_NAME = re.compile(rb"[-a-zA-Z._][-a-zA-Z._0-9]*")  # what LLVM writes without quotes
_TARGET = re.compile(r'@(?:(?P<plain>[-a-zA-Z$._][-a-zA-Z$._0-9]*)|"(?P<quoted>[^"]*)")')
_NEXT_TARGET = re.compile(r'"[^"]*"|\)(@)')  # skips quoted names
_LOOP_NUMBER = re.compile(r":(\d{1,9})")
_UNROLL = re.compile(r"unroll<(full|\d{1,4})>")
_OPTION = re.compile(r"([a-z][-a-z0-9]*)=([^;{}=]+)")
_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{2})")
_MARK = re.compile(r"(?:^|(?<=.),)(mark<(?:minsize|optsize)(?:;frame-pointer)?>)$")
_FACTORS = range(2, 1025)
LONGEST = 8_000_000  # characters; room for passes on every function of a large program
LONG = 2_000  # characters; longer texts name many functions and seldom recur, so they are not cached
_DEEPEST = 100  # nesting of parentheses; every pipeline parser recurses, LLVM's too


class ActionSyntaxError(ValueError):
    """A text that is not an action; the message says what is wrong, where, and what was expected."""

    def __init__(self, text: str, position: int, expected: str) -> None:
        rest = text[position:]
        found = f"found {rest[:20]!r}" if rest else "the text ends"
        super().__init__(f"{text!r} is not an action: expected {expected} at position {position}, {found}")
        self.text = text
        self.position = position
        self.expected = expected


class ActionText(NamedTuple):
    """A parsed action text.

    Attributes:
        pipeline: what `opt -passes=` takes; empty for the action that does nothing and for unrolling.
        options: names and values of pass builder options, sorted by name.
        function: the name of the target function, as in the program; None for the whole module.
        loop: the number of the target loop in that function; None for the whole function.
        factor: the unroll factor; 0 means fully.
        each: pairs of function and pipeline, in order, if there are several functions; the other fields are then empty.
    """

    pipeline: str = ""
    options: tuple[tuple[str, str], ...] = ()
    function: bytes | None = None
    loop: int | None = None
    factor: int = 0
    each: tuple[tuple[bytes, str], ...] = ()

    def __str__(self) -> str:
        """Return the canonical text: equal actions have equal texts."""
        if self.each:
            return "".join(f"{quote(function)}({pipeline})" for function, pipeline in self.each)
        if self.function is None:
            options = ";".join(f"{name}={value}" for name, value in self.options)
            return f"{{{options}}}{self.pipeline}" if options else self.pipeline
        target = quote(self.function)
        if self.loop is None:
            return f"{target}({self.pipeline})"
        return f"{target}:{self.loop}(unroll<{self.factor or 'full'}>)"


def parse(text: str) -> ActionText:
    """Parse an action text; recent results are cached.

    Raises:
        ActionSyntaxError: if the text is not an action.
    """
    return _parse_short(text) if len(text) <= LONG else _parse_long(text)


def _parse(text: str) -> ActionText:
    if len(text) > LONGEST:
        raise ActionSyntaxError(f"{text[:50]}...", len(text), f"at most {LONGEST} characters, not {len(text)},")
    strange = next((i for i, character in enumerate(text) if not " " <= character <= "~"), None)
    if strange is not None:
        raise ActionSyntaxError(text, strange, "printable ASCII, with other bytes of a quoted name as \\XX,")
    action = _with_options(text) if text[:1] == "{" else _on_functions(text) if text[:1] == "@" else ActionText(text)
    if (place := _too_deep(action.pipeline)) is not None:
        raise ActionSyntaxError(text, text.rindex(action.pipeline) + place, f"parentheses at most {_DEEPEST} deep")
    return action


_parse_short = lru_cache(maxsize=4096)(_parse)
_parse_long = lru_cache(maxsize=8)(_parse)


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


def _on_functions(text: str) -> ActionText:
    ends = [found.start(1) for found in _NEXT_TARGET.finditer(text) if found[1]]
    if not ends:
        return _on_function(text)
    parts = [_on_function(text[start:end]) for start, end in itertools.pairwise((0, *ends, len(text)))]
    each = dict([part.each[0] if part.each else (part.function or b"", part.pipeline) for part in parts])
    if len(each) < len(parts) or any(part.loop is not None for part in parts):
        raise ActionSyntaxError(text, 0, "each function once, with passes over functions, where there are several")
    for pipeline in each.values():
        if _too_deep(pipeline) is not None:
            raise ActionSyntaxError(text, text.index(pipeline), f"parentheses at most {_DEEPEST} deep")
    return ActionText(each=tuple(each.items()))


def _on_function(text: str) -> ActionText:
    target = _TARGET.match(text)
    function = unescape(target["plain"] or target["quoted"]) if target else b""
    if not target or not function or b"\0" in function:  # LLVM names contain no NUL
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
        if inner.startswith("inline<") or _MARK.search(inner):
            return ActionText(each=((function, inner),))
        return ActionText(inner, function=function)
    unroll = _UNROLL.fullmatch(inner)
    factor = 0 if not unroll or unroll[1] == "full" else int(unroll[1])
    if not unroll or (factor not in _FACTORS and unroll[1] != "full"):
        raise ActionSyntaxError(text, position + 1, "unroll<full>, or unroll<N> with N from 2 to 1024")
    return ActionText(function=function, loop=int(number[1]), factor=factor)


def _too_deep(pipeline: str) -> int | None:
    """Return the position of the first parenthesis that is nested too deeply."""
    depth = 0
    for place, character in enumerate(pipeline):
        depth += (character == "(") - (character == ")")
        if depth > _DEEPEST:
            return place
    return None


def split_mark(pipeline: str) -> tuple[str, str]:
    """Split `sroa,mark<optsize>` into the pipeline and the mark after that; both may be empty."""
    found = _MARK.search(pipeline)
    return (pipeline[: found.start()], found[1]) if found else (pipeline, "")


def unescape(written: str) -> bytes:
    """Read the name of a function as LLVM writes it between quotes, or without any."""

    def byte(found: re.Match[str]) -> str:
        return found[1] if found[1] == "\\" else chr(int(found[1], 16))

    return _ESCAPE.sub(byte, written).encode("latin-1")
