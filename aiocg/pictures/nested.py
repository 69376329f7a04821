"""Nested boxes, from text whose lines are indented."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from aiocg.pictures._drawing import CHARACTER, LINE, RULE, picture, shortened, text

PAD = 8  # pixels within a box
GAP = 6  # pixels between what is in a box
INDENT = 2  # blanks by which what is within begins further to the right
FILLS = ("#f6f8fa", "#ecfdf5", "#d1fae5", "#a7f3d0")  # by how deep a box is


@dataclass(slots=True)
class _Line:
    """A line, and those within it."""

    words: str
    inner: "list[_Line]" = field(default_factory=list)

    @property
    def width(self) -> float:
        own = len(shortened(self.words)) * CHARACTER
        return max([own, *(one.width for one in self.inner)]) + (2 * PAD if self.inner else 0)

    @property
    def height(self) -> float:
        return LINE + (sum(one.height + GAP for one in self.inner) + PAD if self.inner else 0)


def nested(listing: str, title: str = "") -> str:
    """Draw a text as boxes: a line with others within it is a box around those.

    Args:
        listing: the text, of which each level is indented by two blanks more.
        title: of the picture.
    """
    roots = _read(listing)
    y = 0.0
    drawn: list[str] = []
    for root in roots:
        drawn += _drawn(root, 0.0, y, root.width, 0)
        y += root.height + GAP
    return picture(max((root.width for root in roots), default=0.0), max(0.0, y - GAP), drawn, title)


def _read(listing: str) -> list[_Line]:
    roots: list[_Line] = []
    above: list[tuple[int, _Line]] = []
    for words in listing.splitlines():
        if not words.strip():
            continue
        depth, line = (len(words) - len(words.lstrip())) // INDENT, _Line(words.strip())
        while above and above[-1][0] >= depth:
            above.pop()
        (above[-1][1].inner if above else roots).append(line)
        above.append((depth, line))
    return roots


def _drawn(line: _Line, x: float, y: float, width: float, depth: int) -> Iterator[str]:
    if not line.inner:
        yield text(x, y + LINE - 4, line.words)
        return
    yield (
        f'<rect class="box depth-{depth % len(FILLS)}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{line.height:.1f}" rx="4" fill="{FILLS[depth % len(FILLS)]}" stroke="{RULE}"/>'
    )
    yield text(x + PAD, y + LINE - 2, line.words)
    y += LINE + GAP
    for one in line.inner:
        yield from _drawn(one, x + PAD, y, width - 2 * PAD, depth + 1)
        y += one.height + GAP
