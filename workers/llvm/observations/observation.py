"""An observation space in the worker: a description, and the function that computes it from a state."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from aiocg.transport.messages import ObservationSpec
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


class Observation(NamedTuple):
    """An observation space and the function that computes it."""

    spec: ObservationSpec
    compute: Callable[[Subject], Any]


def text(name: str, description: str, compute: Callable[[Subject], str]) -> Observation:
    """Return an observation that is text."""
    return Observation(ObservationSpec(name, "text", description, default=""), compute)


def count(name: str, description: str, compute: Callable[[Subject], int], *, platform: bool = False) -> Observation:
    """Return an observation that is a count."""
    spec = ObservationSpec(name, "integer", description, low=0, default=0, platform_dependent=platform)
    return Observation(spec, compute)
