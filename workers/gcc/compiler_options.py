"""What is known of one compiler's options, and the file that keeps it."""

import math

import msgspec

from aiocg.transport.options import Option

__all__ = ["CompilerOptions", "Dropped"]


class Dropped(msgspec.Struct, array_like=True, frozen=True):
    """An option, or one word that it might have been given as, that is no part of the space, and why."""

    name: str
    reason: str


class CompilerOptions(msgspec.Struct, frozen=True):
    """The options of one compiler.

    Attributes:
        version: the first line of what it says of itself.
        options: those that make the space, in the order in which they stand on a command line.
        dropped: what the compiler's help names and the space has not.
    """

    version: str
    options: tuple[Option, ...]
    dropped: tuple[Dropped, ...] = ()

    @property
    def size(self) -> int:
        """The number of command lines: each option is not given, or given as one of its choices."""
        return math.prod(len(option) + 1 for option in self.options)
