"""The page's content as values: tree, counts, chart, texts. Pure."""

import contextlib
import math
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from aiocg.errors import NotExpressible
from aiocg.pictures import functions
from aiocg.spaces.actions import ActionLanguage
from aiocg.web.tree import START, Part, Tree, change, label, labels, number

__all__ = ["change", "chart", "color", "copies", "counts", "label", "labels", "number", "row", "tree_nodes"]

SENT = "user-v0/"  # with which names of programs begin that somebody sent
ROWS = 12  # texts that have room below each other in a chart
INK = "#7b8794"  # which can be read on white and on black
COLORS = ("#0d9488", "#6366f1", "#db2777", "#65a30d", "#0284c7", "#9333ea")  # of lines, on white and on black


def row(id: str, text: str, *cells: tuple[str, str], **more: Any) -> dict[str, Any]:
    """Return a row of `Rows`.

    Args:
        id: of its button.
        text: of the button.
        cells: texts behind it, each with the class that colours it; empty ones are left out.
        more: `title`, `said` for screen readers, the `level` of a node, and whether it is `here`.
    """
    return {"id": id, "text": text, "cells": [{"text": one, "color": color} for one, color in cells if one], **more}


def tree_nodes(tree: Tree, cost: str, whole: Collection[int] = ()) -> list[dict[str, Any]]:
    """Return the tree as rows: below each node its best children, the others as one "+n".

    The way to the present node is always shown.

    Args:
        cost: by which children are the better, the lower.
        whole: nodes that are shown with all their children.
    """

    def shown(part: Part, level: int, title: str) -> Iterator[dict[str, Any]]:
        node, now, titles = part.node, part.node.costs[cost], part.titles()
        more = 0.0 if node.parent is None else now - tree[node.parent].costs[cost]
        yield row(
            str(node.number),
            title,
            (said := number(now), "faint"),
            (change(more), color(-more)),
            title=f"node {node.number}: {title}, {cost} {said}",
            level=level,
            here=node.number == tree.present.number,
        )
        for child in part.children:
            yield from shown(child, level + 1, titles[child.node.number])
        if part.rest:
            yield row(f"more-{node.number}", f"+{part.rest}", title=f"show {part.rest} more", level=level + 1)

    return list(shown(tree.part(cost, whole), 0, START))


def color(gain: float) -> str:
    """Return the class of a gain."""
    return "win" if gain > 0 else "loss" if gain < 0 else ""


def counts(text: str) -> dict[str, tuple[int, int]]:
    """Return how many instructions and blocks each function of textual IR has."""
    found = functions(text).items()
    return {name: (sum(len(block.instructions) for block in blocks), len(blocks)) for name, blocks in found}


def chart(
    series: Mapping[str, Sequence[tuple[int, float]]], lines: Mapping[str, float], name: str, *, symbols: bool = False
) -> dict[str, Any]:
    """Return the options of a chart with lines that go in steps, and one for each of the compiler's levels.

    Args:
        series: the points of each line, by what it is called.
        lines: the levels.
        name: of what is drawn.
        symbols: mark the points.
    """
    values = [value for points in series.values() for _, value in points]
    known = [*values, *lines.values()] or [0.0]
    least, most = min(known), max(known)
    unit = 10 ** math.floor(math.log10(most - least)) if most > least else 1
    levels = [
        {"yAxis": value, "label": {"formatter": text, "show": bool(text)}}
        for value, text in _beside(lines, (most - least) / ROWS).items()
    ]
    axis = {"axisLabel": {"color": INK}, "splitLine": {"lineStyle": {"color": INK, "opacity": 0.25}}}
    label = {"color": INK, "position": "end", "lineHeight": 14}
    dashed = {"type": "dashed", "color": "#d97706"}
    mark = {"symbol": "none", "silent": True, "label": label, "data": levels, "lineStyle": dashed}
    named = {"name": name, "nameTextStyle": {"align": "left", "color": INK}}
    line = {"type": "line", "step": "end", "showSymbol": symbols}
    return {
        "animation": False,
        "aria": {"enabled": True},
        "tooltip": {"trigger": "axis"},
        "legend": {"show": len(series) > 1, "top": 0, "right": 16, "textStyle": {"color": INK}, "type": "scroll"},
        "grid": {"left": 56, "right": 96 if lines else 16, "top": 28, "bottom": 28},
        "xAxis": {"type": "value", "minInterval": 1, **axis},
        "yAxis": {"type": "value", "min": math.floor(least / unit) * unit, **named, **axis},
        "series": [
            {
                **line,
                "name": called,
                "data": [list(point) for point in data],
                "color": COLORS[place % len(COLORS)],
                **({} if place else {"markLine": mark}),
            }
            for place, (called, data) in enumerate((series or {name: []}).items())
        ],
    }


def _beside(lines: Mapping[str, float], room: float) -> dict[float, str]:
    """Return what stands beside each line: lines that are near have their texts in one place, below each other.

    Args:
        lines: values by name.
        room: that a text takes.
    """
    found: dict[float, str] = {}
    last = math.inf
    for name, value in sorted(lines.items(), key=lambda line: -line[1]):
        text = f"{name} {number(value)}"
        if last - value < room * (found[last].count("\n") + 1) if last in found else False:
            found[last] += f"\n{text}"
            found.setdefault(value, "")
        else:
            last, found[value] = value, text
    return found


def copies(
    environment: str, benchmark: str, actions: Sequence[str], language: ActionLanguage, space: str = ""
) -> dict[str, str]:
    """Return how the same is done elsewhere: by a command, in Python and, where it can be, by the compiler's tool.

    Args:
        environment, benchmark, actions: what is done.
        language: of the actions.
        space: the action space that has them all; "" for the environment's.
    """
    words = " ".join(shlex.quote(one) for one in actions)
    name, comment = benchmark.removeprefix("benchmark://"), ""
    if name.startswith(SENT):  # which has no name elsewhere
        name = "./" + name.removeprefix(SENT).partition("?")[0]
        comment = f"# save the program as {name}\n"
    command = ["aiocg", "shell", "--env", environment, "--benchmark", name]
    command += ["--action-space", space] if space else []
    tool = "opt" if environment.startswith("llvm") else "compiler"
    try:
        line, told = language.write(actions), "; commandline"
    except NotExpressible as error:
        line, told = f"# {error}", ""
    if actions:
        command += ["-c", f"action {words}{told}"]
    python = (
        f"{comment}import asyncio\n\nimport aiocg\n\n\n"
        "async def main():\n"
        "    async with aiocg.Runtime() as runtime:\n"
        f"        env = await runtime.make({environment!r}, benchmark={name!r})\n"
        "        await env.reset()\n"
        f"        await env.step_texts({list(actions)!r})\n"
        f"        print(env.state)\n\n\nasyncio.run(main())\n"
    )
    found = {"aiocg": comment + shlex.join(command), "Python": python, tool: line}
    with contextlib.suppress(NotExpressible):
        if (exact := language.write(actions, exact=True)) != line:
            found[f"{tool} of aiocg, which makes the same bytes"] = exact
    return found
