"""What has changed in a program's text, where LLVM has given new numbers to most of its values. Pure.

LLVM numbers the values that have no name, so a pass that removes one instruction changes nearly every line behind it.
Here lines are equal that differ in such numbers only, and functions are compared with those of the same name.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

__all__ = ["difference"]

CONTEXT = 3  # lines around a change
_NUMBERED = re.compile(r"([%#!])\d+|^\d+:\s*")
_FUNCTION = re.compile(r'define .*?@("[^"]*"|[\w.$-]+)\(')


class _Part(NamedTuple):
    """What was done to some lines: those from `start` to `end` became those from `new_start` to `new_end`."""

    equal: bool
    start: int
    end: int
    new_start: int
    new_end: int


def difference(before: str, after: str, old: str, new: str) -> list[str]:
    """Return how the text of a program has changed, as lines in unified format, without line ends.

    Args:
        before, after: the texts.
        old, new: what they are called in the first two lines.

    Returns:
        Nothing when the texts differ in numbers only, or not at all.
    """
    one, other = before.splitlines(), after.splitlines()
    parts = _merged(_compared(one, other))
    lines = [line for hunk in _hunks(parts) for line in _written(hunk, one, other)]
    return [f"--- {old}", f"+++ {new}", *lines] if lines else []


def _compared(one: Sequence[str], other: Sequence[str]) -> Iterator[_Part]:
    """Compare section by section: what is between functions, and each function with that of its name."""
    sections, new_sections = _sections(one), _sections(other)
    names, new_names = [name for name, _, _ in sections], [name for name, _, _ in new_sections]
    for tag, first, last, new_first, new_last in SequenceMatcher(None, names, new_names, autojunk=False).get_opcodes():
        if tag != "equal":
            lines = _at(sections, first), _at(sections, last)
            yield _Part(False, *lines, _at(new_sections, new_first), _at(new_sections, new_last))
            continue
        for (_, start, end), (_, new_start, new_end) in zip(
            sections[first:last], new_sections[new_first:new_last], strict=True
        ):
            keys, new_keys = _keys(one[start:end]), _keys(other[new_start:new_end])
            if keys == new_keys:
                yield _Part(True, start, end, new_start, new_end)
                continue
            for kind, i, j, k, m in SequenceMatcher(None, keys, new_keys, autojunk=False).get_opcodes():
                yield _Part(kind == "equal", start + i, start + j, new_start + k, new_start + m)


def _sections(lines: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the sections of a text: a name, the number of the first line, and that of the line behind the last."""
    found: list[tuple[str, int, int]] = []
    name, start, inside = "", 0, False
    for number, line in enumerate(lines):
        if not inside and (function := _FUNCTION.match(line)):
            found.append((f"before {function[1]}", start, number))
            name, start, inside = function[1], number, True
        elif inside and line == "}":
            found.append((name, start, number + 1))
            start, inside = number + 1, False
    return [*found, ("the end", start, len(lines))]


def _at(sections: Sequence[tuple[str, int, int]], index: int) -> int:
    return sections[index][1] if index < len(sections) else sections[-1][2]


def _keys(lines: Sequence[str]) -> list[str]:
    return [_NUMBERED.sub(r"\1", line) for line in lines]


def _merged(parts: Iterator[_Part]) -> list[_Part]:
    merged: list[_Part] = []
    for part in parts:
        if merged and merged[-1].equal == part.equal:
            part = merged.pop()._replace(end=part.end, new_end=part.new_end)
        merged.append(part)
    return merged


def _hunks(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """Give the changes with the lines around them; those that are close together are one hunk."""
    hunk: list[_Part] = []
    for part in parts:
        length = part.end - part.start
        if not part.equal:
            hunk.append(part)
        elif not hunk:
            skipped = max(length - CONTEXT, 0)
            hunk = [part._replace(start=part.start + skipped, new_start=part.new_start + skipped)]
        elif length <= 2 * CONTEXT:
            hunk.append(part)
        else:
            yield [*hunk, part._replace(end=part.start + CONTEXT, new_end=part.new_start + CONTEXT)]
            hunk = [part._replace(start=part.end - CONTEXT, new_start=part.new_end - CONTEXT)]
    if any(not part.equal for part in hunk):
        last = hunk[-1]
        if last.equal:
            hunk[-1] = last._replace(
                end=min(last.end, last.start + CONTEXT), new_end=min(last.new_end, last.new_start + CONTEXT)
            )
        yield hunk


def _written(hunk: Sequence[_Part], one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    if all(part.equal for part in hunk):
        return
    start, end, new_start, new_end = hunk[0].start, hunk[-1].end, hunk[0].new_start, hunk[-1].new_end
    yield f"@@ -{_range(start, end)} +{_range(new_start, new_end)} @@"
    for part in hunk:
        if part.equal:
            yield from (f" {line}" for line in other[part.new_start : part.new_end])
        else:
            yield from (f"-{line}" for line in one[part.start : part.end])
            yield from (f"+{line}" for line in other[part.new_start : part.new_end])


def _range(start: int, end: int) -> str:
    """Return lines as unified diffs number them: from 1, and an empty range by the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"
