"""The sweep of loop_tool's figure in CompilerGym's paper (Cummins et al., CGO 2022, figure 7), on this processor.

Pointwise addition of many sizes is scheduled in the ways that one split or two can: how many pieces threads share, and
how long the inner loop is.
"""

import json
from pathlib import Path
from typing import Any

from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops.cpu.target import CpuTarget
from bench.loops.schedules import ADD, applied
from bench.loops.sides import Ours
from bench.measure import Effort

STORED, PLOT = "sweep.json", "sweep.svg"
PIECES = (1, 2, 4, 16, 64, 256)
INNER = (1, 4, 16, 64)


def measure_sweep(target: CpuTarget, effort: Effort) -> dict[str, Any]:
    """Return points as [size, pieces, inner, kind of the inner loop, GFLOP/s], and of which machine they are."""
    points = []
    for power in effort.choose(range(8, 25, 2), range(10, 19, 4)):
        for pieces in PIECES:
            flops = _flops(target, 1 << power, pieces, 16, "vectorize", effort)
            points += [[1 << power, pieces, 16, "vectorized", flops]]
        for inner in INNER:
            if inner != 16:  # which is among those above
                flops = _flops(target, 1 << power, 1, inner, "vectorize", effort)
                points += [[1 << power, 1, inner, "vectorized", flops]]
            if inner > 1:
                flops = _flops(target, 1 << power, 1, inner, "unroll", effort)
                points += [[1 << power, 1, inner, "unrolled", flops]]
    return {"device": target.description, "points": [point for point in points if point[-1] is not None]}


def _flops(target: CpuTarget, size: int, pieces: int, inner: int, kind: str, effort: Effort) -> float | None:
    """Return GFLOP/s of a schedule; None where there is none."""
    steps, loop = [], 0
    if pieces > 1:
        steps += [f"split<loop=0;factor={size // pieces}>", "parallel<loop=0>"]
        loop = 1
    if inner > 1:
        steps += [f"split<loop={loop};factor={inner}>", f"{kind}<loop={loop + 1}>"]
    try:
        ours = Ours(target, applied(ADD.format(size), *steps), check=False)
    except Refusal:
        return None
    return round(ours.flops / ours.seconds(effort.choose(0.05, 0.01), 5) / 1e9, 4)


def draw(folder: Path) -> Path:
    """Draw what is stored in a folder, and return where."""
    import matplotlib

    from bench.plots.style import BLUE, GREY, ORANGE, RED, SETTINGS, TEAL, VIOLET, figure, plain, save

    points = json.loads((folder / STORED).read_text(encoding="utf-8"))["points"]
    colours = (GREY, BLUE, TEAL, VIOLET, ORANGE, RED)
    matplotlib.use("svg")
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **SETTINGS}):
        drawn = figure(9.5, 3.6)
        left, right = drawn.subplots(1, 2, sharey=True)
        for colour, pieces in zip(colours, PIECES, strict=True):
            line = [(p[0], p[4]) for p in points if p[1] == pieces and p[2] == 16 and p[3] == "vectorized"]
            left.plot(*zip(*sorted(set(line)), strict=True), color=colour, marker=".", label=f"{pieces}")
        for colour, inner in zip(colours, INNER, strict=False):
            for kind, style in (("vectorized", "-"), ("unrolled", ":")):
                line = [(p[0], p[4]) for p in points if p[1] == 1 and p[2] == inner and p[3] == kind]
                label = f"{inner}, {kind}" if inner > 1 else "1"
                if line:
                    places = zip(*sorted(set(line)), strict=True)
                    right.plot(*places, style, color=colour, marker=".", label=label)
        left.set_title("pieces that threads share, vectors of 16", loc="left")
        right.set_title("turns of the inner loop, one thread", loc="left")
        left.set_ylabel("GFLOP/s")
        for axes in (left, right):
            axes.set_xscale("log", base=2)
            axes.set_yscale("log")
            axes.set_xlabel("elements that are added")
            axes.legend(loc="lower center", ncols=2)
            axes.grid(axis="x")
            plain(axes, "y")
        save(drawn, folder / PLOT)
    return folder / PLOT
