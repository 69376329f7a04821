"""Graphs of boxes with text, control-flow graphs from LLVM's text, and nested boxes, as pictures."""

import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from aiocg.pictures._drawing import CHARACTER, INK, LINE, PAPER, RULE, TEXT, picture, shortened, text

PAD = 8  # pixels between a box and its text
RADIUS = 4
COLORS = {"": PAPER, "here": "#99f6e4", "good": "#dcfce7", "muted": "#ffffff"}


# ---------------------- Places for the nodes of a graph, in layers from top to bottom (Sugiyama, Tagawa and Toda, 1981)

# Edges that would close a circle are turned around. A node's layer is the longest way to it; an edge over several
# layers gets a bend in each between. The order in a layer, and the places, follow from the neighbours above and below,
# in turns.

BESIDE, BELOW = 22.0, 38.0  # pixels between nodes
ORDERINGS, MOVES = 8, 12  # how often layers are put in order, and moved
BEND, LOOP = 10.0, 18.0  # pixels that an edge is wide where it passes a layer, and that it reaches out to come back

Point = tuple[float, float]
Node = str | tuple[int, int]  # a node, or the bend of an edge in a layer
Near = Mapping[Node, list[Node]]


class _Layout(NamedTuple):
    """The middle of each node, the points that each edge goes through, in the order of the edges, and the size."""

    places: dict[str, Point]
    paths: list[list[Point]]
    width: float
    height: float


