"""Commands, the context they work in, and the table of commands."""

import asyncio
import contextlib
import inspect
import re
import time
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rich.console import Console, RenderableType
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from aiocg.cli.output import CommandError
from aiocg.cli.shell.session import ShellSession
from aiocg.errors import UnknownName


def split_commands(text: str, raw: Container[str] = ()) -> list[str]:
    """Split at line ends and at semicolons outside of quotes and brackets; drop empty lines and comments.

    Args:
        text: one or more lines. Comments begin with `#`.
        raw: names of commands whose argument is the unparsed rest of the line.
    """
    return [command for line in text.splitlines() for command in _split_line(line, raw)]


def _split_line(line: str, raw: Container[str]) -> Iterator[str]:
    rest = line.strip()
    while rest and not rest.startswith("#"):
        end = len(rest) if rest.split(maxsplit=1)[0] in raw else _end_of_command(rest)
        if command := rest[:end].strip():
            yield command
        rest = rest[end + 1 :].strip()


_QUOTED = r""""[^"]*"|(?<![^\s;])'[^']*'"""  # an apostrophe within a word is no quote
_SIGN = re.compile(rf"{_QUOTED}|([<({{[])|([>)}}\]])|(;)")
_WORD = re.compile(rf"(?:{_QUOTED}|\S)+")


def _end_of_command(text: str) -> int:
    depth = 0
    for sign in _SIGN.finditer(text):
        opening, closing, semicolon = sign.groups()
        depth = max(depth + bool(opening) - bool(closing), 0)
        if semicolon and not depth:
            return sign.start()
    return len(text)


def split_words(command: str) -> list[str]:
    """Split a command at white space outside of quotes.

    Quotes around a whole word are dropped; others belong to the word, as in `@"odd name"(sroa)`.

    Raises:
        CommandError: when a quote is not closed.
    """
    if unclosed := re.search(r""""|(?<![^\s;])'""", re.sub(_QUOTED, "-", command)):
        raise CommandError(f"there is a {unclosed[0]} without another that closes it")
    return [word[1:-1] if re.fullmatch(_QUOTED, word) else word for word in _WORD.findall(command)]


def fragment_of(text: str) -> tuple[list[str], str]:
    """Return the finished words of the last command, and the beginning of the next word."""
    command = text.lstrip()
    while (end := _end_of_command(command)) < len(command):
        command = command[end + 1 :].lstrip()
    words = command.split()
    if not words or command[-1].isspace():
        return words, ""
    return words[:-1], words[-1]


PATIENCE = 2.0  # seconds before it is shown


