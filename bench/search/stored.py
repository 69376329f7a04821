"""The results file: one JSON object a line, one line a search of a program, added to and never rewritten."""

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

Row = dict[str, Any]


class Job(NamedTuple):
    """One search of one program: what no two results have in common.

    Attributes:
        program: its suite and name, such as "programs-v0/qsort".
        goal: "instructions", "bytes" or "runtime".
        search: its name in `aiocg.search`.
        seconds: the budget.
        seed: of the search; those without random choices ignore it.
    """

    program: str
    goal: str
    search: str
    seconds: float
    seed: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Self:
        """Return what a row is the result of.

        Raises:
            KeyError: when it does not say.
        """
        return cls(*(row[name] for name in cls._fields))


def read(path: Path, job: Any = Job) -> dict[Any, Row]:
    """Return the rows of a results file, the last of each job; there are none where there is no file.

    A line that is no row, as one that was cut off when the machine stopped, is left out with a warning.

    Args:
        path: the file.
        job: what rows are the results of: a class with a constructor `of` like that of `Job`.
    """
    rows: dict[Any, Row] = {}
    if not path.exists():
        return rows
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        try:
            row = json.loads(line)
            rows[job.of(row)] = row
        except (ValueError, KeyError, TypeError):
            warnings.warn(f"{path}:{number} is no result, perhaps one that was cut off: left out", stacklevel=2)
    return rows


def append(path: Path, row: Row) -> None:
    """Add a row, on a line of its own even if the last line was cut off."""
    with path.open("ab+") as file:
        if file.tell():
            file.seek(-1, 2)
            if file.read(1) != b"\n":
                file.write(b"\n")
        file.write(json.dumps(row).encode() + b"\n")
