"""Texts for terminals."""

import shlex
from collections.abc import Iterable

__all__ = ["ShellFormatCodes", "emph", "indent", "join_cmd", "plural"]


class ShellFormatCodes:
    """Escape sequences of terminals."""

    PURPLE = "\033[95m"
    CYAN = "\033[96m"
    DARKCYAN = "\033[36m"
    BLUE = "\033[94m"
    GREEN = "\033[92m"
    YELLOW = "\033[93m"
    RED = "\033[91m"
    BOLD = "\033[1m"
    UNDERLINE = "\033[4m"
    END = "\033[0m"


def emph(stringable: object) -> str:
    """Return a text in bold blue."""
    return f"{ShellFormatCodes.BOLD}{ShellFormatCodes.BLUE}{stringable}{ShellFormatCodes.END}"


def plural(quantity: int, singular: str, plural: str) -> str:
    """Return the word that goes with a number."""
    return singular if quantity == 1 else plural


def indent(string: object, n: int = 4) -> str:
    """Return a text with so many spaces before each line."""
    return "\n".join(" " * n + line for line in str(string).split("\n"))


def join_cmd(cmd: Iterable[str]) -> str:
    """Return a command line of words, quoted where they need it."""
    return shlex.join(cmd)
