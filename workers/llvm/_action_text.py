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
              | (place "(" decision ")")+            decisions about calls, loops and branches, for later pipelines
              | "mark<none>"                         without any mark but those for size
    options  := name "=" value (";" name "=" value)*
    target   := "@" name | '@"' name '"'             a function, written as LLVM writes it
    mark     := "mark<" ("minsize" | "optsize") [";frame-pointer"] ">"   as clang does for -Oz or -Os
              | "mark<speed>"                        as it does for -O2 and -O3: without marks for size
              | "mark<" ("hot" | "cold" | "noinline" | "none") ">"   on functions only
    place    := target ":" target ":" number         a call in a function of another: one of those, in order
              | target ":" number                    a loop of a function
              | target ":branch:" number             a conditional branch of a function
    decision := "mark<" ("alwaysinline" | "noinline" | "none") ">"   of a call
              | "mark<" ("likely" | "unlikely" | "unpredictable" | "none") ">"   of a branch: whether it goes where it
                                                     goes if its condition is true
              | "mark<" family "=" ("none" | number) ">" | "mark<unroll=full>" | "mark<distribute>" | "mark<none>"
    family   := "unroll" | "vectorize" | "interleave"
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
_NUMBER = re.compile(r":(\d{1,9})")
_UNROLL = re.compile(r"unroll<(full|\d{1,4})>")
_OPTION = re.compile(r"([a-z][-a-z0-9]*)=([^;{}=]+)")
_ESCAPE = re.compile(r"\\(\\|[0-9a-fA-F]{2})")
_MARK = re.compile(r"(?:^|(?<=.),)(mark<(?:(?:minsize|optsize)(?:;frame-pointer)?|speed|hot|cold|noinline|none)>)$")
_FACTORS = range(2, 1025)
_OF_CALL = re.compile(r"mark<(?:alwaysinline|noinline|none)>")
_OF_LOOP = re.compile(
    r"mark<(?:none|distribute|unroll=(?:none|full|[2-9]|[1-9]\d{1,2})|vectorize=(?:none|2|4|8|16|32|64)|interleave=(?:none|2|4|8|16))>"
)
_OF_BRANCH = re.compile(r"mark<(?:likely|unlikely|unpredictable|none)>")
_BRANCH = ":branch"
UNMARK = "mark<none>"
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


class Decision(NamedTuple):
    """A mark of a call, of a loop or of a branch.

    Attributes:
        function: the name of the function that it is in.
        callee: the name of the function that is called; None of a loop or branch.
        number: of the call among those of this pair, in the order of the program, or of the loop or branch in the
            function.
        mark: what it is marked with, such as `mark<noinline>`.
        branch: whether it is a branch.
    """

    function: bytes
    callee: bytes | None
    number: int
    mark: str
    branch: bool = False

    def __str__(self) -> str:
        """Return the text of the decision."""
        called = "branch:" if self.branch else "" if self.callee is None else f"{quote(self.callee)}:"
        return f"{quote(self.function)}:{called}{self.number}({self.mark})"

    @property
    def subject(self) -> tuple[object, ...]:
        """What may be decided once: a call, a branch, or one kind of hint for a loop."""
        kind = self.mark.partition("=")[0] if self.callee is None and not self.branch else ""
        return self.function, self.callee, self.number, self.branch, kind


class ActionText(NamedTuple):
    """A parsed action text.

    Attributes:
        pipeline: what `opt -passes=` takes; empty for the action that does nothing and for unrolling.
        options: names and values of pass builder options, sorted by name.
        function: the name of the target function, as in the program; None for the whole module.
        loop: the number of the target loop in that function; None for the whole function.
        factor: the unroll factor; 0 means fully.
        each: pairs of function and pipeline, in order, if there are several functions; the other fields are then empty.
        decisions: about calls, loops and branches; the other fields are then empty.
    """

    pipeline: str = ""
    options: tuple[tuple[str, str], ...] = ()
    function: bytes | None = None
    loop: int | None = None
    factor: int = 0
    each: tuple[tuple[bytes, str], ...] = ()
    decisions: tuple[Decision, ...] = ()

    def __str__(self) -> str:
        """Return the canonical text: equal actions have equal texts."""
        if self.decisions:
            return "".join(map(str, self.decisions))
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
    if all(part.decisions for part in parts):
        decisions = tuple([part.decisions[0] for part in parts])
        if len({one.subject for one in decisions}) < len(decisions):
            raise ActionSyntaxError(text, 0, "one decision about each")
        return ActionText(decisions=decisions)
    each = dict([part.each[0] if part.each else (part.function or b"", part.pipeline) for part in parts])
    if len(each) < len(parts) or any(part.loop is not None or part.decisions for part in parts):
        expected = "each function once, with passes over functions, where there are several, or decisions only"
        raise ActionSyntaxError(text, 0, expected)
    for pipeline in each.values():
        if _too_deep(pipeline) is not None:
            raise ActionSyntaxError(text, text.index(pipeline), f"parentheses at most {_DEEPEST} deep")
    return ActionText(each=tuple(each.items()))


def _on_function(text: str) -> ActionText:
    function, position = _name_at(text, 0)
    callee = None
    if text[position : position + 2] == ":@":
        callee, position = _name_at(text, position + 1)
    branch = text.startswith(_BRANCH, position)
    position += len(_BRANCH) if branch else 0
    number = _NUMBER.match(text, position)
    if number:
        position = number.end()
    elif branch:
        raise ActionSyntaxError(text, position, "':' and the number of a branch")
    elif callee is not None:
        raise ActionSyntaxError(text, position, "':' and the number of a call")
    if text[position : position + 1] != "(":
        raise ActionSyntaxError(text, position, "'(' and a pipeline, or ':' and the number of a loop")
    if not text.endswith(")"):
        raise ActionSyntaxError(text, len(text), "')'")
    inner = text[position + 1 : -1]
    if number and (branch or callee is not None or inner.startswith("mark<")):
        kind, known = ("branch", _OF_BRANCH) if branch else ("loop", _OF_LOOP) if callee is None else ("call", _OF_CALL)
        if not known.fullmatch(inner):
            raise ActionSyntaxError(text, position + 1, f"a mark of a {kind}")
        return ActionText(decisions=(Decision(function, callee, int(number[1]), inner, branch),))
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


def _name_at(text: str, position: int) -> tuple[bytes, int]:
    """Return the name of a function that is written at a position, and where it ends."""
    target = _TARGET.match(text, position)
    function = unescape(target["plain"] or target["quoted"]) if target else b""
    if not target or not function or b"\0" in function:  # LLVM names contain no NUL
        raise ActionSyntaxError(text, position + 1, 'the name of a function, like @main or @"odd name"')
    return function, target.end()


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