class _Progress:
    """The progress of one command at a time: a delayed bar on a terminal, nothing elsewhere.

    Args:
        console: the one of results.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Bar | None = None

    @contextlib.contextmanager
    def of(self, title: str) -> Iterator[None]:
        """Show the progress of a command during the block."""
        if not self._console.is_terminal:
            yield
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn())
        counted, hint = TextColumn("{task.fields[counted]}"), TextColumn("Ctrl-C interrupts", style="dim")
        self._bar = bar = Bar(
            *columns, counted, TimeElapsedColumn(), hint, console=self._console, transient=True, get_time=time.monotonic
        )
        bar.add_task(title, total=None, counted="")
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._show)
        try:
            yield
        finally:
            timer.cancel()
            self.stop()

    def update(self, done: int, total: int, title: str | None = None) -> None:
        """Record the numbers of finished and of all things, and optionally what is being done."""
        if self._bar is not None:
            task = self._bar.task_ids[0]
            self._bar.update(task, description=title, completed=done, total=total, counted=f"{done}/{total}")

    @property
    def shown(self) -> bool:
        """Return whether a bar is shown."""
        return self._bar is not None and self._bar.live.is_started

    def _show(self) -> None:
        if self._bar is not None:
            self._bar.start()

    def stop(self) -> None:
        """Remove the bar, for example because something else needs the terminal."""
        if self._bar is not None and self._bar.live.is_started:
            self._bar.stop()
        self._bar = None


Result = RenderableType | None
"""Output of a command, or None."""


class Context:
    """The context of commands.

    Attributes:
        session: what they act on.
        console: where results go.
        table: all commands.
        progress: of the running command.
        interactive: whether the user can be asked.
        finished: whether `exit` was called.
        lines: executed, in order.
    """

    def __init__(self, session: ShellSession, console: Console, table: "CommandTable", interactive: bool) -> None:
        self.session = session
        self.console = console
        self.table = table
        self.interactive = interactive
        self.progress = _Progress(console)
        self.finished = False
        self.lines: list[str] = []


class Suggestion(NamedTuple):
    """A completion of a word, which is partial if it ends in `/` or `(`, and a line about it."""

    text: str
    description: str = ""


Handler = Callable[[Context, list[str]], Awaitable[Result]]
"""Executes a command, given its words."""

Complete = Callable[[Context, str], Iterable[Suggestion]]
"""Suggests completions of the beginning of a word, best first."""


@dataclass(frozen=True, slots=True)
class Command:
    """A command: its name, its place in the help, and its handler; a raw one takes the rest of the line as it is.

    Arguments are `NAME`, `[NAME]` if optional, `NAME...` if repeated; `complete` suggests the first and repetitions.
    """

    name: str
    section: str
    summary: str
    handler: Handler
    arguments: tuple[str, ...] = ()
    complete: Complete | None = None
    aliases: tuple[str, ...] = ()
    details: str = ""
    examples: tuple[str, ...] = ()
    raw: bool = False

    @property
    def usage(self) -> str:
        """The command with its arguments."""
        return " ".join([self.name, *self.arguments])

    def check(self, words: Sequence[str]) -> None:
        """Raise CommandError when there are too few or too many arguments."""
        least = sum(not argument.startswith("[") for argument in self.arguments)
        if len(words) < least:
            raise CommandError(f"{self.name} needs {self.arguments[len(words)].removesuffix('...')}: {self.usage}")
        if len(words) > len(self.arguments) and "..." not in self.usage:
            wanted = f"takes only {len(self.arguments)}" if self.arguments else "takes no argument"
            raise CommandError(f"{self.name} {wanted}, not {' '.join(words)!r}: {self.usage}")

    def suggestions(self, shell: Context, position: int, word: str) -> Iterable[Suggestion]:
        """Suggest completions of the beginning of the argument at a position."""
        there = position == 0 or "..." in self.usage
        return self.complete(shell, word) if self.complete is not None and there else ()


class Section(list[Command]):
    """The commands of one section of the help, in order of definition."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title = title

    def command(
        self, usage: str, *aliases: str, complete: Complete | None = None, raw: bool = False
    ) -> Callable[[Handler], Handler]:
        """Make a command of its handler.

        The first paragraph of its docstring is the summary; what follows are details and, behind `Example:`, lines that
        can be typed.

        Args:
            usage: the name and the arguments, such as "undo [NUMBER]" or "action NAME...".
            complete: suggests completions of the first argument.
        """
        name, *arguments = usage.split()

        def add(handler: Handler) -> Handler:
            text, _, examples = inspect.cleandoc(handler.__doc__ or "").partition("Example: ")
            summary, _, details = (" ".join(part.split()) for part in text.partition("\n\n"))
            summary = summary[:1].lower() + summary[1:].removesuffix(".")
            shown = tuple(examples.split("; ")) if examples else ()
            words = tuple(arguments)
            self.append(Command(name, self._title, summary, handler, words, complete, aliases, details, shown, raw))
            return handler

        return add


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
        self.raw = frozenset(name for name, command in self._by_name.items() if command.raw)

    def find(self, name: str) -> Command:
        """Return a command by its name or an alias; raise UnknownName, which has the nearest, when there is none."""
        if name not in self._by_name:
            known = [name for command in self._commands for name in (command.name, *command.aliases)]
            raise UnknownName("command", name, known, "(`help` lists them)")
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Command]:
        return iter(self._commands)


def count_of(words: Sequence[str], otherwise: int) -> int:
    """Parse the first word as a positive number, `otherwise` by default; raise CommandError if it is not one."""
    if not words:
        return otherwise
    if not words[0].isdecimal() or int(words[0]) < 1:
        raise CommandError(f"a number of 1 or more is needed, not {words[0]!r}")
    return int(words[0])
