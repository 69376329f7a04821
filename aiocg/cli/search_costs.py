"""Costs of a program at the compiler's levels, for the table of a search."""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from aiocg.cli.search_reward import short

if TYPE_CHECKING:
    from aiocg import Env

ZEROED = "zeroed"
COSTS = {  # of LLVM's programs, by what the table and JSON call them: observations before, at levels, and found;
    # found code has the mark that the reward assumes, and so has the file that is written
    "instructions": {
        "before": "IrInstructionCountO0",
        "O3": "IrInstructionCountO3",
        "Oz": "IrInstructionCountOz",
        "OzMinsize": "IrInstructionCountOzMinsize",
        "found": "IrInstructionCount",
    },
    "bytes": {
        "before": "ObjectImageSizeO0Minsize",
        "O3": "ObjectImageSizeO3",
        "Oz": "ObjectImageSizeOz",
        "OzMinsize": "ObjectImageSizeOzMinsize",
        "found": "ObjectImageSize{}Bytes",
    },
    ZEROED: {
        "before": "ObjectBssSizeO0Minsize",
        "O3": "ObjectBssSizeO3",
        "Oz": "ObjectBssSizeOz",
        "OzMinsize": "ObjectBssSizeOzMinsize",
        "found": "ObjectBssSize{}Bytes",
    },
}
TITLES = {"instructions": "instructions", "bytes": "bytes in the image", ZEROED: "zero-initialised bytes"}
LEVELS = {"before": "before", "O3": "-O3", "Oz": "-Oz", "OzMinsize": "clang -Oz", "found": "found"}
SMALL = ("OzMinsize", "Oz", "O3", "before")  # levels to compare with, if they compile the program, best known first


async def costs_at_levels(env: "Env", names: Mapping[str, str]) -> tuple[dict[str, int], dict[str, str]]:
    """Observe costs by level; return those that can be had, and why the others cannot.

    Raises:
        ServiceError: when what was found has no such cost, or the compiler dies.
    """
    from aiocg.errors import ObservationFailed

    with contextlib.suppress(ObservationFailed):
        return dict(zip(names, await env.observe(*names.values()), strict=True)), {}
    known, problems = {"found": await env.observe(names["found"])}, {}
    for level, name in names.items():
        try:
            known[level] = await env.observe(name)
        except ObservationFailed as error:
            problems[level] = short(error)
    return known, problems


def smallest_level(costs: Mapping[str, int]) -> str | None:
    """Return the level that others are related to: that of clang -Oz, or the next that compiles the program."""
    return next((level for level in SMALL if level in costs), None)
