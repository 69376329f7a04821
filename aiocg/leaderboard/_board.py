"""The board: entries that were checked, their scores, and which are better than which."""

import math
import shutil
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from aiocg.leaderboard._checks import Checked, Report, read_checked, write_checked
from aiocg.leaderboard._problems import Kind, Refused
from aiocg.leaderboard._submission import CHECKED, About, Submission
from aiocg.leaderboard._track import Track
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
