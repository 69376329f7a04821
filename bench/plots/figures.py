"""The plots, each a function of what is stored."""

import math
from collections.abc import Callable, Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from bench.plots.stored import GREEDY, LARGE, Comparison, Stored, short
from bench.plots.style import BLUE, GREY, INK, ORANGE, RED, TEAL, VIOLET, figure, plain

PARTS = {  # of steps: their colours, in the order in which they are stacked
    "parse": "#6db3d8",
    "pass": BLUE,
    "walk": VIOLET,
    "write": "#b7a3df",
    "free": GREY,
    "compiler": "#3f6fb5",
    "worker": ORANGE,
    "threads": "#e5b567",
    "client": TEAL,
    "waiting": RED,
}
SIDES = {"aiocg": "aiocg", "as values": "LLVM, as values", "in place": "LLVM, in place"}  # from below
OBSERVED = "step, Autophase"


def step_parts(stored: Stored) -> Figure:
    """Show of what a step consists, beside LLVM alone."""
    programs = stored.walked()
    columns = min(3, len(programs))
    rows = math.ceil(len(programs) / columns)
    drawn = figure(9.5, 0.6 + 1.55 * rows)
    seen: dict[str, str] = {}
    for index, program in enumerate(programs):
        axes = drawn.add_subplot(rows, columns, index + 1)
        for place, side in enumerate(SIDES):
            left = 0.0
            for part, colour in PARTS.items():
                width = max(0.0, program.median(f"{side}, part {part}"))
                if width:
                    axes.barh(place, width, left=left, color=colour, height=0.7)
                    seen[part] = colour
                    left += width
        axes.set_title(f"{program.name}, {program.instructions:,} instructions", loc="left")
        axes.set_yticks(range(len(SIDES)), list(SIDES.values()) if index % columns == 0 else [""] * len(SIDES))
        _count(axes)
        axes.set_xlabel("µs per step, mean" if index >= len(programs) - columns else "")
    handles = [Line2D([], [], color=colour, linewidth=6, label=part) for part, colour in PARTS.items() if part in seen]
    drawn.legend(handles=handles, loc="outside lower center", ncols=len(handles), handlelength=0.8, columnspacing=1.2)
    return drawn


def step_versus(stored: Stored) -> Figure:
    """Show a step beside the original's: what the compiler costs and what the system does."""
    steps = stored.compared(OBSERVED)
    empty = {one["program"]: one for one in stored.compared("step without an action")}
    columns = min(4, len(steps))
    rows = math.ceil(len(steps) / columns)
    drawn = figure(9.5, 0.6 + 1.55 * rows)
    for index, one in enumerate(steps):
        axes = drawn.add_subplot(rows, columns, index + 1)
        its, ours = one["original"]["median"], one["ours"]["median"]
        compiler = min(ours, one["ours_in_compiler"])
        system = min(its, empty[one["program"]]["original"]["median"])
        axes.barh([1, 0], [its - system, compiler], color=[GREY, BLUE], height=0.7)
        axes.barh([1, 0], [system, ours - compiler], left=[its - system, compiler], color=[ORANGE, ORANGE], height=0.7)
        axes.barh(2, one["llvm_alone"]["median"], color=BLUE, height=0.7)
        axes.axvline(its / (one["target"] or math.nan), color=RED, linewidth=1.2, linestyle="--")
        names = ["aiocg", "CompilerGym", "LLVM 22, in place"]
        axes.set_yticks(range(3), names if index % columns == 0 else [""] * 3)
        axes.set_title(f"{short(one['program'])}, {one['instructions']:,}", loc="left")
        _count(axes)
        axes.set_xlabel("µs, median" if index >= len(steps) - columns else "")
    handles = [
        Line2D([], [], color=GREY, linewidth=6, label="LLVM 10 and walks"),
        Line2D([], [], color=BLUE, linewidth=6, label="LLVM 22 and walks"),
        Line2D([], [], color=ORANGE, linewidth=6, label="the system around it"),
        Line2D([], [], color=RED, linestyle="--", label="target"),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=4, handlelength=1.2)
    return drawn


def ratios(stored: Stored) -> Figure:
    """Show how many times better than the original each operation is, on each program, and what was promised."""
    kinds = [kind for kind in stored.kinds() if not kind.startswith("memory of 8 ")][::-1]
    drawn = figure(9.5, 0.9 + 0.33 * len(kinds))
    axes = drawn.add_subplot()
    for place, kind in enumerate(kinds):
        found = stored.compared(kind)
        for one in found:
            large = one["instructions"] > LARGE
            axes.plot(one["ratio"]["median"], place, "s" if large else "o", color=ORANGE if large else TEAL, ms=5)
            if one.get("bound"):
                axes.plot(one["bound"]["median"], place, "D", mfc="none", mec=BLUE, ms=5)
            if one["target"]:
                axes.plot(one["target"], place, "|", color=RED, ms=15, mew=2)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    plain(axes, "x")
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_xlabel("times better than CompilerGym 0.2.5 (to the right is better)")
    handles = [
        Line2D([], [], color=TEAL, marker="o", ls="", ms=5, label="aiocg, a program"),
        Line2D([], [], color=ORANGE, marker="s", ls="", ms=5, label=f"aiocg, over {LARGE:,} instructions"),
        Line2D([], [], mfc="none", mec=BLUE, marker="D", ls="", ms=5, label="LLVM 22 alone, in place"),
        Line2D([], [], color=RED, marker="|", ls="", ms=12, mew=2, label="target"),
    ]
    drawn.legend(handles=handles, loc="outside lower center", ncols=4, handletextpad=0.2)
    return drawn


