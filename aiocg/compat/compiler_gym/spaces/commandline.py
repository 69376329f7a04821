"""Flags of a command line."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from aiocg.compat.compiler_gym.spaces.named_discrete import NamedDiscrete

__all__ = ["Commandline", "CommandlineFlag"]


class CommandlineFlag(NamedTuple):
    """A flag of a command line.

    Attributes:
        name: such as `"LoopUnroll"`.
        flag: such as `"-loop-unroll"`.
        description: one line.
    """

    name: str
    flag: str
    description: str


class Commandline(NamedDiscrete):
    """A space of flags; their names are the flags themselves.

    Attributes:
        flags, descriptions: of each, in their order.
    """

    def __init__(self, items: Iterable[CommandlineFlag], name: str) -> None:
        items = list(items)
        self.flags = [item.flag for item in items]
        self.descriptions = [item.description for item in items]
        super().__init__(self.flags, name=name)

    def commandline(self, values: Any) -> str:
        """Return the flags of one number, or of several, as a command line."""
        if isinstance(values, (int, np.integer)):
            return self.flags[values]
        return " ".join(self.flags[value] for value in values)

    def from_commandline(self, commandline: str) -> list[int]:
        """Return the numbers of the flags of a command line.

        Raises:
            LookupError: when it has one that is not in the space.
        """
        return [self._number(flag) for flag in commandline.split()]

    def _number(self, flag: str) -> int:
        try:
            return self.flags.index(flag)
        except ValueError:
            raise LookupError(f"Unknown flag: `{flag}`") from None

    def __repr__(self) -> str:
        return f"Commandline([{' '.join(self.flags)}])"
