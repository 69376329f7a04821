"""Draws what models and searches have come to. Run it in examples/:

python -m cost_model.figure errors.json gains.json runs.csv cost_model.svg
"""

import argparse
import csv
import json
from collections import defaultdict
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK, TEAL, ORANGE, GREY = "#7d838c", "#179c8c", "#d98324", "#9aa0a8"
STYLE = {
    "svg.hashsalt": "aiocg",
    "svg.fonttype": "none",
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.frameon": False,
}
STYLE |= {"axes.spines.top": False, "axes.spines.right": False, "figure.facecolor": "none", "axes.facecolor": "none"}
STYLE |= dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)


def errors(axes: Axes, found: dict[str, dict[str, float]]) -> None:
    """Draw the relative errors of the graph network and of the mean."""
    names = [(split, what) for what in ("count", "gap") for split in found]
    for place, (who, colour) in enumerate((("model", TEAL), ("mean", GREY))):
        values = [found[split][f"{what}, {who}"] for split, what in names]
        bars = axes.bar(np.arange(len(names)) + 0.4 * place, values, 0.38, color=colour, label=who)
        axes.bar_label(bars, [f"{value:.3f}" for value in values], fontsize=7)
    axes.set_xticks(np.arange(len(names)) + 0.2, [f"{what},\n{split.removeprefix('by ')}" for split, what in names])
    axes.set_yscale("log")
    axes.set_ylim(top=5)
    axes.set_title("relative error, split by ...")
    axes.legend(loc="upper left", ncols=2)


def gains(axes: Axes, first: dict[str, list[float]]) -> None:
    """Draw how much of the best gain is found within the first actions of a ranking."""
    for (name, parts), colour in zip(first.items(), (TEAL, ORANGE, GREY), strict=True):
        axes.plot(range(1, len(parts) + 1), parts, color=colour, label=name)
    axes.set_xlabel("actions tried")
    axes.set_title("part of the best gain found")
    axes.legend(loc="lower right")


def runs(axes: Axes, rows: list[dict[str, str]]) -> None:
    """Draw the geometric mean of what searches found, with the prior and without."""
    found = defaultdict(list)
    for row in rows:
        found[row["search"], row["start"], row["prior"]].append(float(row["reward"]))
    kinds = sorted({(search, start) for search, start, _ in found})
    for place, (who, colour) in enumerate((("model", TEAL), ("means", ORANGE), ("none", GREY))):
        values = [np.exp(np.log(found[*kind, who]).mean()) for kind in kinds]
        bars = axes.bar(np.arange(len(kinds)) + 0.29 * place, values, 0.27, color=colour, label=f"prior: {who}")
        axes.bar_label(bars, [f"{value:.3f}" for value in values], fontsize=6, rotation=90, padding=2)
    axes.set_xticks(np.arange(len(kinds)) + 0.29, [f"{search}\nfrom {start}" for search, start in kinds])
    axes.set_ylim(0.9, 1.12)
    axes.set_title("reward of searches, -Oz is 1")
    axes.legend(loc="upper left", ncols=2, fontsize=7)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("errors", "gains", "runs", "output"):
        parser.add_argument(name, type=Path)
    given = parser.parse_args()
    with matplotlib.rc_context(STYLE):
        drawn = Figure(figsize=(9.5, 2.9), layout="constrained")
        panels = drawn.subplots(1, 3)
        errors(panels[0], json.loads(given.errors.read_text()))
        gains(panels[1], json.loads(given.gains.read_text())["first"])
        with given.runs.open(newline="") as file:
            runs(panels[2], list(csv.DictReader(file)))
        drawn.savefig(given.output, dpi=150, metadata={"Date": None} if given.output.suffix == ".svg" else {})
