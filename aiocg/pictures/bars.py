"""Bars below each other, each with its name and its value, beside lines of reference."""

from collections.abc import Mapping, Sequence

from aiocg.pictures.curves import merged
from aiocg.pictures.drawing import CHARACTER, INK, TEXT, picture, shortened, text

__all__ = ["bars"]

ROW = 20.0  # pixels from one bar to the next
ACROSS = 420.0  # pixels of the longest bar
ABOVE = 34.0  # pixels for the names of the lines of reference
COLOR, BETTER, WORSE, LEVEL = "#99b8b5", "#0d9488", "#dc2626", "#d97706"


def bars(rows: Sequence[tuple[str, float]], levels: Mapping[str, float], title: str = "") -> str:
    """Draw values, and how each differs from the one before.

    Args:
        rows: what each value is called, and the value; none is negative.
        levels: lines of reference, by what they are called.
        title: what is drawn.
    """
    left = max((len(shortened(name)) for name, _ in rows), default=0) * CHARACTER + 12
    most = max([value for _, value in rows] + list(levels.values()), default=0.0) or 1.0
    drawn = [text(0, 12, title, fill=TEXT)]
    down = ABOVE + ROW * len(rows)
    before: float | None = None
    for number, (name, value) in enumerate(rows):
        y = ABOVE + ROW * number
        change = 0.0 if before is None else value - before
        color = BETTER if change < 0 else WORSE if change > 0 else COLOR
        width = value / most * ACROSS
        drawn.append(text(left - 8, y + 14, name, fill=TEXT, anchor="end"))
        drawn.append(f'<rect x="{left:.1f}" y="{y + 3:.1f}" width="{width:.1f}" height="14" rx="2" fill="{color}"/>')
        said = f"{_number(value)}  {change:+,.6g}" if change else _number(value)
        drawn.append(text(left + ACROSS + 8, y + 14, said, fill=TEXT))
        before = value
    for place, (value, name) in enumerate(merged(levels)[::-1]):
        x = left + value / most * ACROSS
        drawn.append(
            f'<path d="M{x:.1f} {ABOVE - 4:.1f}V{down:.1f}" stroke="{LEVEL}" stroke-dasharray="4 3" fill="none"/>'
        )
        end = place == 0 and len(levels) > 1  # to the left of its line, the others to the right
        drawn.append(text(x + (-3 if end else 3), ABOVE - 8, name, fill=LEVEL, size=11, anchor="end" if end else ""))
    drawn.append(f'<path d="M{left:.1f} {ABOVE - 4:.1f}V{down:.1f}" stroke="{INK}"/>')
    return picture(left + ACROSS + 130, down, drawn, title)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"
