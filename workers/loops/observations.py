"""The observation spaces of `loops-v0`, by name."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.loops.features import FEATURES, features, graph
from aiocg.workers.loops.loop_tree import loop_tree
from aiocg.workers.loops.roofline import least_seconds
from aiocg.workers.loops.schedule import MAX_LOOPS, Schedule
from aiocg.workers.loops.target import Roof, Timing

__all__ = ["OBSERVATIONS", "Observation", "Subject", "flops", "flops_spec", "observation_spaces"]


class Subject(Protocol):
    """What is observed: a schedule that can be compiled and measured."""

    @property
    def schedule(self) -> Schedule:
        """How the computation is carried out now."""

    @property
    def cursor(self) -> int:
        """The number of the loop that the cursor is at."""

    @property
    def roof(self) -> Roof:
        """What the device can do."""

    def source(self) -> str:
        """Return what the device's compiler is given, or makes of it."""

    def timing(self, name: str) -> Timing:
        """Return how long the kernel takes, measured for an observation of that name."""


class Observation(NamedTuple):
    """An observation space, and how a value of it is computed.

    Attributes:
        spec: the space.
        compute: returns the value.
        compiles: it needs a kernel.
    """

    spec: ObservationSpec
    compute: Callable[[Any], Any]
    compiles: bool = False


def flops_spec() -> ObservationSpec:
    """Return the space of the speed, which is the same in all environments of loops."""
    return _measured("flops", "real", "Floating-point operations, 10**9 a second.", 0.0, low=0)


def flops(subject: Subject) -> float:
    """Return the speed of the kernel: 10**9 floating-point operations a second."""
    return subject.schedule.computation.flops / subject.timing("flops").seconds / 1e9


def observation_spaces(actions: int) -> tuple[ObservationSpec, ...]:
    """Return all spaces, for so many actions in the first action space."""
    return tuple([_sized(one.spec, actions) for one in OBSERVATIONS.values()])


def _sized(spec: ObservationSpec, actions: int) -> ObservationSpec:
    if spec.name != "action_mask":
        return spec
    return ObservationSpec(spec.name, spec.kind, spec.description, spec.dtype, (actions,), low=0, high=1)


def _measured(name: str, kind: Any, description: str, default: Any, **bounds: Any) -> ObservationSpec:
    return ObservationSpec(
        name, kind, description, "float64", deterministic=False, platform_dependent=True, default=default, **bounds
    )


def _spread(subject: Subject) -> NDArray[np.float64]:
    timing = subject.timing("runtime_spread")
    return np.array([timing.low, timing.high])


def _roof_fraction(subject: Subject) -> float:
    return least_seconds(subject.schedule.computation, subject.roof) / subject.timing("roof_fraction").seconds


_ALL = (
    Observation(
        ObservationSpec("loop_tree", "text", "The loops of each stage, with their numbers.", default=""),
        lambda subject: loop_tree(subject.schedule.nests),
    ),
    Observation(
        ObservationSpec("schedule", "text", "All that tells the schedule from others, nest by nest.", default=""),
        lambda subject: subject.schedule.text,
    ),
    Observation(
        ObservationSpec(
            "source", "text", "The code that the device's compiler is given.", platform_dependent=True, default=""
        ),
        lambda subject: subject.source(),
        compiles=True,
    ),
    Observation(
        ObservationSpec("graph", "json", "Loops, accesses and tensors as a graph, in NetworkX's form.", default={}),
        lambda subject: graph(subject.schedule),
    ),
    Observation(
        ObservationSpec(
            "features",
            "array",
            "A row for each loop by its number: extent, kind, strides, reuse, footprint and what caches hold of it.",
            "float32",
            (MAX_LOOPS, len(FEATURES)),
        ),
        lambda subject: features(subject.schedule),
    ),
    Observation(
        ObservationSpec(
            "action_mask", "array", "1 for each action of the space steps that is legal.", "int8", (-1,), low=0, high=1
        ),
        lambda subject: subject.schedule.legal().astype(np.int8),
    ),
    Observation(
        ObservationSpec("refusals", "json", "For each action of the space steps that is not, why.", default={}),
        lambda subject: subject.schedule.refusals(),
    ),
    Observation(
        ObservationSpec(
            "cursor", "integer", "The number of the loop that the cursor is at.", low=0, high=MAX_LOOPS - 1, default=0
        ),
        lambda subject: subject.cursor,
    ),
    Observation(flops_spec(), flops, compiles=True),
    Observation(
        _measured("runtime", "real", "Seconds that the kernel takes, the median of several samples.", 0.0, low=0),
        lambda subject: subject.timing("runtime").seconds,
        compiles=True,
    ),
    Observation(
        _measured(
            "runtime_spread",
            "array",
            "The first and the third quartile of the samples, in seconds.",
            None,
            shape=(2,),
            low=0,
        ),
        _spread,
        compiles=True,
    ),
    Observation(
        _measured(
            "roof_fraction",
            "real",
            "The speed as a fraction of what the device's arithmetic and memory allow, as measured.",
            0.0,
            low=0,
        ),
        _roof_fraction,
        compiles=True,
    ),
    Observation(
        ObservationSpec("flop_count", "integer", "Floating-point operations of the computation.", low=0, default=0),
        lambda subject: subject.schedule.computation.flops,
    ),
    Observation(
        ObservationSpec("footprint", "integer", "Bytes of all tensors.", low=0, default=0),
        lambda subject: subject.schedule.computation.footprint,
    ),
)

OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _ALL}
