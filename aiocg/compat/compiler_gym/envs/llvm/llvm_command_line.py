"""The actions of LLVM, which can be written as a command line of `opt`."""

from collections.abc import Iterable
from typing import Any

from aiocg.compat.compiler_gym.spaces import Commandline, CommandlineFlag

__all__ = ["LlvmCommandLine"]

_START = "opt "
_ENDS = (" input.bc -o output.bc", " input.ll -S -o output.ll")


class LlvmCommandLine(Commandline):
    """Flags of `opt`.

    `to_string` writes a list of actions as a command line of LLVM 10's `opt`, whose flags these are, and `from_string`
    reads it. Names without `opt` are read too: a list of them, a text of several, or one, which gives one number.
    """

    @property
    def wrapped(self) -> Commandline:
        """The same flags as a plain space, whose texts are flags only."""
        flags = zip(self.flags, self.descriptions, strict=True)
        return Commandline([CommandlineFlag(flag, flag, what) for flag, what in flags], name=self.name)

    def to_string(self, values: Any) -> str:
        """Return a list of actions as a command line, or the flag of one action."""
        if isinstance(values, Iterable):
            return opt_line(self.commandline(values))
        return super().to_string(values)

    def from_string(self, values: Any) -> Any:
        """Return the actions of a command line or of several flags, or the action of one flag.

        Raises:
            LookupError: when there is no such flag.
        """
        if not isinstance(values, str):
            return [self._number(value) for value in values]
        flags = flags_of(values)
        if flags is None:
            flags = values
        found = self.from_commandline(flags)
        return found[0] if len(found) == 1 and flags is values else found


def opt_line(flags: str, textformat: bool = False) -> str:
    """Return the command line of `opt` for flags."""
    return f"{_START}{flags}{_ENDS[textformat]}"


def flags_of(line: str) -> str | None:
    """Return the flags of a command line of `opt`, None if it is none."""
    if not line.startswith(_START):
        return None
    for end in _ENDS:
        if line.endswith(end):
            return line[len(_START) : -len(end)]
    return None
