"""How commands speak: tables and progress for people on the terminal, one JSON object for programs."""

import json
import sys
from typing import Any, NoReturn

from rich.console import Console

__all__ = ["console", "fail", "print_json"]

console = Console(stderr=False, highlight=False, soft_wrap=False)
errors = Console(stderr=True, highlight=False, soft_wrap=True)


def print_json(value: dict[str, Any]) -> None:
    """Print one JSON object on a line of its own."""
    print(json.dumps(value), flush=True)


def fail(message: str, status: int = 1) -> NoReturn:
    """Print an error and exit."""
    errors.print("error:", style="bold red", end=" ")
    errors.print(message, markup=False)
    sys.exit(status)
