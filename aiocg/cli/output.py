"""How commands speak: tables and progress for people on the terminal, one JSON object for programs."""

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console

__all__ = ["Json", "check_writable", "console", "counted", "errors", "fail", "print_json", "print_line", "write_file"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line, instead of tables.")]
"""The option that all commands have which give a result."""

console = Console(stderr=False, highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    print(json.dumps(value), flush=True)


def print_line(text: str) -> None:
    """Print text as it is, on one line however long, so that it can be copied."""
    console.print(text, markup=False, soft_wrap=True)


def counted(number: int, what: str) -> str:
    """Return a number with the name of what is counted: "1 program", "2 programs"."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def check_writable(path: Path | None) -> None:
    """Exit with a message when a result file could not be written: before the work, not after it.

    Args:
        path: of the file, None if there is to be none.
    """
    if path is None:
        return
    if path.is_dir():
        fail(f"cannot write {path}: it is a directory")
    if not path.absolute().parent.is_dir():
        fail(f"cannot write {path}: there is no directory {path.absolute().parent}")
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        fail(f"cannot write {path}: permission denied")


def write_file(path: Path, content: bytes) -> None:
    """Write a result file; exit with a message when that is not possible."""
    try:
        path.write_bytes(content)
    except OSError as error:
        fail(f"cannot write {path}: {error.strerror}")


def fail(message: str, status: int = 1) -> NoReturn:
    """Print an error and exit."""
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, markup=False)
    sys.exit(status)
