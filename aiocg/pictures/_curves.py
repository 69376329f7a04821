"""Charts: curves that go in steps, and bars, beside lines of reference."""

import math
from collections.abc import Mapping, Sequence

from aiocg.pictures._drawing import CHARACTER, INK, TEXT, picture, shortened, text

COLORS = ("#0d9488", "#6366f1", "#db2777", "#65a30d", "#0284c7", "#9333ea")
LEVEL = "#d97706"
WIDTH, HEIGHT = 640.0, 260.0
LEFT, BELOW, ABOVE = 64.0, 34.0, 26.0  # pixels around the curves
TEXT_HEIGHT = 13.0  # pixels that a name of a level takes


def stairs(
    series: Mapping[str, Sequence[tuple[float, float]]],
    levels: Mapping[str, float],
    *,
    across: str,
    up: str,
    title: str = "",
) -> str:
    """Draw curves, each by its points; between two points a curve is as high as at the first.

    Args:
        series: the points, by what each curve is called.
        levels: heights of lines, by what they are called.
        across, up: what the axes are called.
        title: of the picture.
    """
    points = [point for curve in series.values() for point in curve] or [(0.0, 0.0)]
    most = max(x for x, _ in points) or 1.0
    ticks = _ticks([y for _, y in points] + list(levels.values()))
    low, high = ticks[0], ticks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + x / most * (WIDTH - LEFT - 8), ABOVE + (high - y) / (high - low) * (HEIGHT - ABOVE - BELOW)

    drawn = [text(0, 12, up, fill=TEXT), text(WIDTH, HEIGHT - 2, across, fill=TEXT, anchor="end")]
    for tick in ticks:
        _, y = place(0, tick)
        drawn += [
            _line(LEFT, y, WIDTH, y, INK, opacity=0.25),
            text(LEFT - 6, y + 4, _number(tick), fill=TEXT, anchor="end"),
        ]
    for tick in _ticks([0.0, most]):
        if tick <= most:
            drawn.append(text(place(tick, low)[0], HEIGHT - 16, _number(tick), fill=TEXT, anchor="middle"))
    free, beside = 0.0, 0.0  # below which there is no name of a level yet; how wide the names are
    for value, name in _merged(levels):
        _, y = place(0, value)
        free, words = max(y + 4, free + TEXT_HEIGHT), f"{name} {_number(value)}"
        beside = max(beside, len(words) * CHARACTER + 8)
        drawn.append(_line(LEFT, y, WIDTH, y, LEVEL, dashed=True))
        drawn.append(text(WIDTH + 6, free, words, fill=LEVEL))
    for number, (name, curve) in enumerate(series.items()):
        color = COLORS[number % len(COLORS)]
        drawn.append(_curve([place(*point) for point in curve], color))
        if len(series) > 1:
            drawn.append(text(LEFT + 110 * number + 4, 12, name, fill=color))
    return picture(WIDTH + beside, HEIGHT, drawn, title)


def _merged(levels: Mapping[str, float]) -> list[tuple[float, str]]:
    """Return the values of levels, the highest first, each with the names of all levels that have it."""
    names: dict[float, list[str]] = {}
    for name, value in levels.items():
        names.setdefault(value, []).append(name)
    return [(value, ", ".join(names[value])) for value in sorted(names, reverse=True)]


def _curve(points: Sequence[tuple[float, float]], color: str) -> str:
    if not points:
        return ""
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}" + "".join(f"H{x:.1f}V{y:.1f}" for x, y in points[1:])
    return f'<path d="{path}" fill="none" stroke="{color}" stroke-width="2"/>'


def _line(x: float, y: float, to_x: float, to_y: float, color: str, *, opacity: float = 1, dashed: bool = False) -> str:
    more = ' stroke-dasharray="5 4"' if dashed else ""
    return f'<path d="M{x:.1f} {y:.1f}L{to_x:.1f} {to_y:.1f}" stroke="{color}" stroke-opacity="{opacity}"{more}/>'


def _ticks(values: Sequence[float]) -> list[float]:
    """Return round numbers, from one below all values to one above."""
    low, high = min(values), max(values)
    span = high - low or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span))
    step = next(unit * factor for factor in (0.2, 0.5, 1, 2) if span / (unit * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.4g}"


_ROW = 20.0  # pixels from one bar to the next
_ACROSS = 420.0  # pixels of the longest bar
_BARS_ABOVE = 34.0  # pixels for the names of the lines of reference
_PLAIN, _BETTER, _WORSE = "#99b8b5", "#0d9488", "#dc2626"


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
    down = _BARS_ABOVE + _ROW * len(rows)
    before: float | None = None
    for number, (name, value) in enumerate(rows):
        y = _BARS_ABOVE + _ROW * number
        change = 0.0 if before is None else value - before
        color = _BETTER if change < 0 else _WORSE if change > 0 else _PLAIN
        width = value / most * _ACROSS
        drawn.append(text(left - 8, y + 14, name, fill=TEXT, anchor="end"))
        drawn.append(f'<rect x="{left:.1f}" y="{y + 3:.1f}" width="{width:.1f}" height="14" rx="2" fill="{color}"/>')
        said = f"{_number(value)}  {change:+,.6g}" if change else _number(value)
        drawn.append(text(left + _ACROSS + 8, y + 14, said, fill=TEXT))
        before = value
    for place, (value, name) in enumerate(_merged(levels)[::-1]):
        x = left + value / most * _ACROSS
        drawn.append(
            f'<path d="M{x:.1f} {_BARS_ABOVE - 4:.1f}V{down:.1f}" stroke="{LEVEL}" stroke-dasharray="4 3" fill="none"/>'
        )
        end = place == 0 and len(levels) > 1  # to the left of its line, the others to the right
        drawn.append(
            text(x + (-3 if end else 3), _BARS_ABOVE - 8, name, fill=LEVEL, size=11, anchor="end" if end else "")
        )
    drawn.append(f'<path d="M{left:.1f} {_BARS_ABOVE - 4:.1f}V{down:.1f}" stroke="{INK}"/>')
    return picture(left + _ACROSS + 130, down, drawn, title)
