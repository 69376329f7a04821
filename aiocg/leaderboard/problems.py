"""Problems of a submission."""

import enum

import msgspec

from aiocg.errors import AiocgError

LONGEST = 300  # characters of what a submission may make us repeat


class Kind(enum.StrEnum):
    """Classes of problems, the gravest first; each has an exit status of its own."""

    FORMAT = "format"
    TRACK = "track"
    COMPLETENESS = "completeness"
    BUDGET = "budget"
    LEAK = "leak"
    REPLAY = "replay"
    REWARD = "reward"
    BEHAVIOUR = "behaviour"
    UNAVAILABLE = "unavailable"
    UNPROVEN = "unproven"

    @property
    def exit_status(self) -> int:
        """The exit status of `aiocg leaderboard check`: 10 for the first class, 19 for the last."""
        return 10 + list(Kind).index(self)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is wrong.

    Attributes:
        kind: its class.
        detail: what was found, and what was expected.
        benchmark: the program that it concerns; empty if it is none.
        line: of `results.csv`, 0 where it is no particular one.
    """

    kind: Kind
    detail: str
    benchmark: str = ""
    line: int = 0

    def __post_init__(self) -> None:
        for field in ("detail", "benchmark"):
            text = getattr(self, field)
            plain = "".join(one if one.isprintable() else "?" for one in text[:LONGEST])  # not for a terminal to obey
            msgspec.structs.force_setattr(self, field, plain if len(text) <= LONGEST else f"{plain}...")

    def __str__(self) -> str:
        place = ", ".join(part for part in (f"line {self.line}" if self.line else "", self.benchmark) if part)
        return f"{self.kind}: {place}{': ' if place else ''}{self.detail}"


class Refused(AiocgError):
    """A submission or track that cannot be read any further.

    Attributes:
        problem: why.
    """

    def __init__(self, kind: Kind, detail: str, line: int = 0) -> None:
        self.problem = Problem(kind=kind, detail=detail, line=line)
        super().__init__(str(self.problem))
