"""Reading and writing command lines of a compiler with typed options."""

import difflib
import itertools
import re
import shlex
from collections.abc import Iterator, Sequence

from aiocg.errors import InvalidAction
from aiocg.transport.options import NO_SUCH_OPTION, UNSET, Option, OptionReader, UnknownOption, words

PROGRAM = "gcc"  # the word that such a text begins with, whatever the compiler's file is called

_PROGRAM = re.compile(r"docker:\S+|(?:\S*/)?(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+)(?:-\d[\d.]*)?")
_PLAIN = re.compile(r"[-\w=+.,:@%/ ]*")  # without anything that a shell would read
_NUMBER = re.compile(r"(.*=)([+-]?)(0[xX][0-9a-fA-F]+|[0-9]+)")
_OTHER = re.compile(  # which do not change what code is made of a program
    r"[^-].*|-|-c|-S|-pipe|-w|-v|-W(?![alp],).*|-pedantic(?:-errors)?|-o.*|-f(?:no-)?diagnostics-.*"
)
_PROGRAMS_OWN = re.compile(r"-[DUILl].*|-(?:std|ansi|x|include|isystem|iquote|idirafter|nostdinc|trigraphs).*")
OWN_WORDS = ("-ffile-prefix-map=", "-frandom-seed=")
"""The last two words before the options in lines that name a program's files; what is before them is the program's."""

_SOURCE = re.compile(r".*[./@].*|-")  # what may come first in a line without a compiler, beside options
_NEAREST = 3
_DIGITS = 30  # of a number that are read; no option takes as many


class ChoiceLine:
    """The canonical texts of lists of choices.

    Each list of choices has one text: the program's name and the words of the options that are set, in the order of the
    options, separated by single blanks.

    Args:
        options: the options.
        program: the first word.
    """

    def __init__(self, options: Sequence[Option], program: str) -> None:
        self.options = tuple(options)
        self.program = program
        self._reader = OptionReader(options)

    def write(self, choices: Sequence[int]) -> str:
        """Return the text of a choice for every option."""
        return " ".join((self.program, *words(self.options, choices)))

    def begins(self, text: str) -> bool:
        """Return whether a text begins with the name of the program."""
        return text.split(None, 1)[:1] == [self.program]

    def canonical(self, text: str) -> str:
        """Return the canonical text.

        Raises:
            InvalidAction: as `read`.
        """
        return self.write(self.read(text))

    def read(self, text: str) -> list[int]:
        """Parse a text into a choice for every option; the last one for an option wins.

        Raises:
            InvalidAction: for a word that is no choice of any option.
        """
        choices = [UNSET] * len(self.options)
        for word in text.split()[self.begins(text) :]:
            index, choice = self.read_word(word)
            choices[index] = choice
        return choices

    def read_word(self, word: str) -> tuple[int, int]:
        """Return the index of the option that a word is of, and the choice that it makes.

        Raises:
            InvalidAction: as `read`.
        """
        try:
            return self._reader.read_word(word)
        except UnknownOption as error:
            raise InvalidAction(f"{error} of {self.program}") from None


def choice_line(options: Sequence[Option], program: str) -> ChoiceLine:
    """Return the texts for some options of a program, command lines if that is a compiler's."""
    return CommandLine(options) if program == PROGRAM else ChoiceLine(options, program)


class CommandLine(ChoiceLine):
    """The command lines that some options of GCC can make.

    `read` accepts more than `write` produces: lines from a Makefile or a shell.
    """

    def __init__(self, options: Sequence[Option]) -> None:
        super().__init__(options, PROGRAM)

    def begins(self, text: str) -> bool:
        """Return whether a text begins with the name of a compiler."""
        return _PROGRAM.fullmatch(text.split(None, 1)[0]) is not None if text.strip() else False

    def read(self, text: str) -> list[int]:
        """Parse a command line into a choice for every option; the last one for an option wins.

        The compiler's name may be missing. Alternative forms such as `-O` or `--param name=value` are understood, and
        words that do not change the code are skipped: file names, `-c`, `-o name`, warnings.

        Raises:
            InvalidAction: for a word that is no choice of any option; it has the nearest words, or the range.
        """
        choices = [UNSET] * len(self.options)
        for word in _words(text):
            try:
                index, choice = self._reader.read_word(word)
            except UnknownOption as error:
                found = self._otherwise(word, error)
                if found is None:
                    continue
                index, choice = found
            choices[index] = choice
        return choices

    def read_word(self, word: str) -> tuple[int, int]:
        try:
            return self._reader.read_word(word)
        except UnknownOption as error:
            if (found := self._otherwise(word, error)) is None:
                raise InvalidAction(f"{word!r} is not an option") from None
            return found

    def _otherwise(self, word: str, error: UnknownOption) -> tuple[int, int] | None:
        """Return the meaning of an alternative spelling, None if there is none."""
        if spelling := _spelling(word):
            try:
                return self._reader.read_word(spelling)
            except UnknownOption as again:
                error = again
        if _OTHER.fullmatch(word):
            return None
        raise InvalidAction(f"{error}{self._advice(word, error)}")

    def _advice(self, word: str, error: UnknownOption) -> str:
        if error.reason != NO_SUCH_OPTION:
            return ""
        if _PROGRAMS_OWN.fullmatch(word):
            return "; it belongs to the program: give it to the benchmark"
        if word.startswith("-O"):
            levels = next((option.texts for option in self.options if option.name == "-O"), ())
            return f"; its levels are {', '.join(levels)}"
        known = [text for option in self.options for text in (option.name, *option.texts)]
        nearest = difflib.get_close_matches(word, dict.fromkeys(known), n=_NEAREST)
        return f"; did you mean {', '.join(nearest)}?" if nearest else f"; it has {len(self.options)} options"


def _words(text: str) -> Iterator[str]:
    """Split a command line into options, without the compiler."""
    try:
        found = text.split() if _PLAIN.fullmatch(text) else shlex.split(text)
    except ValueError as error:
        raise InvalidAction(f"{text!r} is no command line: {error}") from error
    for index, pair in enumerate(itertools.pairwise(found)):
        if all(map(str.startswith, pair, OWN_WORDS)):  # written by us, and there may be more commands behind
            end = found.index("-c", index) if "-c" in found[index:] else len(found)
            found = found[index + 2 : end]
            break
    if found and not found[0].startswith("-") and not _PROGRAM.fullmatch(found[0]) and not _SOURCE.fullmatch(found[0]):
        raise InvalidAction(f"{found[0]!r} is not GCC, whose options these are: the line should begin with {PROGRAM}")
    rest = iter(found[1:] if found and _PROGRAM.fullmatch(found[0]) else found)
    for word in rest:
        if word == "--param":
            yield f"--param={next(rest, '')}"
        elif word == "-o":
            next(rest, None)
        else:
            yield word


def _spelling(word: str) -> str:
    """Return the usual spelling of an alternative word, "" if there is none."""
    if word == "-O":
        return "-O1"
    if (number := _NUMBER.fullmatch(word)) is not None:
        before, sign, digits = number.groups()
        value = _read(digits[2:], 16) if digits[:2] in ("0x", "0X") else _read(digits, 10)
        return f"{before}{'-' if sign == '-' else ''}{value}"
    return ""


def _read(digits: str, base: int) -> int:
    """Parse a number; numbers of thousands of digits, which Python refuses, become one that is too large."""
    return int(digits.lstrip("0")[:_DIGITS] or "0", base)
