"""What the textual language is made of: names, numbers and signs; and the error that says where a text is wrong."""

import re
from typing import NamedTuple

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

__all__ = ["LONGEST_NAME", "LanguageError", "Token", "tokenize"]

LONGEST_NAME = 32  # characters

_TOKEN = re.compile(r"(?P<name>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<sign>[][(),:=+*/-])",
                    re.ASCII)  # fmt: skip
_BLANK = re.compile(r"[ \t\r]*(?:#.*)?")
_SHOWN = 100  # characters of a line that an error shows


class LanguageError(CompilationError):
    """The text is no computation.

    Attributes:
        line, column: where it is wrong, both counted from 1.
    """

    def __init__(self, line: int, column: int, reason: str, text: str = "") -> None:
        start = max(0, column - 1 - _SHOWN // 2)
        excerpt = "".join(one if one.isprintable() else " " for one in text[start : start + _SHOWN])
        pointer = f"\n  {excerpt}\n  {' ' * (column - 1 - start)}^" if excerpt.strip() else ""
        super().__init__(FailureCode.BENCHMARK, f"line {line}, column {column}: {reason}{pointer}",
                         line=line, column=column)  # fmt: skip
        self.line = line
        self.column = column


class Token(NamedTuple):
    """A name, number or sign.

    Attributes:
        kind: `name`, `number`, `sign`, or `end` of the line.
        text: as it is written.
        line, column: where it begins, both counted from 1.
    """

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else f'"{self.text[:40]}"'


def tokenize(number: int, line: str) -> list[Token]:
    """Return what a line is made of; an `end` is last."""
    found = []
    position = 0
    while blank := _BLANK.match(line, position):
        position = blank.end()
        if position == len(line):
            break
        match = _TOKEN.match(line, position)
        if match is None:
            raise LanguageError(number, position + 1, f"unexpected character {line[position]!r}", line)
        if match.lastgroup == "name" and len(match[0]) > LONGEST_NAME:
            reason = f"expected a name of at most {LONGEST_NAME} characters, found one of {len(match[0])}"
            raise LanguageError(number, position + 1, reason, line)
        found.append(Token(match.lastgroup or "", match[0], number, position + 1))
        position = match.end()
    return [*found, Token("end", "", number, len(line.rstrip()) + 1)]
