"""What a C or C++ text may include, found by reading it as a preprocessor does, but without its conditions.

Which branch of an `#if` is taken only the compiler knows, so what is found is all that any branch may ask for.
"""

import os
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

__all__ = ["Inclusion", "defined_inclusions", "given_inclusions", "inclusions"]


class Inclusion(NamedTuple):
    """One file that a text asks for.

    Attributes:
        name: between the quotes or angle brackets; or the name of a macro that stands for it.
        form: '"', "<", or "macro".
        next: it is one with the name of the file that asks for it, from a later folder (`#include_next`).
    """

    name: str
    form: str
    next: bool = False


_SPLICE = re.compile(r"\\[ \t]*\r?\n")
_TOKEN = re.compile(
    r"""(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))
    |(?P<include>^[ \t]*(?:\#|%:)(?:[ \t]|/\*[^\n]*?\*/)*(?:include|include_next|import|embed)\b
        (?:[ \t]|/\*[^\n]*?\*/)*<[^>\n]*>)
    |(?:u8|[uUL])?R"([^()\\\s]{0,16})\(.*?\)\3"
    |"(?:\\.|[^"\\\n])*"
    |[A-Za-z_$][\w$]*
    |\.?[0-9](?:'[\w]|[eEpP][+-]|[\w.])*
    |'(?:\\.|[^'\\\n])*'
    """,
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
_OPERAND = r"""("[^"\n]*"|<[^>\n]*>|[A-Za-z_]\w*)"""
_START = r"^[ \t]*(?:#|%:)[ \t]*"
_DIRECTIVE = re.compile(rf"{_START}(include|include_next|import|embed)\b[ \t]*{_OPERAND}", re.MULTILINE)
_QUESTION = re.compile(rf"\b__has_(include|include_next|embed)\b[ \t]*\([ \t]*{_OPERAND}")
_DEFINITION = re.compile(rf"""{_START}define[ \t]+([A-Za-z_]\w*)[ \t]+("[^"\n]+"|<[^>\n]+>)""", re.MULTILINE)


def inclusions(text: bytes) -> tuple[Inclusion, ...]:
    """Return what a text asks for by `#include` and its like, or asks whether it is there, each once and in order."""
    plain = _without_comments(text)
    found = (
        _inclusion(operand, directive == "include_next")
        for pattern in (_DIRECTIVE, _QUESTION)
        for directive, operand in pattern.findall(plain)
    )
    return tuple(dict.fromkeys(found))


def defined_inclusions(text: bytes) -> Iterator[tuple[str, Inclusion]]:
    """Yield the macros of a text that are the name of a file, as `#include NAME` uses them, and that file."""
    for name, operand in _DEFINITION.findall(_without_comments(text)):
        yield name, _inclusion(operand)


def given_inclusions(flags: Iterable[str]) -> Iterator[tuple[str, Inclusion]]:
    """Yield the macros that flags such as `-DCONFIG="config.h"` define as the name of a file, and that file."""
    for flag in flags:
        name, _, value = flag.removeprefix("-D").partition("=")
        if flag.startswith("-D") and re.fullmatch(r'"[^"]+"|<[^>]+>', value):
            yield name, Inclusion(value.strip('"<>'), value[0])


def _inclusion(operand: str, next: bool = False) -> Inclusion:
    """Turn the operand of a directive, read as Latin-1, into the name of a file."""
    form = operand[0] if operand[0] in '"<' else "macro"
    return Inclusion(os.fsdecode(operand.strip('"<>').encode("latin-1")), form, next)


def _without_comments(text: bytes) -> str:
    """Join continued lines and put a blank in the place of each comment."""
    joined = _SPLICE.sub("", text.decode("latin-1"))
    return _TOKEN.sub(_kept, joined)


def _kept(match: "re.Match[str]") -> str:
    if match["comment"]:
        return " "
    return re.sub(r"/\*.*?\*/", " ", match[0]) if match["include"] else match[0]
