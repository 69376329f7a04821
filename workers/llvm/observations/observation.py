"""What an observation space is to the worker: a description, and the function that computes it from a state."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.llvm.baselines import Benchmark
from aiocg.workers.llvm.engine import Engine
from aiocg.workers.llvm.states import State
from aiocg.workers.programs.parameters import Parameters


class Subject(NamedTuple):
    """What an observation is computed from.

    Attributes:
        benchmark: the program at its start, with the engine.
        state: the program as it is now.
        parameters: what the session was told about how to observe.
        deadline: when the observation must be there, in seconds of the monotonic clock.
    """

    benchmark: Benchmark
    state: State
    parameters: Parameters
    deadline: float = math.inf

    @property
    def engine(self) -> Engine:
        """The engine that the program lives in."""
        return self.benchmark.engine


class Observation(NamedTuple):
    """An observation space and the function that computes it."""

    spec: ObservationSpec
    compute: Callable[[Subject], Any]


def text(name: str, description: str, compute: Callable[[Subject], str]) -> Observation:
    """Make an observation that is text."""
    return Observation(ObservationSpec(name, "text", description, default=""), compute)


def count(name: str, description: str, compute: Callable[[Subject], int], *, platform: bool = False) -> Observation:
    """Make an observation that is a number of things."""
    spec = ObservationSpec(name, "integer", description, low=0, default=0, platform_dependent=platform)
    return Observation(spec, compute)
