"""Output of commands: tables and progress on the terminal, or one JSON object."""

import contextlib
import json
import os
import signal
import sys
from collections.abc import Coroutine, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line, instead of tables.")]
"""The `--json` option of all commands with results."""

Workers = Annotated[
    int | None, typer.Option(help="Worker processes; one per processor by default.", min=1, show_default=False)
]
"""The `--workers` option."""

console = Console(stderr=False, highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


class CommandError(Exception):
    """A command cannot be executed; the message is for the user."""


def print_json(value: dict[str, Any]) -> None:
    """Print a JSON object on one line."""
    print(json.dumps(value), flush=True)


def answer(json: bool, value: dict[str, Any], *lines: str) -> None:
    """Print a command's result: as a JSON object, or as lines of text."""
    if json:
        print_json(value)
    for line in () if json else lines:
        print_line(line)


def print_facts(facts: Iterable[tuple[str, str | None]]) -> None:
    """Print what is known of one thing, each fact with its name before it; those that are empty are left out."""
    grid = Table.grid("", "", padding=(0, 2))
    for name, fact in facts:
        if fact:
            grid.add_row(Text(name, style="bold"), Text(fact, overflow="fold"))
    console.print(grid)


def print_line(text: str) -> None:
    """Print text without markup or wrapping, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def counted(number: int, what: str) -> str:
    """Return a number with its noun: "1 program", "2 programs"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def table(
    title: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    right: Sequence[int] = (),
    whole: Sequence[int] = (),
) -> Table:
    """Return a table. Long cells wrap.

    Args:
        right: numbers of right-aligned columns.
        whole: numbers of columns that never wrap.
    """
    result = Table(*columns, title=escape(title), title_justify="left")
    for index, column in enumerate(result.columns):
        column.overflow = "fold"
        column.justify = "right" if index in right else "left"
        column.no_wrap = index in whole
    for row in rows:
        result.add_row(*(cell if isinstance(cell, Text) else escape(str(cell)) for cell in row))
    return result


def check_writable(path: Path | None, *suffixes: str) -> None:
    """Exit with a message if a result file, if any, could not be written; called before the work.

    Args:
        path: of the file.
        suffixes: of names for what it will be; any name will do if there are none.
    """
    if path is None:
        return
    if suffixes and path.suffix and path.suffix.lower() not in suffixes:
        fail(f"cannot write {path}: its name should end in {' or '.join(suffixes)}, which is what it will be")
    if path.is_dir():
        fail(f"cannot write {path}: it is a directory")
    if not path.absolute().parent.is_dir():
        fail(f"cannot write {path}: there is no directory {path.absolute().parent}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        fail(f"cannot write {path}: permission denied")


def write_file(path: Path, content: bytes) -> None:
    """Write a result file; raise CommandError when that is not possible."""
    try:
        path.expanduser().write_bytes(content)
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror}") from error


def fail(message: str, status: int = 1) -> NoReturn:
    """Print an error, with --json also as the JSON object on the last line of standard output, and exit."""
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, markup=False)
    print_json_error(message)
    sys.exit(status)


def print_json_error(message: str) -> None:
    """Print an error as a JSON object, if the command line asks for JSON."""
    if "--json" in sys.argv:
        with contextlib.suppress(OSError):  # standard output takes nothing; standard error has said it
            print_json({"error": message})


def interrupted(message: str) -> NoReturn:
    """Say what Ctrl-C has left, with --json also as the JSON object on the last line of standard output, and exit."""
    errors.print(message, markup=False)
    print_json_error(message)
    sys.exit(130)


T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine; Ctrl-C cancels it, so that it can clean up."""
    with contextlib.closing(main):  # Ctrl-C may come before it begins
        import asyncio

        if signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, signal.SIG_DFL):
            signal.signal(signal.SIGINT, signal.default_int_handler)  # replaces the start-up handler
        try:
            import uvloop
        except ImportError:  # Windows has none
            return asyncio.run(main)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)