def throughput(stored: Stored) -> Figure:
    """Show steps per second on one worker against the number of environments, beside LLVM alone."""
    many = stored.many()
    drawn = figure(6.5, 3.4)
    axes = drawn.add_subplot()
    for side, colour in (("in place", BLUE), ("as values", VIOLET), ("aiocg", TEAL)):
        found = [rows[side] for rows in many.values()]
        medians = [row["median"] for row in found]
        errors = [[row["median"] - row["low"] for row in found], [row["high"] - row["median"] for row in found]]
        label = SIDES[side] if side == "aiocg" else f"{SIDES[side]}, one process"
        axes.errorbar(list(many), medians, errors, color=colour, marker="o", ms=4, label=label)
    limit = [0.9 * rows["in place"]["median"] for rows in many.values()]
    axes.plot(list(many), limit, color=RED, linestyle="--", label="target: nine tenths of in place")
    axes.set_xscale("log")
    plain(axes, "x")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="y")
    axes.set_xlabel("environments")
    axes.set_ylabel("steps per second, one worker")
    drawn.legend(loc="outside right upper")
    return drawn


def size(stored: Stored) -> Figure:
    """Show fork and warm reset against the size of the program, beside the original."""
    drawn = figure(9.5, 3.2)
    forked = "fork" if "fork" in stored.kinds() else "fork, until it answers"
    for index, kind in enumerate((forked, "reset, warm")):
        axes = drawn.add_subplot(1, 2, index + 1)
        found = stored.compared(kind)
        sizes = [one["instructions"] for one in found]
        for side, colour, label in (("original", GREY, "CompilerGym"), ("ours", TEAL, "aiocg")):
            axes.plot(sizes, [one[side]["median"] for one in found], "o-", ms=4, color=colour, label=label)
        targets = [one["original"]["median"] / (one["target"] or math.nan) for one in found]
        axes.plot(sizes, targets, color=RED, linestyle="--", label="target")
        axes.set_xscale("log")
        axes.set_yscale("log")
        plain(axes, "x")
        plain(axes, "y")
        axes.set_title(kind, loc="left")
        axes.set_xlabel("instructions")
        axes.set_ylabel("µs" if index == 0 else "")
    _legend_of(drawn, drawn.axes[0])
    return drawn


def greedy(stored: Stored) -> Figure:
    """Show a greedy step over all actions, beside the original and LLVM alone."""
    found = stored.compared(GREEDY)
    drawn = figure(7.5, 0.9 + 0.36 * len(found))
    axes = drawn.add_subplot()
    series: Sequence[tuple[str, str, str, Callable[[Comparison], float]]] = (
        ("CompilerGym", GREY, "o", lambda one: one["original"]["median"]),
        ("aiocg", TEAL, "o", lambda one: one["ours"]["median"]),
        ("LLVM 22 alone", BLUE, "D", lambda one: one["llvm_alone"]["median"]),
        ("target", RED, "|", lambda one: one["original"]["median"] / (one["target"] or math.nan)),
    )
    for label, colour, marker, value in series:
        values = [value(one) for one in found]
        style = {"mfc": "none", "mec": colour} if marker == "D" else {"color": colour}
        wide = {"ms": 13, "mew": 2} if marker == "|" else {"ms": 6}
        axes.plot(values, range(len(found)), marker, label=label, **style, **wide)
    axes.set_xscale("log")
    plain(axes, "x")
    axes.set_yticks(range(len(found)), [f"{short(one['program'])}, {one['instructions']:,}" for one in found])
    axes.margins(y=0.15)
    axes.set_xlabel("ms for all actions from one state")
    _legend_of(drawn, axes)
    return drawn


def _count(axes: Axes) -> None:
    """Write few numbers below, and draw their lines."""
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.grid(axis="x")


def _legend_of(drawn: Figure, axes: Axes) -> None:
    handles, labels = axes.get_legend_handles_labels()
    drawn.legend(handles, labels, loc="outside lower center", ncols=len(labels))


FIGURES: Mapping[str, Callable[[Stored], Figure]] = {
    "step_parts": step_parts,
    "throughput": throughput,
    "step_versus": step_versus,
    "ratios": ratios,
    "size": size,
    "greedy": greedy,
}
