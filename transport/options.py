"""Options of a compiler's command line as typed choices: what client and worker both know of them.

Each option is not given, or given as one of its choices, which are numbered from 0; -1 is not to give it. A list with
one such number for each option is what a state of the compiler's command line is, and `words` what it looks like.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

__all__ = ["UNSET", "Option", "OptionReader", "UnknownOption", "words"]

UNSET = -1  # the choice of an option that is not given
_DIGITS = 20  # of a number; more than any range has


class Option(msgspec.Struct, array_like=True, frozen=True):
    """One option: some words that it may be given as, and then a range of numbers, where it has one.

    Attributes:
        name: what people call it, such as `-O`, `-fgcse` or `--param=max-inline-insns-auto`.
        kind: its class.
        description: one line, in the compiler's words.
        texts: the first choices, each a word of the command line.
        template: the word of a number from `low` to `high`, which stands in the place of `{}`; "" for no numbers.
        low, high: the range, both ends included.
        initial: what the compiler does when it is not given, in its own words; "" when it does not say.
    """

    name: str
    kind: Literal["level", "flag", "enum", "integer", "alignment", "param"]
    description: str = ""
    texts: tuple[str, ...] = ()
    template: str = ""
    low: int = 0
    high: int = -1
    initial: str = ""

    def __len__(self) -> int:
        """Return the number of choices, besides not to give it."""
        return len(self.texts) + (self.high - self.low + 1 if self.template else 0)

    def word(self, choice: int) -> str:
        """Return the word of a choice from 0 to `len(self) - 1`."""
        if choice < len(self.texts):
            return self.texts[choice]
        return self.template.replace("{}", str(self.low + choice - len(self.texts)))


class UnknownOption(ValueError):
    """A word that is no choice of any option; `word` is that, `reason` what is wrong with it."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(f"{word}: {reason}")
        self.word = word
        self.reason = reason


def words(options: Sequence[Option], choices: Sequence[int]) -> tuple[str, ...]:
    """Return the words of a command line: those of the options that are given, in the order of the options."""
    return tuple([option.word(choice) for option, choice in zip(options, choices, strict=True) if choice != UNSET])


class OptionReader:
    """Reads words of a command line as choices."""

    def __init__(self, options: Sequence[Option]) -> None:
        self._count = len(options)
        self._texts: dict[str, tuple[int, int]] = {}
        self._templates: dict[str, tuple[int, Option]] = {}
        self._options = {option.name: option for option in options}
        for index, option in enumerate(options):
            self._texts |= {text: (index, choice) for choice, text in enumerate(option.texts)}
            if option.template:
                self._templates[option.template.partition("{}")[0]] = (index, option)

    def read(self, line: Iterable[str]) -> list[int]:
        """Return the choice of each option that a command line makes; of several for one option the last counts.

        Raises:
            UnknownOption: for a word that is no choice of any option.
        """
        choices = [UNSET] * self._count
        for word in line:
            index, choice = self.read_word(word)
            choices[index] = choice
        return choices

    def read_word(self, word: str) -> tuple[int, int]:
        """Return the index of an option and the choice that a word makes for it.

        Raises:
            UnknownOption: when it is no choice of any option.
        """
        if word in self._texts:
            return self._texts[word]
        name, equals, number = word.rpartition("=")
        found = self._templates.get(name + equals)
        if found is None:
            raise UnknownOption(word, self._reason(word))
        index, option = found
        digits = number.removeprefix("-")
        if not digits.isascii() or not digits.isdigit():
            raise UnknownOption(word, self._reason(word))
        digits = digits.lstrip("0")[: _DIGITS + 1]  # Python refuses to read thousands of them, zeros included
        value = int(digits or "0") * (-1 if number.startswith("-") else 1)
        if not option.low <= value <= option.high:
            raise UnknownOption(word, f"is not in the range from {option.low} to {option.high}")
        return index, len(option.texts) + value - option.low

    def _reason(self, word: str) -> str:
        """Return what is wrong with a word that is no choice."""
        option = self._options.get(word) or self._options.get(word.rpartition("=")[0])
        if option is None:
            return "is no option of this compiler"
        numbers = [f"{option.template.replace('{}', 'a number')} from {option.low} to {option.high}"]
        return "expected " + " or ".join([*option.texts, *(numbers if option.template else ())])
