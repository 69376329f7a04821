"""The core sets: pass sequences that work well on many functions, the most useful first.

There is a text file for each cost, which also has the command that selected the sequences.
"""

from functools import cache
from importlib.resources import files

from aiocg.search.functionwise.population import Passes

FILES = {  # by the observation of function costs
    "FunctionInstructionCounts": "core_instructions.txt",
    "FunctionImageSizesMinsize": "core_bytes.txt",
}


@cache
def core(costs: str) -> tuple[Passes, ...]:
    """Return the core set for an observation of function costs."""
    lines = (files(__package__) / FILES[costs]).read_text(encoding="utf-8").splitlines()
    return tuple(tuple(line.split(",")) for line in lines if not line.startswith("#"))
