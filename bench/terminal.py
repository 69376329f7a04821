"""Terminal recordings as animated SVG."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from aiocg.pictures._drawing import CHARACTER, LINE, picture

GROUND, INK = "#1f2328", "#e6edf3"
COLORS = (
    "#6e7781", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#e6edf3",
)  # fmt: skip
PAD = 10  # pixels around the text
FARTHEST = 500  # rows or columns that the cursor is moved by at once
LONGEST_REST = 1.0  # seconds for which nothing changes

_TOKEN = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b\][^\x07]*\x07|\x1b.|[\r\n\b]|[^\x1b\r\n\b]")

Style = tuple[str, bool]  # colour, and whether it is bold
Cell = tuple[str, Style]
Row = tuple[Cell, ...]
PLAIN: Style = (INK, False)


@dataclass(slots=True)
class Screen:
    """A terminal as high as what is written to it.

    Attributes:
        rows: what is on it.
    """

    rows: list[list[Cell]] = field(default_factory=lambda: [[]])
    _row: int = 0
    _column: int = 0
    _style: Style = PLAIN

    def write(self, text: str) -> None:
        """Show text, and do what its control sequences say: colours, and moves of the cursor within the picture."""
        for token in _TOKEN.finditer(text):
            if token[2]:
                self._control(token[2], [int(one) if one.isdecimal() else 0 for one in token[1].split(";")])
            elif token[0] == "\n":
                self._down(1)
            elif token[0] == "\r":
                self._column = 0
            elif token[0] == "\b":
                self._column = max(0, self._column - 1)
            elif token[0] >= " ":
                row = self.rows[self._row]
                row += [(" ", PLAIN)] * (self._column + 1 - len(row))
                row[self._column] = token[0], self._style
                self._column += 1

    def _down(self, count: int) -> None:
        self._row += count
        self.rows += [[] for _ in range(self._row + 1 - len(self.rows))]

    def _control(self, kind: str, numbers: list[int]) -> None:
        count = max(1, numbers[0])
        if kind == "A":
            self._row = max(0, self._row - count)
        elif kind == "B":
            self._down(min(count, FARTHEST))
        elif kind == "C":
            self._column = min(self._column + count, FARTHEST)
        elif kind == "D":
            self._column = max(0, self._column - count)
        elif kind == "G":
            self._column = min(count, FARTHEST) - 1
        elif kind == "K":
            row = self.rows[self._row]
            del row[0 if numbers[0] == 2 else self._column :]
        elif kind == "J":
            del self.rows[self._row + 1 :], self.rows[self._row][self._column :]
        elif kind == "m":
            self._style = _styled(self._style, numbers)


def _styled(style: Style, numbers: list[int]) -> Style:
    color, bold = style
    for number in numbers:
        if number == 0:
            color, bold = PLAIN
        elif number in (1, 22):
            bold = number == 1
        elif number == 2:
            color = COLORS[0]
        elif number == 39:
            color = INK
        elif 30 <= number < 38 or 90 <= number < 98:
            color = COLORS[number % 10]
    return color, bold


def recording(chunks: Sequence[tuple[float, str]], title: str = "", columns: int = 0) -> str:
    """Draw what was written to a terminal.

    Args:
        chunks: seconds, and what was written then. Rests are shortened.
        title: of the picture.
        columns: how wide it is at least.
    """
    screen, shown, now, last = Screen(), list[dict[int, Row]](), 0.0, 0.0
    times = []
    for seconds, text in chunks:
        now += min(seconds - last, LONGEST_REST)
        last = seconds
        screen.write(text)
        shown.append({number: tuple(row) for number, row in enumerate(screen.rows)})
        times.append(now)
    height = max((max(rows) + 1 for rows in shown), default=0)
    columns = max([columns, *(len(row) for rows in shown for row in rows.values())])
    width, down = columns * CHARACTER + 2 * PAD, height * LINE + 2 * PAD
    drawn = [f'<rect width="{width:.1f}" height="{down:.1f}" rx="6" fill="{GROUND}"/>']
    for number in range(height):
        course = [(time, rows.get(number, ())) for time, rows in zip(times, shown, strict=True)]
        drawn += _line(number, course)
    return picture(width, down, drawn, title)


def _line(number: int, course: Sequence[tuple[float, Row]]) -> Iterator[str]:
    """Yield what a line shows, one thing after the other."""
    parts = [(row, next(same)[0]) for row, same in groupby(course, key=lambda one: one[1])]
    for place, (row, start) in enumerate(parts):
        words = "".join(_words(number, row))
        if not words:
            continue
        if place + 1 < len(parts):
            time = f'begin="{start:.2f}s" end="{parts[place + 1][1]:.2f}s"'
            yield f'<g visibility="hidden"><set attributeName="visibility" to="visible" {time}/>{words}</g>'
        elif start:
            time = f'begin="0s" end="{start:.2f}s"'
            yield f'<g><set attributeName="visibility" to="hidden" {time}/>{words}</g>'
        else:
            yield f"<g>{words}</g>"


def _words(number: int, row: Row) -> Iterator[str]:
    column, y = 0, PAD + (number + 1) * LINE - 4
    for (color, bold), cells in groupby(row, key=lambda cell: cell[1]):
        text = "".join(character for character, _ in cells)
        if text.strip():
            weight = ' font-weight="bold"' if bold else ""
            yield (
                f'<text x="{PAD + column * CHARACTER:.1f}" y="{y}" fill="{color}"{weight} xml:space="preserve" '
                f'textLength="{len(text) * CHARACTER:.1f}">{html.escape(text, quote=False)}</text>'
            )
        column += len(text)