def layout(sizes: Mapping[str, Point], edges: Sequence[tuple[str, str]]) -> _Layout:
    """Find places for nodes.

    Args:
        sizes: width and height of each node; the first one is where the graph begins.
        edges: between nodes; there may be several between two, and from a node to itself.
    """
    order, turned = _followed(list(sizes), edges)
    down = [(b, a) if place in turned else (a, b) for place, (a, b) in enumerate(edges)]
    layer = dict.fromkeys(order, 0)
    for name in order:
        layer.update((b, max(layer[b], layer[a] + 1)) for a, b in down if a == name != b)
    rows: list[list[Node]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    ways: list[list[Node]] = []
    for name in order:
        rows[layer[name]].append(name)
    for place, (a, b) in enumerate(down):
        bends: list[Node] = [(place, row) for row in range(layer[a] + 1, layer[b])]
        for row, bend in enumerate(bends, layer[a] + 1):
            rows[row].append(bend)
        ways.append([a, *bends, b])
    size = {node: sizes[node] if isinstance(node, str) else (BEND, 0.0) for row in rows for node in row}
    above: dict[Node, list[Node]] = defaultdict(list)
    below: dict[Node, list[Node]] = defaultdict(list)
    for way in ways:
        for one, other in pairwise(way):
            if one != other:
                below[one].append(other)
                above[other].append(one)
    _order(rows, above, below)
    x = _across(rows, above, below, {node: width for node, (width, _) in size.items()})
    heights = [max(size[node][1] for node in row) for row in rows]
    size.update((node, (BEND, heights[node[1]])) for node in size if not isinstance(node, str))
    tops = [sum(heights[:row]) + BELOW * row for row in range(len(rows))]
    places = {node: (x[node], tops[row] + heights[row] / 2) for row, nodes in enumerate(rows) for node in nodes}
    paths = [list(points) for points in _points(ways, places, size)]
    paths = [points[::-1] if place in turned else points for place, points in enumerate(paths)]
    right = max(
        [places[node][0] + size[node][0] / 2 for node in places] + [one for way in paths for one, _ in way] + [0]
    )
    return _Layout({name: places[name] for name in sizes}, paths, right, tops[-1] + heights[-1] if rows else 0.0)


def _followed(names: Sequence[str], edges: Sequence[tuple[str, str]]) -> tuple[list[str], set[int]]:
    """Follow the edges from the first node. Return the nodes, those before others that lead to them, and the edges that
    close circles, to which this does not apply."""
    after: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for place, (a, b) in enumerate(edges):
        after[a] += [(place, b)] if a != b else []
    rest = {name: iter(after[name][::-1]) for name in names}
    found, seen, back = list[str](), set[str](), set[int]()
    for root in names:
        stack = [] if root in seen else [root]
        above = set(stack)
        while stack:
            seen.add(stack[-1])
            place, other = next(rest[stack[-1]], (-1, ""))
            if place < 0:
                found.append(stack.pop())
                above.discard(found[-1])
            elif other in above:
                back.add(place)
            elif other not in seen:
                stack.append(other)
                above.add(other)
    return found[::-1], back


def _order(rows: list[list[Node]], *near: Near) -> None:
    """Sort each row by the mean place of its nodes' neighbours above, then below, in turns."""
    place = {node: float(index) for row in rows for index, node in enumerate(row)}
    for turn in range(ORDERINGS):
        for row in reversed(rows) if turn % 2 else rows:
            row.sort(key=lambda node: _mean(place, near[turn % 2].get(node, ()), node))
            place.update((node, float(index)) for index, node in enumerate(row))


def _across(rows: list[list[Node]], above: Near, below: Near, width: Mapping[Node, float]) -> dict[Node, float]:
    """Return the middle of each node, as near to the mean of its neighbours as the row has room."""
    x = dict.fromkeys(width, 0.0)
    for turn in range(MOVES):
        near = below if turn % 2 else above
        for row in reversed(rows) if turn % 2 else rows:
            right = [_mean(x, near.get(node, ()), node) for node in row]
            left = list(right)  # the row is pushed apart to the right, and to the left, and is then halfway between
            gaps = [(width[one] + width[other]) / 2 + BESIDE for one, other in pairwise(row)]
            for place, gap in enumerate(gaps):
                right[place + 1] = max(right[place + 1], right[place] + gap)
            for place, gap in reversed(list(enumerate(gaps))):
                left[place] = min(left[place], left[place + 1] - gap)
            x.update((node, (one + other) / 2) for node, one, other in zip(row, right, left, strict=True))
    start = min((x[node] - width[node] / 2 for node in x), default=0.0)
    return {node: place - start for node, place in x.items()}


def _mean(values: Mapping[Node, float], near: Sequence[Node], node: Node) -> float:
    return sum(values[one] for one in near) / len(near) if near else values[node]


def _points(ways: list[list[Node]], places: Mapping[Node, Point], size: Mapping[Node, Point]) -> Iterator[list[Point]]:
    """Yield the points of each edge. Those of one node leave it, and come to it, beside each other."""
    ends: dict[tuple[Node, int], list[tuple[float, int]]] = defaultdict(list)
    for number, way in enumerate(ways):
        ends[way[0], 1].append((places[way[1]][0], number))
        ends[way[-1], -1].append((places[way[-2]][0], number))
    for number, way in enumerate(ways):
        x, y = places[way[0]]
        if way[0] == way[-1]:
            right = x + size[way[0]][0] / 2
            yield [(right, y + 7), (right + LOOP, y + 7), (right + LOOP, y - 7), (right, y - 7)]
            continue
        tips = []
        for node, side in ((way[0], 1), (way[-1], -1)):
            others = [one for _, one in sorted(ends[node, side])]
            share = (others.index(number) + 1) / (len(others) + 1) - 0.5
            (x, y), (width, height) = places[node], size[node]
            tips.append((x + 0.8 * width * share, y + side * height / 2))
        bends = [(places[one][0], places[one][1] + side * size[one][1] / 2) for one in way[1:-1] for side in (-1, 1)]
        yield [tips[0], *bends, tips[1]]


# ------------------------------------------------------ Graphs of boxes with text, as pictures and as text for Graphviz


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
        placed = layout(sizes, [(edge.source, edge.target) for edge in self.edges])
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


ENTRY = "entry"  # what the first block is called that has no name
SHOWN = 12  # instructions of a block that are shown

_FUNCTION = re.compile(r'^define .*?@("[^"]*"|[\w.$-]+)\(')
_BLOCK = re.compile(r'^("[^"]*"|[\w.$-]+):')
_INSTRUCTION = re.compile(r"^  [^ \]]")
_LABEL = re.compile(r'label %("[^"]*"|[\w.$-]+)')
_CASE = re.compile(r'i\d+ (-?\d+), label %("[^"]*"|[\w.$-]+)')


@dataclass(slots=True)
class _Block:
    """A basic block.

    Attributes:
        name: its label, or `ENTRY`.
        instructions: a line each; one that has several, such as a switch, is one line here.
    """

    name: str
    instructions: list[str] = field(default_factory=list)

    def successors(self) -> Iterator[tuple[str, str]]:
        """Yield the blocks that may come next, each with when it does."""
        if not self.instructions:
            return
        last = self.instructions[-1]
        labels = [one.strip('"') for one in _LABEL.findall(last)]
        if re.match(r"\s*br i1 ", last):
            yield from zip(labels, ("true", "false"), strict=True)
        elif re.match(r"\s*switch ", last):
            yield labels[0], "else"
            cases: dict[str, list[str]] = {}
            for value, label in _CASE.findall(last):
                cases.setdefault(label.strip('"'), []).append(value)
            for label, values in cases.items():
                yield label, ", ".join(values[:3]) + ("…" if values[3:] else "")
        elif re.match(r"\s*(%\S+ = )?invoke ", last):
            yield from zip(labels, ("", "unwinds"), strict=False)
        else:
            yield from ((label, "") for label in dict.fromkeys(labels))


def functions(text: str) -> dict[str, list[_Block]]:
    """Return the blocks of each function that has any."""
    found: dict[str, list[_Block]] = {}
    blocks: list[_Block] | None = None
    for line in text.splitlines():
        if (match := _FUNCTION.match(line)) is not None:
            blocks = found[match[1].strip('"')] = [_Block(ENTRY)]
        elif line == "}":
            blocks = None
        elif blocks is None:
            continue
        elif (match := _BLOCK.match(line)) is not None:
            name = match[1].strip('"')
            if blocks[0].instructions:
                blocks.append(_Block(name))
            else:
                blocks[0].name = name
        elif _INSTRUCTION.match(line):
            blocks[-1].instructions.append(line[2:])
        elif blocks[-1].instructions and line.strip():
            blocks[-1].instructions[-1] += f" {line.strip()}"
    return found


def cfg(text: str, function: str, *, instructions: bool = False) -> Graph:
    """Return the control-flow graph of a function.

    Args:
        text: IR of the module.
        function: its name.
        instructions: whether blocks show what is in them, not only how much.

    Raises:
        KeyError: when there is no such function.
    """
    blocks = functions(text)[function]
    boxes = tuple(Box(block.name, tuple(_lines(block, whole=instructions)), title=_title(block)) for block in blocks)
    edges = tuple(Edge(block.name, after, when) for block in blocks for after, when in block.successors())
    return Graph(boxes, edges, f"control flow of {function}")


def _title(block: _Block) -> str:
    return "\n".join(block.instructions[: 4 * SHOWN])


def _lines(block: _Block, *, whole: bool) -> Iterator[str]:
    count = len(block.instructions)
    if not whole:
        yield f"{block.name}  {count}"
        return
    yield f"{block.name}:"
    rest = count - SHOWN if count > SHOWN + 1 else 0  # the last one says where it goes
    shown = (
        block.instructions if not rest else [*block.instructions[: SHOWN - 1], f"… {rest} more", block.instructions[-1]]
    )
    yield from (f"  {line}" for line in shown)
