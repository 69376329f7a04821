"""The report as one page of HTML that needs nothing else, a map of each image in which areas are bytes; and a badge."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from aiocg.shrink.report import ImageReport, Report, Symbol

WIDTH, HEIGHT = 1000.0, 500.0
SMALLEST = 12.0  # pixels of a side from which a box has a label

_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>aiocg shrink</title>
<style>
:root {{ color-scheme: light dark }}
body {{ font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 1000px; padding: 0 1rem }}
table {{ border-collapse: collapse }} td, th {{ padding: .1rem .8rem; text-align: right }}
td:first-child, th:first-child {{ text-align: left; overflow-wrap: anywhere }}
svg {{ width: 100%; height: auto }} rect {{ stroke: Canvas }} text {{ font-size: 11px; fill: #000 }}
</style>
<h1>{title}</h1>
{images}
</html>
"""


_BADGE = """<svg xmlns="http://www.w3.org/2000/svg" width="150" height="20" role="img" aria-label="size: {gain}">
<rect width="40" height="20" fill="#555"/><rect x="40" width="110" height="20" fill="#087f7b"/>
<g fill="#fff" font-family="Verdana,sans-serif" font-size="11" text-anchor="middle">
<text x="20" y="14">size</text><text x="95" y="14">{gain}</text></g></svg>
"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of the map."""

    left: float
    top: float
    width: float
    height: float


def page(report: Report) -> str:
    """Return a page that shows a report."""
    gain = f"{report.before:,} &rarr; {report.after:,} bytes"
    alone = "".join(f"<li>{escape(name)}: {escape(reason)}" for name, reason in report.left_alone.items())
    images = "".join(map(_image, report.images)) + (f"<h2>Left alone</h2><ul>{alone}</ul>" if alone else "")
    return _PAGE.format(title=gain, images=images)


def badge(report: Report) -> str:
    """Return a picture, for a README, that says how large all images are and what was gained, as SVG."""
    gain = f" ({(report.after - report.before) / report.before:+.1%})" if report.before else ""
    return _BADGE.format(gain=f"{report.after:,} B{gain}")


def squarified(sizes: Sequence[float], box: Box) -> list[Box]:
    """Divide a rectangle in proportion to sizes, in boxes as near to squares as rows of them can be.

    Bruls, Huizing and van Wijk, Squarified Treemaps, 2000.

    Args:
        sizes: greater than 0, the largest first.
        box: the rectangle.
    """
    boxes: list[Box] = []
    rest, scale = box, box.width * box.height / sum(sizes) if sizes else 0.0
    areas = [size * scale for size in sizes]
    while areas:
        side = min(rest.width, rest.height)
        count = 1
        while count < len(areas) and _worst(areas[: count + 1], side) <= _worst(areas[:count], side):
            count += 1
        row, areas = areas[:count], areas[count:]
        depth = sum(row) / side if side else 0.0
        at = 0.0
        for area in row:
            length = area / depth if depth else 0.0
            if rest.width >= rest.height:
                boxes.append(Box(rest.left, rest.top + at, depth, length))
            else:
                boxes.append(Box(rest.left + at, rest.top, length, depth))
            at += length
        if rest.width >= rest.height:
            rest = Box(rest.left + depth, rest.top, rest.width - depth, rest.height)
        else:
            rest = Box(rest.left, rest.top + depth, rest.width, rest.height - depth)
    return boxes


def _worst(areas: Sequence[float], side: float) -> float:
    """Return the worst ratio of sides in a row."""
    total = sum(areas)
    return max(max(side * side * area / total**2, total**2 / (side * side * area)) for area in areas)


def _image(image: ImageReport) -> str:
    sizes = "".join(
        f"<tr><td>{escape(name)}{' (taken)' if name == image.chosen else ''}<td>{one.bytes:,}<td>{one.code:,}"
        f"<td>{one.constants:,}<td>{one.data:,}<td>{one.unwind:,}"
        for name, one in image.images.items()
    )
    head = "<tr><th><th>bytes<th>code<th>constants<th>data<th>unwind tables"
    notes = "".join(f"<li>{escape(note)}" for note in image.notes)
    return (
        f"<h2>{escape(image.name)}</h2><table>{head}{sizes}</table>{f'<ul>{notes}</ul>' if notes else ''}"
        f'<svg viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img">{"".join(_rectangles(image.symbols))}</svg>'
    )


def _rectangles(symbols: Sequence[Symbol]) -> Iterator[str]:
    """Draw each symbol as large as it was; what is left of it is dark."""
    shown = sorted((one for one in symbols if one.before), key=lambda one: -one.before)
    for symbol, box in zip(shown, squarified([one.before for one in shown], Box(0, 0, WIDTH, HEIGHT)), strict=True):
        left = min(symbol.after / symbol.before, 1.0)
        colour = "#e99" if symbol.after > symbol.before else "#8bd" if symbol.after else "#bbb"
        cause = f", {escape(symbol.cause)}" if symbol.cause else ""
        title = f"{escape(symbol.name)}: {symbol.before:,} &rarr; {symbol.after:,}{cause}"
        size = f'x="{box.left:.1f}" width="{box.width:.1f}"'
        yield f'<g><title>{title}</title><rect {size} y="{box.top:.1f}" height="{box.height:.1f}" fill="#dfe6d8"/>'
        height = box.height * left
        yield f'<rect {size} y="{box.top + box.height - height:.1f}" height="{height:.1f}" fill="{colour}"/>'
        if box.height > SMALLEST and box.width > SMALLEST:
            room = int(box.width / 6.5)
            yield f'<text x="{box.left + 3:.1f}" y="{box.top + 11:.1f}">{escape(symbol.name[:room])}</text>'
        yield "</g>"
