"""Texts cut to a length."""

import itertools
from collections import deque
from collections.abc import Iterable

__all__ = ["truncate", "truncate_lines"]


def truncate(string: object, max_line_len: int = 60, max_lines: int = 1, tail: bool = False) -> str:
    """Cut a text to so many lines of so many characters; what was cut ends in "...".

    Args:
        string: the text, or anything that `str` makes one of.
        max_line_len: characters in a line.
        max_lines: lines.
        tail: keep the last lines instead of the first.
    """
    return truncate_lines(str(string).split("\n"), max_line_len, max_lines, tail)


def truncate_lines(lines: Iterable[object], max_line_len: int = 60, max_lines: int = 1, tail: bool = False) -> str:
    """Cut lines as `truncate` does, and join them; no more of them are consumed than are needed.

    Raises:
        ValueError: when there is no room for the dots.
    """
    if max_line_len <= 3:
        raise ValueError(f"a line of {max_line_len} characters has no room for text and dots")

    def cut(line: str) -> str:
        return line if len(line) <= max_line_len else f"{line[: max_line_len - 3]}..."

    remaining = iter(lines)
    kept = deque(remaining, max_lines) if tail else list(itertools.islice(remaining, max_lines))
    result = [cut(str(line)) for line in kept]
    if result and next(remaining, None) is not None:
        result[-1] = cut(f"{result[-1]}...")
    return "\n".join(result)
