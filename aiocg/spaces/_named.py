"""Discrete spaces whose elements have names."""

import operator
import shlex
from collections.abc import Iterable
from typing import Any, NamedTuple

import gymnasium

from aiocg.errors import UnknownName


class NamedDiscrete(gymnasium.spaces.Discrete):
    """The numbers from 0 on, each with a name.

    Attributes:
        names: of the numbers, in their order.
    """

    def __init__(self, items: Iterable[str]) -> None:
        self.names = tuple(items)
        self._indices = {name: index for index, name in enumerate(self.names)}
        if len(self._indices) < len(self.names):
            twice = next(name for index, name in enumerate(self.names) if self._indices[name] != index)
            raise ValueError(f"two elements are called {twice!r}")
        super().__init__(len(self.names))

    def contains(self, x: Any) -> bool:
        """Return whether something is one of the numbers."""
        try:
            return super().contains(x)
        except TypeError:  # of Gymnasium for what is no time
            return False

    def __getitem__(self, name: str) -> int:
        """Return the number that has a name.

        Raises:
            UnknownName: when none has.
        """
        try:
            return self._indices[name]
        except (KeyError, TypeError):
            raise UnknownName("element", str(name), self._indices) from None

    def to_string(self, values: int | Iterable[int]) -> str:
        """Return the name of a number, or those of several, with spaces between them."""
        return " ".join(self.names[value] for value in _several(values))

    def from_string(self, names: str | Iterable[str]) -> Any:
        """Return the number of a name, or a list with those of several.

        Raises:
            UnknownName: when there is no such name.
        """
        return self[names] if isinstance(names, str) else [self[name] for name in names]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedDiscrete) and type(self) is type(other) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"{type(self).__name__}([{', '.join(self.names)}])"


class CommandlineFlag(NamedTuple):
    """A flag of a command line.

    Attributes:
        name: such as `"LoopUnroll"`.
        flag: such as `"--unroll"`; it may have several words.
        description: one line.
    """

    name: str
    flag: str
    description: str


class Commandline(NamedDiscrete):
    """A discrete space of flags of a command line.

    Attributes:
        flags, descriptions: of each, in their order.
    """

    def __init__(self, items: Iterable[CommandlineFlag]) -> None:
        items = tuple(items)
        self.flags = tuple(item.flag for item in items)
        self.descriptions = tuple(item.description for item in items)
        super().__init__(item.name for item in items)
        self._words = {tuple(shlex.split(flag)): index for index, flag in reversed(list(enumerate(self.flags)))}

    def commandline(self, values: int | Iterable[int]) -> str:
        """Return the flags of some numbers as a command line."""
        return " ".join(self.flags[value] for value in _several(values))

    def from_commandline(self, text: str) -> list[int]:
        """Return the numbers of the flags of a command line, such as `commandline` returns.

        Raises:
            UnknownName: when a word of it does not belong to a flag.
        """
        words = shlex.split(text)
        longest = max(map(len, self._words), default=0)
        values = []
        while words:
            for length in range(min(longest, len(words)), 0, -1):
                if (value := self._words.get(tuple(words[:length]))) is not None:
                    values.append(value)
                    words = words[length:]
                    break
            else:
                raise UnknownName("flag", words[0], self.flags)
        return values

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Commandline) and super().__eq__(other) and self.flags == other.flags

    def __hash__(self) -> int:
        return hash((self.names, self.flags))


def _several(values: int | Iterable[int]) -> list[int]:
    return list(map(operator.index, values)) if isinstance(values, Iterable) else [operator.index(values)]
