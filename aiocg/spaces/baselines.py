"""Names of costs and of baseline costs in LLVM environments.

A name is what is counted, then a level of optimisation if it is that of a baseline, then a mark where functions are
marked for size as clang marks them: `Minsize` as `clang -Oz` does, `Optsize` as `-Os`. Sizes of machine code are
compared with the same mark on both sides, so that the passes alone make the difference; instructions are counted as
they are.
"""

from typing import NamedTuple

USUAL = "Oz"
"""`default<Oz>` of the program as it came: what the literature compares with."""

STRONGER = "OzMinsize"
"""What `clang -Oz` makes, its passes on the program marked for size: what "better than -Oz" means here."""

LEVELS = {
    "O3": "-O3",
    USUAL: "-Oz",
    "OsOptsize": "-Os of functions marked optsize",
    STRONGER: "-Oz of functions marked minsize",
}
"""What there are baselines of, with a few words on each."""

_MARKS = {"OsOptsize": "Optsize", STRONGER: "Minsize"}


class Baseline(NamedTuple):
    """What a level of optimisation costs, and what is to be compared with that: names of observations.

    Attributes:
        level: one of `LEVELS`.
        cost: of the program at hand.
        unoptimised: of the program as it came.
        optimised: of what the level makes of it.
    """

    level: str
    cost: str
    unoptimised: str
    optimised: str


class Baselines(NamedTuple):
    """The two baselines that results are told against, of levels `USUAL` and `STRONGER`."""

    usual: Baseline
    stronger: Baseline


class Cost(NamedTuple):
    """Something that a program costs.

    Attributes:
        prefix: with which all its names begin.
        unit: with which the names of the program at hand end; empty where no code is generated.
    """

    prefix: str
    unit: str
    what: str

    def baseline(self, level: str) -> Baseline:
        """Return what the cost is compared with at one of `LEVELS`."""
        prefix, mark = self.prefix, _MARKS.get(level, "") if self.unit else ""
        return Baseline(level, f"{prefix}{mark}{self.unit}", f"{prefix}O0{mark}", f"{prefix}{level}")


COSTS = (
    Cost("IrInstructionCount", "", "the number of IR instructions"),
    Cost("ObjectImageSize", "Bytes", "the bytes that the object file brings into an image"),
    Cost("ObjectTextSize", "Bytes", "the bytes of code and read-only data in the object file, as in CompilerGym"),
    Cost("TextSize", "Bytes", "the bytes of code and read-only data in the linked program"),
)
"""The costs that have baselines."""


def assumed_mark(cost: str) -> str:
    """Return the mark that a cost's name says functions have before code is generated: "Minsize", "Optsize" or ""."""
    return next((mark for mark in _MARKS.values() if cost.endswith(f"{mark}Bytes")), "")


def cost_baselines(cost: str) -> Baselines | None:
    """Return the two baselines for a cost, None for what is no cost of an LLVM environment.

    Each says in its `cost` what to observe of the program found: for sizes of machine code these differ.

    Args:
        cost: the observation that a search lowers, such as `IrInstructionCount`, or `ObjectImageSizeBytes` and
            `ObjectImageSizeMinsizeBytes`, for which the answer is the same.
    """
    for one in COSTS:
        if cost in {one.baseline(level).cost for level in LEVELS}:
            return Baselines(one.baseline(USUAL), one.baseline(STRONGER))
    return None
