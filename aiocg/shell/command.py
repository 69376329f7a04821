"""What a command is, and the table of all of them."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aiocg.errors import UnknownName
from aiocg.shell.line import CommandError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from aiocg.shell.interpreter import Shell

__all__ = ["Argument", "Command", "CommandTable", "Complete", "Handler", "Suggestion", "count_of"]

Handler = Callable[["Shell", list[str]], Awaitable["RenderableType | None"]]
"""Carries a command out, given its words, and returns what is to be shown."""


class Suggestion(NamedTuple):
    """What a word may become.

    Attributes:
        text: the whole word; one that ends in `/` or `(` goes on.
        description: one line about it.
    """

    text: str
    description: str = ""


Complete = Callable[["Shell", str], Iterable[Suggestion]]
"""Suggests, for the beginning of a word, what it may become; the best come first."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a command.

    Attributes:
        name: as it is shown.
        complete: makes suggestions for it.
        optional: it may be left out.
        repeated: there may be several.
    """

    name: str
    complete: Complete | None = None
    optional: bool = False
    repeated: bool = False

    def __str__(self) -> str:
        shown = f"{self.name}..." if self.repeated else self.name
        return f"[{shown}]" if self.optional else shown


@dataclass(frozen=True, slots=True)
class Command:
    """A command.

    Attributes:
        name: words with hyphens between; underscores are understood as well.
        section: where the help lists it.
        summary: one line of help.
        handler: carries it out.
        arguments: in their order.
        aliases: other names.
        details: more help, a paragraph or two.
        examples: lines that can be typed.
        raw: it has one argument, the rest of the line as it is.
    """

    name: str
    section: str
    summary: str
    handler: Handler
    arguments: tuple[Argument, ...] = ()
    aliases: tuple[str, ...] = ()
    details: str = ""
    examples: tuple[str, ...] = ()
    raw: bool = False

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return " ".join([self.name, *map(str, self.arguments)])

    def check(self, words: Sequence[str]) -> None:
        """Check the number of arguments.

        Raises:
            CommandError: when there are too few or too many.
        """
        least = sum(not argument.optional for argument in self.arguments)
        endless = any(argument.repeated for argument in self.arguments)
        if len(words) < least:
            raise CommandError(f"{self.name} needs {self.arguments[len(words)].name}: {self.usage}")
        if len(words) > len(self.arguments) and not endless:
            wanted = f"takes only {len(self.arguments)}" if self.arguments else "takes no argument"
            raise CommandError(f"{self.name} {wanted}, not {' '.join(words)!r}: {self.usage}")

    def argument(self, position: int) -> Argument | None:
        """Return the argument at a position, None if there is none."""
        if position < len(self.arguments):
            return self.arguments[position]
        last = self.arguments[-1] if self.arguments else None
        return last if last is not None and last.repeated else None


class CommandTable:
    """Commands by name; iterates over them in the order of the help."""

    def __init__(self, commands: Iterable[Command]) -> None:
        self._commands = tuple(commands)
        self._by_name: dict[str, Command] = {}
        for command in self._commands:
            for name in (command.name, *command.aliases):
                for spelling in {name, name.replace("-", "_")}:
                    if spelling in self._by_name:
                        raise ValueError(f"two commands are called {spelling}")
                    self._by_name[spelling] = command

    def find(self, name: str) -> Command:
        """Return a command by its name or an alias.

        Raises:
            UnknownName: when there is none; the error has the nearest.
        """
        if name not in self._by_name:
            raise UnknownName("command", name, self.names, "(`help` lists them)")
        return self._by_name[name]

    @property
    def names(self) -> list[str]:
        """All names and aliases, as they are shown."""
        return [name for command in self._commands for name in (command.name, *command.aliases)]

    @property
    def raw(self) -> frozenset[str]:
        """The names of the commands that take the rest of a line."""
        return frozenset(name for name, command in self._by_name.items() if command.raw)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands)

    def __len__(self) -> int:
        return len(self._commands)


def count_of(words: Sequence[str], otherwise: int) -> int:
    """Return the number that the first word is, `otherwise` without a word.

    Raises:
        CommandError: when it is no number, or not positive.
    """
    if not words:
        return otherwise
    try:
        count = int(words[0])
    except ValueError:
        count = 0
    if count < 1:
        raise CommandError(f"a number of 1 or more is needed, not {words[0]!r}")
    return count
