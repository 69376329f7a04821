"""The tree of visited states, in which equal states are one node. Pure."""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from aiocg.pictures import Box, Edge, Graph
from aiocg.spaces.actions import split_list

PREFIXES = ((1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
LONGEST = 44  # characters of an action that is shown

_OPTIONS = re.compile(r"([\w-]+)<[^()]*>")
_OPTION_LIST = re.compile(r"<[^<>]*>")
_NAME = re.compile(r"[\w-]+")


def number(value: float) -> str:
    """Return a cost as text, without decimals where it has none; a small one, such as a time, as 1.5m or 15µ."""
    if value == int(value) or abs(value) >= 1:
        return f"{value:,.0f}" if value == int(value) else f"{value:,.3f}"
    scale, prefix = next((one for one in PREFIXES if abs(value) >= one[0]), PREFIXES[-1])
    return f"{value / scale:.3g}{prefix}"


def change(value: float) -> str:
    """Return by how much a cost changes, with its sign; "" for nothing."""
    return f"{'+' if value > 0 else ''}{number(value)}" if value else ""


def label(action: str) -> str:
    """Return an action as text that has room: a pass without options, of a pipeline the last one behind an arrow."""
    if len(action) <= LONGEST:
        return action
    parts = split_list(action)
    if len(parts) == 1 and (match := _OPTIONS.fullmatch(action)) is not None:
        return f"{match[1]}<…>"
    names = _NAME.findall(_OPTION_LIST.sub("", parts[-1] if parts else action))
    return f"… → {names[-1]}" if names else f"{action[:LONGEST]}…"


def labels(actions: Iterable[str]) -> dict[str, str]:
    """Return the labels of actions, of which those with the same say what their options do not have in common."""
    short = {action: label(action) for action in actions}
    often = Counter(short.values())
    found = {}
    for action, text in short.items():
        same = [other for other, its in short.items() if its == text] if often[text] > 1 else []
        options = {other: _options(other) for other in same}
        common = set.intersection(*map(set, options.values())) if options else set()
        own = [option for option in options.get(action, ()) if option not in common]
        found[action] = text.replace("<…>", f"<{';'.join(['…', *own])}>") if own else text
    again = Counter(found.values())
    return {action: action if again[text] > 1 else text for action, text in found.items()}


def _options(action: str) -> list[str]:
    """Return the options of a pass."""
    return action.partition("<")[2].removesuffix(">").split(";")


BEST = 12  # children of a node that are shown
SHOWN = 200  # nodes of a tree that are shown
DEEPEST = 40  # nodes below each other that are shown; each is further to the right


class TreeError(Exception):
    """There is no such node, or no room for another."""


@dataclass(slots=True)
class Node:
    """A state.

    Attributes:
        number: its place in the tree; 0 is the program as it came.
        state: the fingerprint of the program.
        costs: by name.
        parent, action: the node from which it was first reached, and by which action; None and "" for the first node.
        depth: number of actions that first led to it.
        edges: where actions lead from here, by their texts.
    """

    number: int
    state: int
    costs: Mapping[str, float]
    parent: int | None = None
    action: str = ""
    depth: int = 0
    edges: dict[str, int] = field(default_factory=dict)


START = "as it came"  # what the first node is called


class Part(NamedTuple):
    """What is shown of a tree.

    Attributes:
        node: a node.
        children: those of its children that are shown, the best first.
        rest: how many others there are.
        skipped: how many nodes on the way here are not shown.
    """

    node: Node
    children: "list[Part]"
    rest: int
    skipped: int = 0

    def titles(self) -> dict[int, str]:
        """Return what the children are called, so that they can be told apart, by their numbers."""
        names = labels(child.node.action for child in self.children)
        return {
            child.node.number: (f"… {child.skipped} more, " if child.skipped else "") + names[child.node.action]
            for child in self.children
        }


class Tree:
    """Nodes, and the path by which the present one was reached.

    An action that leads to a state that is in the tree leads to its node; so what has two ways into it is one node. Its
    `path` is the one that was found first, but `undo` goes back the way that was taken.

    Args:
        state, costs: of the program as it came.
        most: how many nodes there may be.

    Attributes:
        trail: the nodes from the first to the present one, by the way that was taken.
    """

    def __init__(self, state: int, costs: Mapping[str, float], most: int = 10_000) -> None:
        self._most = most
        self._nodes = [Node(0, state, dict(costs))]
        self._by_state = {state: 0}
        self.trail: tuple[int, ...] = (0,)

    @property
    def present(self) -> Node:
        """The present node."""
        return self._nodes[self.trail[-1]]

    def add(self, parent: int, action: str, state: int, costs: Mapping[str, float]) -> Node:
        """Note where an action leads from a node, without going there; return the node, which may be an old one.

        Raises:
            TreeError: when there is no such parent, or no room for another node.
        """
        origin = self[parent]
        number = self._by_state.get(state)
        if number is None:
            if len(self._nodes) >= self._most:
                raise TreeError(f"the tree has {self._most} nodes, the most it may have: start another session")
            number = len(self._nodes)
            self._nodes.append(Node(number, state, dict(costs), parent, action, origin.depth + 1))
            self._by_state[state] = number
        origin.edges[action] = number
        return self._nodes[number]

    def step(self, action: str, state: int, costs: Mapping[str, float]) -> Node:
        """Go where an action leads from the present node; an action without effect stays."""
        node = self.add(self.present.number, action, state, costs)
        if node.number != self.present.number:
            self.trail += (node.number,)
        return node

    def undo(self) -> Node:
        """Go back the way that was taken.

        Raises:
            TreeError: when this is the first node.
        """
        if len(self.trail) == 1:
            raise TreeError("there is nothing to undo: this is the program as it came")
        self.trail = self.trail[:-1]
        return self.present

    def goto(self, number: int) -> Node:
        """Go to a node, as if its path had been taken.

        Raises:
            TreeError: when there is no such node.
        """
        self[number]
        self.trail = tuple(node.number for node in self.line(number))
        return self.present

    def line(self, number: int) -> list[Node]:
        """Return the nodes from the first one to this, by its first path."""
        line, node = [], self[number]
        while True:
            line.append(node)
            if node.parent is None:
                return line[::-1]
            node = self._nodes[node.parent]

    def path(self, number: int) -> tuple[str, ...]:
        """Return the actions that first led to a node."""
        return tuple(node.action for node in self.line(number)[1:])

    def way(self, cost: str) -> list[tuple[int, float]]:
        """Return a cost after each action on the way that was taken."""
        return [(place, self[number].costs[cost]) for place, number in enumerate(self.trail)]

    def children(self, number: int) -> list[Node]:
        """Return the nodes that were first reached from this one."""
        numbers = dict.fromkeys(self[number].edges.values())
        return [self._nodes[one] for one in numbers if self._nodes[one].parent == number]

    def part(self, cost: str, whole: Collection[int] = ()) -> Part:
        """Return what is shown of the tree: the best children of each node, and always the way to the present node.

        Of a long way the first node is shown, and the last ones.

        Args:
            cost: by which children are the better, the lower.
            whole: nodes of which all children are shown.
        """
        line = self.line(self.present.number)
        here = {node.number for node in line}
        left = SHOWN

        def of(node: Node, level: int, skipped: int = 0) -> Part:
            nonlocal left
            left -= 1
            children = sorted(self.children(node.number), key=lambda one: (one.costs[cost], one.number))
            most = BEST if left > 0 and level < DEEPEST else 0
            most = len(children) if node.number in whole else most
            chosen = [one for place, one in enumerate(children) if one.number in here or place < most]
            return Part(node, [of(one, level + 1) for one in chosen], len(children) - len(chosen), skipped)

        place = max(0, len(line) - DEEPEST)
        if place < 2:
            return of(self[0], 0)
        return Part(self[0], [of(line[place], 1, place - 1)], 0)

    def graph(self, cost: str = "", whole: Collection[int] = ()) -> Graph:
        """Return what is shown of the tree as a picture; the costs are the first ones if they have no name."""
        cost = cost or next(iter(self[0].costs))
        boxes: list[Box] = []
        edges: list[Edge] = []

        def add(part: Part, title: str) -> None:
            node, name = part.node, str(part.node.number)
            kind = "here" if node.number == self.present.number else ""
            words = (title, number(node.costs[cost]))
            boxes.append(Box(name, words, kind, f"node {name}: {node.action}"))
            titles = part.titles()
            for child in part.children:
                edges.append(Edge(name, str(child.node.number)))
                add(child, titles[child.node.number])
            if part.rest:
                boxes.append(Box(f"more-{name}", (f"+{part.rest}",), "muted"))
                edges.append(Edge(name, f"more-{name}"))

        add(self.part(cost, whole), START)
        return Graph(tuple(boxes), tuple(edges), f"tree of states, {cost}")

    def _repr_svg_(self) -> str:
        return self.graph().svg()

    def copy(self) -> Self:
        """Return a tree that grows by itself from here on."""
        other = type(self)(0, {}, self._most)
        other._nodes = [replace(one, edges=dict(one.edges)) for one in self._nodes]
        other._by_state = dict(self._by_state)
        other.trail = self.trail
        return other

    def __getitem__(self, number: int) -> Node:
        """Return a node; raise TreeError when there is none of this number."""
        if not 0 <= number < len(self._nodes):
            raise TreeError(f"there is no node {number}: they are numbered from 0 to {len(self._nodes) - 1}")
        return self._nodes[number]

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)
