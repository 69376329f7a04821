"""What an observation is computed from, where there is no session."""

import math
from typing import NamedTuple

from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.parameters import Parameters


class Subject(NamedTuple):
    """A state of a benchmark, and how it is observed."""

    benchmark: Benchmark
    state: State
    parameters: Parameters
    deadline: float = math.inf

    @property
    def engine(self) -> Engine:
        """The engine that the program lives in."""
        return self.benchmark.engine
