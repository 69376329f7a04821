"""Results of checking a submission: `checked.csv`, the source of the pages."""

import csv
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from aiocg.leaderboard._folder import lines_of
from aiocg.leaderboard.problems import Kind, Refused
from aiocg.leaderboard.submission import Row
from aiocg.leaderboard.track import Program
from aiocg.states.behaviour import Behaviour
from aiocg.states.result import ValidationResult

Positive = Annotated[float, msgspec.Meta(gt=0, lt=1e9)]  # no NaN either


class Checked(msgspec.Struct, frozen=True):
    """A row that was checked.

    Attributes:
        benchmark, seed: which row it is.
        ratio: how many times as small or as fast as the baseline the program is.
        low, high: the ends of the 95 % interval of a measurement; both the ratio where costs are exact.
        walltime: seconds that the search took, as the submission says.
        actions: how many there are.
        executed: whether the program was run and did the same.
        accepted: who has accepted a result that is unlikely and could not be run, and why; empty for all others.
    """

    benchmark: str
    seed: int
    ratio: Positive
    low: Positive
    high: Positive
    walltime: float
    actions: int
    executed: bool
    accepted: str = ""

    @classmethod
    def of(
        cls,
        row: Row,
        program: Program,
        result: ValidationResult,
        ratio: tuple[float, float, float],
        accepted: str,
    ) -> "Checked":
        """Return what a validation says of a row."""
        return cls(
            program.uri,
            row.seed,
            *ratio,
            row.state.walltime,
            len(row.state.actions),
            result.behaviour is Behaviour.SAME,
            accepted,
        )


def write_checked(path: Path, rows: Iterable[Checked]) -> None:
    """Write the file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Checked.__struct_fields__)
        writer.writerows(map(msgspec.structs.astuple, rows))


def read_checked(path: Path) -> list[Checked]:
    """Read the file.

    Raises:
        Refused: when it is none.
    """
    try:
        reader = csv.DictReader((line for _, line in lines_of(path, 64 << 10)), strict=True)
        rows = list(reader)
        if reader.fieldnames != list(Checked.__struct_fields__):
            raise Refused(Kind.FORMAT, f"the first line of {path.name} is {','.join(Checked.__struct_fields__)}")
        return [msgspec.convert({**row, "executed": row["executed"] == "True"}, Checked, strict=False) for row in rows]
    except (csv.Error, KeyError, msgspec.ValidationError) as error:
        raise Refused(Kind.FORMAT, f"{path.name} is malformed: {error}") from None
