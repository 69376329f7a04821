"""Tokens of the textual language, and the error that locates a mistake."""

import re
from typing import NamedTuple, NoReturn

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError

LONGEST_NAME = 32  # characters

_TOKEN = re.compile(r"(?P<name>[A-Za-z_]\w*)|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|(?P<sign>[][(),:=+*/-])",
                    re.ASCII)  # fmt: skip
_BLANK = re.compile(r"[ \t\r]*(?:#.*)?")
_SHOWN = 100  # characters of a line that an error shows


class LanguageError(CompilationError):
    """The text is not a computation.

    Attributes:
        line, column: the position of the mistake, both counted from 1.
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
        text: the source text.
        line, column: its position, both counted from 1.
    """

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        return "the end of the line" if self.kind == "end" else f'"{self.text[:40]}"'


def tokenize(number: int, line: str) -> list[Token]:
    """Split a line into tokens; the last one is an `end`."""
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


class Cursor:
    """A position in the tokens of a line.

    Args:
        tokens: the line's tokens; the last one is its end.
        text: the line, for error messages.
    """

    def __init__(self, tokens: list[Token], text: str) -> None:
        self._tokens = tokens
        self._text = text
        self._position = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return an upcoming token, by default the next one; past the end, the last one."""
        return self._tokens[min(self._position + ahead, len(self._tokens) - 1)]

    def next(self) -> Token:
        """Consume and return the next token."""
        token = self.peek()
        self._position += 1
        return token

    def accept(self, sign: str) -> bool:
        """Consume the next token if it is this sign, and return whether it was."""
        found = self.peek().text == sign
        self._position += found
        return found

    def expect(self, sign: str) -> None:
        """Consume this sign, or fail."""
        if not self.accept(sign):
            self.expected(f'"{sign}"')

    def expected(self, what: str) -> NoReturn:
        """Fail because the next token is not the expected one."""
        self.fail(self.peek(), f"expected {what}, found {self.peek()}")

    def fail(self, token: Token, reason: str) -> NoReturn:
        """Fail at a token."""
        raise LanguageError(token.line, token.column, reason, self._text)

    def back(self) -> None:
        """Put back the last consumed token."""
        self._position -= 1
