"""The board: entries that were checked, which are better than which, and the pages that show them."""

import csv
import io
import math
import shlex
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib import rc_context
from matplotlib.figure import Figure

from aiocg.leaderboard._checks import Checked, Report, read_checked, write_checked
from aiocg.leaderboard.problems import Kind, Refused, read_text
from aiocg.leaderboard.submission import CHECKED, About, Submission
from aiocg.leaderboard.track import Track, read_track, track_names
from aiocg.search.fronts import ParetoPoint, front_of
from aiocg.search.metrics import Mean, mean_of_ratios

HIDDEN, ALL = "hidden", "all"


class Entry(NamedTuple):
    """A submission that was checked.

    Attributes:
        about: what is said of it.
        rows: what was found.
        folder: where it is.
    """

    about: About
    rows: tuple[Checked, ...]
    folder: Path

    def logs(self, programs: Iterable[str]) -> dict[str, float]:
        """Return the mean logarithm of the ratios of each program, over the seeds."""
        found: dict[str, list[float]] = defaultdict(list)
        for row in self.rows:
            found[row.benchmark].append(math.log(row.ratio))
        return {uri: math.fsum(found[uri]) / len(found[uri]) for uri in programs}


class Standing(NamedTuple):
    """An entry among the others of its track.

    Attributes:
        entry: the entry.
        rank: one more than the number of entries that are better, and certainly so: by the 95 % bootstrap interval
            of the ratio of the two over programs. So entries that cannot be told apart have the same rank.
        scores: geometric means over programs of how many times as small as the baseline the result is, by suite;
            "all" is of all suites together, and "hidden" of the hidden programs, which are others for each entry.
        seconds: that a search took, on average.
        executed: the part of the rows that was run.
    """

    entry: Entry
    rank: int
    scores: Mapping[str, Mean]
    seconds: float
    executed: float


def add_entry(board: Path, folder: Path, report: Report) -> Path:
    """Copy a submission that a check has found nothing wrong with, and return where it is now.

    Raises:
        Refused: when something is wrong, or there is an entry of that name.
    """
    if report.problems:
        raise Refused(report.problems[0].kind, f"it was not added: {report.problems[0]}")
    submission = Submission(folder)
    target = board / "entries" / report.track / report.submission
    if target.exists():
        raise Refused(Kind.FORMAT, f"there is an entry {report.submission} already: {target}")
    unfinished = target.with_name(f".{target.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    for name in submission.files:
        (unfinished / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folder / name, unfinished / name, follow_symlinks=False)
    write_checked(unfinished / CHECKED, report.checked)
    unfinished.rename(target)
    return target


def read_entries(board: Path, track: Track) -> list[Entry]:
    """Return the entries of a track.

    Raises:
        Refused: when one is malformed, of another version of the track, or was not checked.
    """
    found = []
    for folder in sorted((board / "entries" / track.name).glob("[!.]*")):
        about = Submission(folder).about
        if (about.track, about.name) != (track.name, folder.name):
            raise Refused(Kind.FORMAT, f"{folder} is the entry {about.name} of track {about.track}")
        if about.track_sha256 != track.sha256:
            raise Refused(Kind.TRACK, f"{folder} is of another version of track {track.name}")
        rows = tuple(read_checked(folder / CHECKED))
        if not track.programs.keys() <= {row.benchmark for row in rows}:
            raise Refused(Kind.COMPLETENESS, f"{folder / CHECKED} lacks programs of track {track.name}")
        found.append(Entry(about, rows, folder))
    return found


def standings(track: Track, entries: Sequence[Entry]) -> list[Standing]:
    """Return the entries of a track with their scores, the best first."""
    logs = [entry.logs(track.programs) for entry in entries]
    found = []
    for entry, mine in zip(entries, logs, strict=True):
        better = (mean_of_ratios([other[uri] - mine[uri] for uri in mine]).low > 1 for other in logs)
        hidden = entry.logs(sorted({row.benchmark for row in entry.rows} - track.programs.keys()))
        scores = {suite.name: [mine[program.uri] for program in suite.programs] for suite in track.suites}
        scores = {ALL: [*mine.values()], **scores, **({HIDDEN: [*hidden.values()]} if hidden else {})}
        found.append(
            Standing(
                entry,
                1 + sum(better),
                {name: mean_of_ratios(values) for name, values in scores.items()},
                float(np.mean([row.walltime for row in entry.rows])),
                float(np.mean([row.executed for row in entry.rows])),
            )
        )
    return sorted(found, key=lambda one: (one.rank, -one.scores[ALL].mean, one.entry.about.name))


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
