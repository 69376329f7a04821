"""The plot of what searches have found over time. Takes matplotlib: `pip install -e '.[bench]'`."""

from collections.abc import Iterable
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator

from bench.plots.style import BLUE, GREY, INK, ORANGE, RED, SETTINGS, TEAL, VIOLET, figure, plain, save
from bench.search.means import anytime, compares
from bench.search.report import TITLES
from bench.search.runs import RUNTIME
from bench.search.stored import Row

COLOURS = (TEAL, ORANGE, BLUE, VIOLET, RED, GREY)
DASHES = ("-", "--", ":")  # each for as many searches as there are colours


def draw(rows: Iterable[Row], path: Path) -> None:
    """Write the plot as SVG.

    Raises:
        ValueError: when there is nothing to draw.
    """
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS, "font.size": 10}):
        save(over_time([row for row in rows if compares(row)]), path)


def over_time(rows: list[Row]) -> Figure:
    """Show the geometric mean of baseline/found over seconds: a panel for each goal, a line for each search.

    Of a search that was run with several budgets it is the longest: some plan ahead, and begin differently with less.

    Raises:
        ValueError: when there are no rows.
    """
    goals = [goal for goal in TITLES if any(row["goal"] == goal for row in rows)]
    if not goals:
        raise ValueError("there are no results to draw")
    searches = sorted({row["search"] for row in rows})
    drawn = figure(7.2, 0.3 + 2.6 * len(goals))
    for index, goal in enumerate(goals):
        axes = drawn.add_subplot(len(goals), 1, index + 1)
        for place, search in enumerate(searches):
            mine = [row for row in rows if (row["goal"], row["search"]) == (goal, search)]
            if mine:
                longest = max(row["seconds"] for row in mine)
                seconds, ratios = anytime([row for row in mine if row["seconds"] == longest])
                dash = DASHES[place // len(COLOURS) % len(DASHES)]
                axes.step(seconds, ratios, dash, where="post", color=COLOURS[place % len(COLOURS)], label=search)
        axes.axhline(1, color=INK, linewidth=0.8)
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        plain(axes, "x")
        axes.grid(axis="y")
        axes.set_title(TITLES[goal], loc="left")
        axes.set_ylabel("level/found" if goal == RUNTIME else "-Oz/found, stronger")
        axes.set_xlabel("seconds")
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return drawn
