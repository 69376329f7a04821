"""How plots look: on a light page and on a dark one, and the same bytes each time."""

from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

INK = "#7d838c"  # can be read on white and on slate
TEAL, ORANGE, BLUE, VIOLET, RED, GREY = "#179c8c", "#d98324", "#4b8fd6", "#9a74cf", "#d0505f", "#9aa0a8"
SETTINGS = {
    "svg.hashsalt": "aiocg",  # makes the names of elements the same each time
    "svg.fonttype": "none",  # text stays text
    "font.family": ["DejaVu Sans"],
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


def figure(width: float, height: float) -> Figure:
    """Return an empty figure of so many inches."""
    return Figure(figsize=(width, height), layout="constrained")


def save(drawn: Figure, path: Path) -> None:
    """Write SVG that has neither a date nor a random name in it."""
    drawn.savefig(path, format="svg", metadata={"Date": None, "Creator": f"matplotlib {matplotlib.__version__}"})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def plain(axes: Axes, axis: str) -> None:
    """Write the numbers of a logarithmic axis as people do, and draw its grid."""
    which = axes.xaxis if axis == "x" else axes.yaxis
    which.set_major_formatter(lambda value, _: f"{value:,.10g}")
    which.set_minor_formatter(lambda value, _: "")
    axes.grid(axis=axis)  # type: ignore[arg-type]
