"""The board's pages: tables, plots and badges from checked results."""

import csv
import io
import math
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from aiocg.leaderboard._board import ALL, HIDDEN, Standing, read_entries, standings
from aiocg.leaderboard._problems import Kind, Refused, read_text
from aiocg.leaderboard._track import Track, read_track, track_names
from aiocg.search.fronts import ParetoPoint, front_of

FOLDER = "leaderboard"  # of the files that a page needs
COLOURS = ("#087f7b", "#d9822b", "#6b4fa0", "#3f6fb5", "#b04141", "#7a7a7a", "#a3a83b", "#c76b98")

_templates = Environment(
    loader=PackageLoader("aiocg.leaderboard"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_templates.filters["quoted"] = shlex.quote  # what readers copy into a shell


def pages(board: Path) -> tuple[str, dict[str, str]]:
    """Return the tables of all tracks as a part of a page, and the files that it needs, by their paths.

    Raises:
        Refused: when a track or an entry is malformed.
    """
    boards: list[dict[str, Any]] = []
    files = {f"{FOLDER}/sort.js": (Path(__file__).parent / "templates" / "sort.js").read_text(encoding="utf-8")}
    names = track_names(board)
    for path in (board / "entries").glob("*"):
        if path.name not in names:
            raise Refused(Kind.TRACK, f"there is no track for {path}")
    for name in names:
        track = read_track(board, name)
        found = standings(track, read_entries(board, track))
        suites = [ALL, *(suite.name for suite in track.suites), *([HIDDEN] if track.hidden is not None else [])]
        boards.append({"track": track, "standings": found, "suites": suites})
        if found:
            files[f"{FOLDER}/{track.name}-time.svg"] = _svg(_score_and_time(found))
            files[f"{FOLDER}/{track.name}-programs.svg"] = _svg(_programs(track, found))
        for one in found:
            files[f"{FOLDER}/{track.name}-{one.entry.about.name}.svg"] = _badge(track, one)
    boards.sort(key=lambda one: not one["standings"])
    published = board / "published.csv"
    rows = list(csv.DictReader(io.StringIO(read_text(published, 1 << 20)))) if published.exists() else []
    return _templates.get_template("board.html").render(boards=boards, published=rows), files


def write_site(board: Path, folder: Path) -> int:
    """Write a page that stands by itself, and return how many tracks it has.

    Raises:
        Refused: see `pages`.
    """
    fragment, files = pages(board)
    page = _templates.get_template("page.html").render(fragment=Markup(fragment))
    for name, content in {"index.html": page, **files}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    return len(track_names(board))


def _badge(track: Track, one: Standing) -> str:
    label, value = f"aiocg {track.name}", f"#{one.rank}, {one.scores[ALL].mean:.3f}"
    widths = {"left": 7 * len(label) + 10, "right": 7 * len(value) + 10}
    return _templates.get_template("badge.svg").render(label=label, value=value, **widths)


def _svg(figure: Figure) -> str:
    """Return a figure as SVG that is the same each time."""
    buffer = io.StringIO()
    with rc_context({"svg.hashsalt": "aiocg", "svg.fonttype": "none"}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


def _score_and_time(found: Sequence[Standing]) -> Figure:
    """Draw the score of each entry over the time of its searches, and the front of those that none is better than."""
    figure = Figure(figsize=(8, 4), layout="constrained")
    axes = figure.add_subplot()
    for index, one in enumerate(found):
        score = one.scores[ALL]
        whiskers = None if math.isnan(score.low) else [[score.mean - score.low], [score.high - score.mean]]
        seconds = max(one.seconds, 1e-4)
        colour, name = COLOURS[index % len(COLOURS)], one.entry.about.name
        axes.errorbar(seconds, score.mean, whiskers, fmt="o", color=colour, label=name, capsize=3)
    front = front_of(ParetoPoint((), (max(one.seconds, 1e-4), -one.scores[ALL].mean)) for one in found)
    axes.step(*zip(*((x, -y) for x, y in (one.costs for one in front)), strict=True), where="post", color="#999999")
    axes.set_xscale("log")
    axes.set_xlabel("seconds for a program, mean")
    axes.set_ylabel("baseline / found, geometric mean")
    figure.legend(loc="outside right upper", fontsize=8)
    axes.grid(alpha=0.3)
    return figure


def _programs(track: Track, found: Sequence[Standing]) -> Figure:
    """Draw a bar for each program and entry."""
    logs = [one.entry.logs(track.programs) for one in found]
    names = list(track.programs)
    figure = Figure(figsize=(8, 1 + 0.09 * len(names) * (len(found) + 1)), layout="constrained")
    axes = figure.add_subplot()
    for index, (one, mine) in enumerate(zip(found, logs, strict=True)):
        places = [number + index / (len(found) + 1) for number in range(len(names))]
        widths = [100 * (math.exp(mine[uri]) - 1) for uri in names]
        colour = COLOURS[index % len(COLOURS)]
        axes.barh(places, widths, 1 / (len(found) + 1), align="edge", color=colour, label=one.entry.about.name)
    axes.set_yticks([number + 0.5 for number in range(len(names))], [uri.partition("://")[2] for uri in names])
    axes.tick_params(axis="y", labelsize=7)
    axes.invert_yaxis()
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("how much larger the baseline's is, %")
    axes.legend(loc="lower right", fontsize=7)
    axes.grid(axis="x", alpha=0.3)
    return figure
