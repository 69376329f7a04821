"""Measurements as they are stored: what the programs of `bench` write with `--json`."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LIMIT, VERSUS, PROFILE = "limit.json", "versus.json", "profile.json"
GREEDY = "greedy step"
LARGE = 20_000  # instructions, above which targets for small programs do not hold
_PROGRAM = re.compile(r"(?P<name>.+), (?P<size>[\d,]+) instructions: (?P<what>.+)")
_MANY = re.compile(r"(?P<count>[\d,]+) envs?: (?P<what>.+)")

Row = Mapping[str, Any]  # of `python -m bench`: what, unit, median, low, high, budget, met, ...
Comparison = Mapping[str, Any]  # of `python -m bench.versus_compiler_gym`; see `bench.versus.comparison`


class Missing(Exception):
    """A file or a figure is not there."""


@dataclass(slots=True)
class Walked:
    """What was measured of one program beside LLVM alone, by what it is."""

    name: str
    instructions: int
    rows: dict[str, Row] = field(default_factory=dict)

    def median(self, what: str) -> float:
        """Return the median of a figure, 0 where it was not measured."""
        return float(self.rows[what]["median"]) if what in self.rows else 0.0


@dataclass(frozen=True, slots=True)
class Stored:
    """All results.

    Attributes:
        limit: of `python -m bench --only limit`.
        versus: of `python -m bench.versus_compiler_gym`, in which the original did run.
        profile: of `python -m bench.profile_step`.
    """

    limit: Mapping[str, Any]
    versus: Mapping[str, Any]
    profile: Mapping[str, Any]

    @classmethod
    def load(cls, folder: Path) -> "Stored":
        """Read the files.

        Raises:
            Missing: when one is not there, or is not what is needed.
        """
        found = []
        for name in (LIMIT, VERSUS, PROFILE):
            try:
                found.append(json.loads((folder / name).read_text(encoding="utf-8")))
            except (OSError, ValueError) as error:
                raise Missing(f"cannot read {folder / name}: {error}; --measure makes it") from None
        stored = cls(*found)
        if [one["name"] for one in stored.limit["measurements"]] != ["limit"]:
            raise Missing(f"{LIMIT} has other measurements than limit; --measure makes it")
        if stored.versus.get("original_could_not_run"):
            raise Missing(f"{VERSUS} has nothing of the original: {stored.versus['original_could_not_run']}")
        return stored

    @property
    def measurement(self) -> Mapping[str, Any]:
        """The measurement beside LLVM alone."""
        return dict(self.limit["measurements"][0])

    def walked(self) -> list[Walked]:
        """Return what was measured of programs beside LLVM alone, the smallest first."""
        programs: dict[str, Walked] = {}
        for row in self.measurement["rows"]:
            if match := _PROGRAM.fullmatch(row["what"]):
                size = int(match["size"].replace(",", ""))
                programs.setdefault(match["name"], Walked(match["name"], size)).rows[match["what"]] = row
        return sorted(programs.values(), key=lambda program: program.instructions)

    def many(self) -> dict[int, dict[str, Row]]:
        """Return what was measured of many environments beside LLVM alone, by their number."""
        found: dict[int, dict[str, Row]] = {}
        for row in self.measurement["rows"]:
            if match := _MANY.fullmatch(row["what"]):
                found.setdefault(int(match["count"].replace(",", "")), {})[match["what"]] = row
        return dict(sorted(found.items()))

    def compared(self, kind: str) -> list[Comparison]:
        """Return the comparisons with the original of one kind, the smallest program first."""
        found = [one for one in self.versus["comparisons"] if kind_of(one) == kind and one["ratio"]]
        return sorted(found, key=lambda one: one["instructions"])

    def kinds(self) -> list[str]:
        """Return what was compared with the original, each kind once."""
        return list(dict.fromkeys(kind_of(one) for one in self.versus["comparisons"] if one["ratio"]))


def kind_of(comparison: Comparison) -> str:
    """Return what was compared, without the number of actions."""
    what = str(comparison["what"])
    return GREEDY if what.startswith(GREEDY) else what


def short(program: str) -> str:
    """Return a program's name for an axis."""
    generated = re.fullmatch(r"generated, (\d+) functions", program)
    return f"generated ({generated[1]})" if generated else program.replace(" of cbench-v1", "")
