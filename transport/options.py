"""Options of a compiler's command line as typed choices, for client and worker.

The choices of an option are numbered from 0; -1 means that the option is not given. A list with one number per option
describes a command line, and `words` turns it into text.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

NO_SUCH_OPTION = "is not an option of this compiler"
"""The reason of an `UnknownOption` whose word is not even the beginning of an option."""

UNSET = -1  # the choice of an option that is not given
_DIGITS = 20  # more digits than any range needs


class Option(msgspec.Struct, array_like=True, frozen=True):
    """One option, whose choices are some words followed, if it takes a number, by a range of numbers.

    Attributes:
        name: its name, such as `-O`, `-fgcse` or `--param=max-inline-insns-auto`.
        kind: its class.
        description: the compiler's description, one line.
        texts: the first choices, each a word of the command line.
        template: the word for a number from `low` to `high`, with `{}` for the number; "" if it takes no numbers.
        low, high: the range, both ends included.
        initial: the compiler's default, in its own words; "" if it does not say.
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
        """Return the number of choices, without -1."""
        return len(self.texts) + (self.high - self.low + 1 if self.template else 0)

    def word(self, choice: int) -> str:
        """Return the word of a choice from 0 to `len(self) - 1`."""
        if choice < len(self.texts):
            return self.texts[choice]
        return self.template.replace("{}", str(self.low + choice - len(self.texts)))


class UnknownOption(ValueError):
    """A word that is not a choice of any option; `word` and `reason` say which and why."""

    def __init__(self, word: str, reason: str) -> None:
        super().__init__(f"{word}: {reason}")
        self.word = word
        self.reason = reason


def words(options: Sequence[Option], choices: Sequence[int]) -> tuple[str, ...]:
    """Return the words of a command line, in the order of the options."""
    return tuple([option.word(choice) for option, choice in zip(options, choices, strict=True) if choice != UNSET])


class OptionReader:
    """Turns the words of a command line into choices."""

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
        """Return the choice of each option in a command line; if an option is repeated, the last one counts.

        Raises:
            UnknownOption: for a word that is not a choice of any option.
        """
        choices = [UNSET] * self._count
        for word in line:
            index, choice = self.read_word(word)
            choices[index] = choice
        return choices

    def read_word(self, word: str) -> tuple[int, int]:
        """Return the index of the option of a word, and the choice.

        Raises:
            UnknownOption: if the word is not a choice of any option.
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
        digits = digits.lstrip("0")[: _DIGITS + 1]  # Python refuses to parse thousands of digits, zeros included
        value = int(digits or "0") * (-1 if number.startswith("-") else 1)
        if not option.low <= value <= option.high:
            raise UnknownOption(word, f"is not in the range from {option.low} to {option.high}")
        return index, len(option.texts) + value - option.low

    def _reason(self, word: str) -> str:
        """Return why a word is not a choice."""
        option = self._options.get(word) or self._options.get(word.rpartition("=")[0])
        if option is None:
            return NO_SUCH_OPTION
        numbers = [f"{option.template.replace('{}', 'a number')} from {option.low} to {option.high}"]
        return "expected " + " or ".join([*option.texts, *(numbers if option.template else ())])
