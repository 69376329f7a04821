"""Submissions: a folder with `submission.toml`, `results.csv` and, if there is one, `policy`."""

import csv
import hashlib
import io
import json
import math
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec

from aiocg.leaderboard._problems import Kind, Problem, Refused, digest_of, files_of, lines_of, read_text
from aiocg.leaderboard._track import Name, Track
from aiocg.states.state import CompilerEnvState, InvalidState

RESULTS, ABOUT, CHECKED, POLICY = "results.csv", "submission.toml", "checked.csv", "policy"
COLUMNS = ("benchmark", "actions", "reward", "walltime", "seed")
LONGEST_ROW = 1 << 20  # bytes
LONGEST_FIELD = 64 << 10  # characters, of what is no list of actions
MOST_ACTIONS = 10_000
MOST_SEEDS = 100

Text = Annotated[str, msgspec.Meta(max_length=500)]


class About(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What is said of a submission.

    Attributes:
        name: of the entry.
        authors, licence, hardware: for people.
        code: where the search can be had, with a commit: an address, or a version of aiocg.
        search: what was run.
        track, track_sha256: the track, and the hash of its file.
        seconds, cores: the budget that was kept.
        seeds: how many runs of each program there are, with the seeds 0, 1, 2 ...
        calibration: speed of the machine, see `aiocg.leaderboard._track.calibration`.
        training: URIs of all programs that the search was trained or tuned on; also a whole dataset, one of its splits
            (`benchmark://sdist-v0?split=train`), or a range of seeds (`generator://aiocg-v0/0-99999`).
    """

    name: Name
    authors: Annotated[tuple[Text, ...], msgspec.Meta(min_length=1, max_length=50)]
    licence: Text
    hardware: Text
    code: Text
    search: Text
    track: Name
    track_sha256: Text
    seconds: float
    cores: int
    seeds: Annotated[int, msgspec.Meta(ge=1, le=MOST_SEEDS)] = 1
    calibration: float = 0.0
    training: Annotated[tuple[Text, ...], msgspec.Meta(max_length=10_000)] = ()

    def to_toml(self) -> str:
        """Return it as a file."""
        fields = msgspec.to_builtins(self)
        return "".join(f"{name} = {json.dumps(value, ensure_ascii=False)}\n" for name, value in fields.items())


class Row(msgspec.Struct, frozen=True):
    """A row of the results.

    Attributes:
        state: the program, the actions, the reward that they are said to earn, and the seconds that it took.
        seed: of the run.
        line: of the file.
    """

    state: CompilerEnvState
    seed: int
    line: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """What no two rows have in common."""
        return self.state.benchmark, self.seed

    def problem(self, kind: Kind, detail: str) -> Problem:
        """Return what is wrong with it."""
        return Problem(kind=kind, line=self.line, benchmark=self.state.benchmark, detail=detail)


class Submission:
    """A submission as it was read.

    Attributes:
        folder: where it is.
        about: what is said of it.
    """

    def __init__(self, folder: Path) -> None:
        """Read everything but the results.

        Raises:
            Refused: when that is not possible.
        """
        self.folder = folder
        self._files = files_of(folder)
        for name in self._files:
            if name.parts[0] not in (RESULTS, ABOUT, CHECKED, POLICY, "README.md"):
                raise Refused(Kind.FORMAT, f"{name} is no file of a submission")
        text = read_text(folder / ABOUT, 1 << 20)
        try:
            self.about = msgspec.convert(tomllib.loads(text), About)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
            raise Refused(Kind.FORMAT, f"{ABOUT} is malformed: {error}") from None

    def rows(self, track: Track) -> Iterator[Row]:
        """Read the results, row by row and no more of them than the track has programs and seeds.

        Raises:
            Refused: for what is no row.
        """
        lines = lines_of(self.folder / RESULTS, LONGEST_ROW)
        if next(lines, (0, ""))[1].split(",") != list(COLUMNS):
            raise Refused(Kind.FORMAT, f"the first line is {','.join(COLUMNS)}", 1)
        hidden = track.hidden.programs if track.hidden is not None else 0
        most = (len(track.programs) + hidden) * self.about.seeds
        for count, (number, line) in enumerate(lines):
            if count >= most:
                raise Refused(Kind.COMPLETENESS, f"there are more than {most} rows", number)
            yield _row(track, line, number)

    def digest(self, track: Track, rows: list[Row]) -> str:
        """Return the hash that hidden programs follow from: of the search, and of the results of all other programs.

        What the search was trained on and its policy are in it, so that neither can be changed when these are known.
        """
        about = self.about
        said = [about.search, about.code, sorted(about.training), about.seeds]
        policy = [(str(name), digest_of(self.folder / name)) for name in self._files if name.parts[0] == POLICY]
        known = sorted(
            (*row.key, row.state.actions, repr(row.state.reward)) for row in rows if row.key[0] in track.programs
        )
        return hashlib.sha256(json.dumps([said, policy, known]).encode()).hexdigest()

    @property
    def files(self) -> list[Path]:
        """Its files, without what a check has written."""
        return [name for name in self._files if str(name) != CHECKED]


def write_row(row: Row) -> str:
    """Return a row as a line of the results."""
    fields = dict(zip(row.state.columns, row.state.to_row(), strict=True)) | {"seed": str(row.seed)}
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="").writerow([fields[name] for name in COLUMNS])
    return buffer.getvalue()


def _row(track: Track, line: str, number: int) -> Row:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_ROW))
    try:
        cells = next(csv.reader([line], strict=True), [])
    except csv.Error as error:
        raise Refused(Kind.FORMAT, f"this is not CSV: {error}", number) from None
    if len(cells) != len(COLUMNS):
        raise Refused(Kind.FORMAT, f"expected {len(COLUMNS)} columns, found {len(cells)}", number)
    fields = dict(zip(COLUMNS, cells, strict=True))
    if not re.fullmatch("0|[1-9][0-9]{0,8}", fields["seed"]):
        raise Refused(Kind.FORMAT, f"the seed is a whole number, not {fields['seed'][:50]!r}", number)
    if any(len(fields[name]) > LONGEST_FIELD for name in COLUMNS if name != "actions"):
        raise Refused(Kind.FORMAT, "a field is too long", number)
    space = {"environment": track.environment, "reward_space": track.reward}
    try:
        state = CompilerEnvState.from_row({**fields, **space})
    except InvalidState as error:
        raise Refused(Kind.FORMAT, error.reason, number) from None
    if state.reward is None or not math.isfinite(state.reward):
        raise Refused(Kind.FORMAT, f"the reward is a finite number, not {fields['reward']!r}", number)
    if len(state.actions) > MOST_ACTIONS:
        raise Refused(Kind.FORMAT, f"there are {len(state.actions)} actions, more than {MOST_ACTIONS}", number)
    return Row(state, int(fields["seed"]), number)
