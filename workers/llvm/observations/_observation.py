"""What observations are computed from."""

from typing import Protocol

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
