"""The subject of observations, and the names of costs at each level.

A name consists of the quantity, the optimisation level for a baseline, and `Minsize` or `Optsize` if functions are
marked for size as by `clang -Oz` or `-Os`. Baselines are marked before their passes, and programs whose machine code is
measured are marked before code generation. So sizes with the same mark differ only by their passes.
"""

from collections.abc import Callable
from typing import Protocol

from aiocg.workers.compilation import Observation
from aiocg.workers.llvm._attributes import MINSIZE, NOTHING, OPTSIZE, Attributes
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.parameters import Parameters


class Subject(Protocol):
    """The input of an observation: a session."""

    @property
    def engine(self) -> Engine:
        """The engine that holds the program."""

    @property
    def benchmark(self) -> Benchmark:
        """The program at its initial state."""

    @property
    def state(self) -> State:
        """The program's current state."""

    @property
    def parameters(self) -> Parameters:
        """The session's observation parameters."""

    @property
    def deadline(self) -> float:
        """The time limit of the observation, in seconds of the monotonic clock."""


LEVELS = {
    "O0": "of the program as it came",
    "O3": "after default<O3>",
    "Oz": "after default<Oz>",
    "OzMinsize": "after clang<Oz> on a copy whose functions are marked minsize and optsize, as clang -Oz does",
    "OsOptsize": "after default<Os> on a copy whose functions are marked optsize, as clang -Os marks them",
}


_MARKED = " with functions marked {} before code is generated"
# For each mark: its name, attributes and description, and the levels measured with it, by the suffix of their names.
_MARKS: tuple[tuple[str, Attributes, str, dict[str, str]], ...] = (
    ("", NOTHING, "", {"O0": "O0", "O3": "O3", "Oz": "Oz"}),
    ("Minsize", MINSIZE, _MARKED.format("minsize and optsize"), {"O0Minsize": "O0", "OzMinsize": "OzMinsize"}),
    ("Optsize", OPTSIZE, _MARKED.format("optsize"), {"O0Optsize": "O0", "OsOptsize": "OsOptsize"}),
)

BASELINES = {attributes: next(reversed(levels.values())) for _, attributes, _, levels in _MARKS}
"""The level that sizes are usually compared with, by mark."""


def sizes(
    prefix: str, description: str, measure: Callable[[Subject, State, Attributes], int]
) -> tuple[Observation, ...]:
    """Return the observations of one size of machine code.

    Args:
        prefix: the start of the names, such as `TextSize`.
        description: the size in words, without a full stop.
        measure: returns the size in bytes of a state's machine code, with attributes added before code generation.
    """

    def at(level: str, attributes: Attributes) -> Callable[[Subject], int]:
        return lambda subject: measure(subject, subject.benchmark.at(level), attributes)

    def here(attributes: Attributes) -> Callable[[Subject], int]:
        return lambda subject: measure(subject, subject.state, attributes)

    found = []
    for mark, attributes, what, levels in _MARKS:
        cost = f"{prefix}{mark}Bytes"
        found.append(Observation.integer(cost, f"{description}{what}.", here(attributes), platform_dependent=True))
        for end, level in levels.items():
            about = f"{cost} {LEVELS[level]}."
            found.append(Observation.integer(f"{prefix}{end}", about, at(level, attributes), platform_dependent=True))
    return tuple(found)
