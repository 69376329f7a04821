"""Graphs of boxes with text, as pictures and as text for Graphviz."""

import html
import json
from dataclasses import dataclass

from aiocg.pictures import layered
from aiocg.pictures.drawing import CHARACTER, INK, LINE, PAPER, RULE, TEXT, picture, shortened, text

PAD = 8  # pixels between a box and its text
RADIUS = 4
COLORS = {"": PAPER, "here": "#99f6e4", "good": "#dcfce7", "muted": "#ffffff"}


@dataclass(frozen=True, slots=True)
class Box:
    """A node of a graph.

    Attributes:
        name: of the node.
        lines: its text.
        kind: "here", "good", "muted" or "".
        title: what is told of it besides, when the mouse is over it.
    """

    name: str
    lines: tuple[str, ...]
    kind: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge of a graph, with a text."""

    source: str
    target: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph: the first box is where it begins."""

    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...] = ()
    title: str = ""

    def dot(self) -> str:
        """Return it as text for Graphviz."""
        found = [f"digraph {_quoted(self.title)} {{", '  node [shape=box, fontname="monospace"];']
        for box in self.boxes:
            label = "".join(_quoted(line)[1:-1] + "\\l" for line in box.lines)
            found.append(f'  {_quoted(box.name)} [label="{label}"];')
        for edge in self.edges:
            label = f" [label={_quoted(edge.label)}]" if edge.label else ""
            found.append(f"  {_quoted(edge.source)} -> {_quoted(edge.target)}{label};")
        return "\n".join([*found, "}"]) + "\n"

    def svg(self) -> str:
        """Return it as a picture."""
        sizes = {box.name: _size(box) for box in self.boxes}
        placed = layered.layout(sizes, [(edge.source, edge.target) for edge in self.edges])
        drawn = [_path(points, edge.label) for points, edge in zip(placed.paths, self.edges, strict=True)]
        drawn += [_box(box, *placed.places[box.name], *sizes[box.name]) for box in self.boxes]
        return picture(placed.width, placed.height, drawn, self.title)

    def _repr_svg_(self) -> str:
        return self.svg()


def _size(box: Box) -> tuple[float, float]:
    width = max((len(shortened(line)) for line in box.lines), default=1) * CHARACTER + 2 * PAD
    return max(width, 28.0), len(box.lines) * LINE + 2 * PAD - 4


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    """Draw a box whose middle is at a place."""
    left, top = x - width / 2, y - height / 2
    title = f"<title>{html.escape(box.title)}</title>" if box.title else ""
    shape = (
        f'<rect class="box {box.kind}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{RADIUS}" fill="{COLORS[box.kind]}" stroke="{RULE}"/>'
    )
    lines = (text(left + PAD, top + PAD + 8 + LINE * place, line) for place, line in enumerate(box.lines))
    return f"<g>{title}{shape}{''.join(lines)}</g>"


def _path(points: list[tuple[float, float]], label: str) -> str:
    """Draw an edge as a curve that leaves and arrives upright, with its text near the beginning."""
    (x, y), rest = points[0], points[1:]
    drawn = [f"M{x:.1f} {y:.1f}"]
    for toward_x, toward_y in rest:
        middle = (y + toward_y) / 2
        drawn.append(f"C{x:.1f} {middle:.1f} {toward_x:.1f} {middle:.1f} {toward_x:.1f} {toward_y:.1f}")
        x, y = toward_x, toward_y
    line = f'<path d="{"".join(drawn)}" fill="none" stroke="{INK}" marker-end="url(#arrow)"/>'
    if not label:
        return line
    (x, y), (toward_x, toward_y) = points[0], points[1]
    return line + text((x * 3 + toward_x) / 4 + 4, (y * 3 + toward_y) / 4 + 4, label, fill=TEXT, size=10)


def _quoted(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
