"""The results of the library's own optimisation levels on a benchmark, both unmarked and marked for size."""

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm._passes import CLANG_OZ
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.recipe import Program

LEVELS = ("O0", "O1", "O2", "O3", "Os", "Oz")
MARKED_LEVELS = {"OsOptsize": ("mark<optsize>", "default<Os>"), "OzMinsize": ("mark<minsize>", CLANG_OZ)}
"""What clang does at these levels: first it marks the functions."""


class Benchmark:
    """A loaded program: its initial state, and the states after `default<O1>` and the other levels.

    Each level is computed once, on first use.

    Attributes:
        engine: the engine that holds the states.
        initial: the program as it was loaded.
        program: how to build and run it; None if unknown.
    """

    def __init__(self, engine: Engine, initial: State, program: Program | None = None) -> None:
        self.engine = engine
        self.initial = initial
        self.program = program
        self._levels = {"O0": initial}

    def at(self, level: str) -> State:
        """Return the state at one of `LEVELS` or `MARKED_LEVELS`; O0 is the program as it was loaded.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` if LLVM cannot run that pipeline on this program.
        """
        state = self._levels.get(level)
        if state is None:
            state = self.initial
            try:
                for action in MARKED_LEVELS.get(level, (f"default<{level}>",)):
                    state = self.engine.apply(state, action)
            except CompilationError as error:
                raise CompilationError(
                    FailureCode.OBSERVATION, f"the baseline -{level} of this program: {error.message}"
                ) from None
            self._levels[level] = state
        return state
