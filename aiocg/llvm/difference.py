"""Differences of two program texts, despite renumbered values. Pure.

LLVM numbers the values that have no name, so a pass that removes one instruction changes nearly every line behind it.
Here lines are equal that differ in such numbers only, and functions are compared with those of the same name.
"""

import re
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

_NUMBERED = re.compile(r"([%#!])\d+|^\d+:\s*")
_FUNCTION = re.compile(r'define .*?@("[^"]*"|[\w.$-]+)\(')

_Opcode = tuple[str, int, int, int, int]  # as difflib has them


def difference(before: str, after: str, old: str, new: str) -> list[str]:
    """Return how the text of a program has changed, as lines in unified format, without line ends.

    Args:
        before, after: the texts.
        old, new: what they are called in the first two lines.

    Returns:
        Nothing when the texts differ in numbers only, or not at all.
    """
    one, other = before.splitlines(), after.splitlines()
    lines = []
    for group in _ByFunction(one, other).get_grouped_opcodes():
        lines.append(f"@@ -{_range(group[0][1], group[-1][2])} +{_range(group[0][3], group[-1][4])} @@")
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in other[new_start:new_end]]
            else:
                lines += [f"-{line}" for line in one[start:end]] + [f"+{line}" for line in other[new_start:new_end]]
    return [f"--- {old}", f"+++ {new}", *lines] if lines else []


def _range(start: int, end: int) -> str:
    return f"{start + (end > start)},{end - start}"  # an empty range is told by the line before it


class _ByFunction(SequenceMatcher[str]):
    """Compares section by section: what is between functions, and each function with that of its name."""

    def __init__(self, one: Sequence[str], other: Sequence[str]) -> None:
        super().__init__()
        self._one, self._other = one, other

    def get_opcodes(self) -> list[_Opcode]:  # type: ignore[override]  # of which `get_grouped_opcodes` makes hunks
        merged: list[_Opcode] = []
        for tag, start, end, new_start, new_end in self._parts():
            tag = tag if tag == "equal" else "replace"
            if merged and merged[-1][0] == tag:
                _, start, _, new_start, _ = merged.pop()
            merged.append((tag, start, end, new_start, new_end))
        return merged

    def _parts(self) -> Iterator[_Opcode]:
        sections, new_sections = _sections(self._one), _sections(self._other)
        names, new_names = [name for name, _ in sections[:-1]], [name for name, _ in new_sections[:-1]]
        for tag, first, last, new_first, new_last in _opcodes(names, new_names):
            if tag != "equal":
                yield tag, sections[first][1], sections[last][1], new_sections[new_first][1], new_sections[new_last][1]
                continue
            for index, new_index in zip(range(first, last), range(new_first, new_last), strict=True):
                start, new_start = sections[index][1], new_sections[new_index][1]
                lines = _keys(self._one[start : sections[index + 1][1]])
                new_lines = _keys(self._other[new_start : new_sections[new_index + 1][1]])
                for kind, i, j, k, m in _opcodes(lines, new_lines):
                    yield kind, start + i, start + j, new_start + k, new_start + m


def _opcodes(one: Sequence[str], other: Sequence[str]) -> list[_Opcode]:
    if one == other:
        return [("equal", 0, len(one), 0, len(other))]
    return [(*opcode,) for opcode in SequenceMatcher(None, one, other, autojunk=False).get_opcodes()]


def _sections(lines: Sequence[str]) -> list[tuple[str, int]]:
    """Return the name of each section and the number of its first line; then the number of all lines."""
    found, inside = [], False
    name, start = "", 0
    for number, line in enumerate(lines):
        if not inside and (function := _FUNCTION.match(line)):
            found.append((f"before {function[1]}", start))
            name, start, inside = function[1], number, True
        elif inside and line == "}":
            found.append((name, start))
            start, inside = number + 1, False
    return [*found, ("the rest", start), ("", len(lines))]


def _keys(lines: Sequence[str]) -> list[str]:
    return [_NUMBERED.sub(r"\1", line) for line in lines]
