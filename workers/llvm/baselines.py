"""What the library's own optimisation levels make of a benchmark."""

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.recipe import Program

LEVELS = ("O0", "O1", "O2", "O3", "Os", "Oz")


class Benchmark:
    """A loaded program: its initial state, and the states that `default<O1>` and so on lead to.

    Each level is computed when it is first asked for, and once.

    Attributes:
        engine: in which it lives.
        initial: the program as it came.
        program: how to build and run it, None when that is not known.
    """

    def __init__(self, engine: Engine, initial: State, program: Program | None = None) -> None:
        self.engine = engine
        self.initial = initial
        self.program = program
        self._levels = {"O0": initial}

    def at(self, level: str) -> State:
        """Return the state at an optimisation level, one of `LEVELS`; O0 is the program as it came.

        Raises:
            CompilationError: with `FailureCode.OBSERVATION` when LLVM cannot run that pipeline on this
                program.
        """
        state = self._levels.get(level)
        if state is None:
            try:
                state = self.engine.apply(self.initial, f"default<{level}>")
            except CompilationError as error:
                raise CompilationError(
                    FailureCode.OBSERVATION, f"the baseline -{level} of this program: {error.message}"
                ) from None
            self._levels[level] = state
        return state
