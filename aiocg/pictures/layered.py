"""Places for the nodes of a graph, in layers from top to bottom (Sugiyama, Tagawa and Toda, 1981).

Edges that would close a circle are turned around. A node's layer is the longest way to it; an edge over several layers
gets a bend in each between. The order in a layer, and the places, follow from the neighbours above and below, in turns.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

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
