"""Tokens of LLVM's assembly."""

from typing import NamedTuple

__all__ = ["LexedToken"]


class LexedToken(NamedTuple):
    """A token of LLVM's assembly.

    Attributes:
        ID: number of its kind.
        kind, category: names of what it is.
        value: its text.
    """

    ID: int
    kind: str
    category: str
    value: str
