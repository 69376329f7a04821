"""The observation spaces of `loops-v0`, by name."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import Observation
from aiocg.workers.loops._expression import Computation, Stage
from aiocg.workers.loops._features import FEATURES, features, graph
from aiocg.workers.loops._layout import Layout, write_layout
from aiocg.workers.loops._nest import Nest, Split
from aiocg.workers.loops._schedule import MAX_LOOPS, Schedule, unparse
from aiocg.workers.loops._target import Roof, Timing
from aiocg.workers.loops._tile import staged_tile

JOINED = ";"  # the name, among those of tensors, of layouts of all statements


def loop_tree(nests: Sequence[Nest]) -> str:
    """Return the nests of a schedule as text, with a line for each loop, computed variable and stage."""
    lines: list[str] = []
    number = 0
    for nest in nests:
        lines += _nest_lines(nest, number)
        number += len(nest.loops)
    return "".join(f"{line}\n" for line in lines)


def _nest_lines(nest: Nest, number: int) -> Iterator[str]:
    for depth, loop in enumerate(nest.loops):
        kind = "" if loop.kind == "serial" else f" [{loop.kind}]"
        yield f"{'  ' * depth}for {loop.variable} in {loop.extent} : L{number + depth}{kind}"
        inside = "  " * (depth + 1)
        yield from (inside + line for line in _computed_lines(nest, depth))
        yield from (inside + line for line in _staging_lines(nest, loop.variable))
    yield "  " * len(nest.loops) + _statement(nest.stage)


def _computed_lines(nest: Nest, depth: int) -> Iterator[str]:
    """Return lines for computed variables, each at the outermost loop where it is known."""
    bounds = {guard.variable: f" < {guard.bound}" for guard in nest.guards}
    for relation in reversed(nest.relations):
        if isinstance(relation, Split):
            formulas = {relation.parent: f"{relation.outer}*{relation.factor} + {relation.inner}"}
        else:
            fused, extent = relation.fused, relation.extent
            formulas = {relation.outer: f"{fused} // {extent}", relation.inner: f"{fused} % {extent}"}
        for variable, formula in formulas.items():
            if nest.depth[variable] == depth:
                yield f"where {variable} = {formula}{bounds.get(variable, '')}"


def _staging_lines(nest: Nest, variable: str) -> Iterator[str]:
    for staging in nest.stagings:
        if staging.variable == variable:
            tile = staged_tile(nest, staging)
            yield f"stage {tile.tensor}[{', '.join(map(str, tile.shape))}] : {tile.size} bytes"


def _statement(stage: Stage) -> str:
    """Return the body's statement, such as `C[i, j] <- sum(A[i, k] * B[k, j])`."""
    alone = dataclasses.replace(stage, reduction=(), reducer="")
    body = unparse(Computation((), (alone,))).partition(" = ")[2].strip()
    place = f"{stage.tensor}[{', '.join(axis.name for axis in stage.spatial)}]"
    return f"{place} <- {stage.reducer}({body})" if stage.reducer else f"{place} <- {body}"


def bandwidth(roof: Roof, footprint: int) -> float:
    """Return the bandwidth in bytes per second for a working set: that of the next larger measured size."""
    fitting = (rate for size, rate in sorted(roof.bandwidths) if size >= footprint)
    return next(fitting, max(roof.bandwidths)[1])


def least_seconds(computation: Computation, roof: Roof) -> float:
    """Return the computation's minimal time by the roofline, in seconds."""
    moving = computation.traffic / bandwidth(roof, computation.footprint)
    return max(computation.flops / roof.flops, moving)


class _Subject(Protocol):
    """The input of an observation: a schedule with its kernel."""

    @property
    def schedule(self) -> Schedule:
        """The current schedule."""

    @property
    def cursor(self) -> int:
        """The number of the loop at the cursor."""

    def templates(self) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for each statement, the most promising first."""

    def joined_layouts(self) -> tuple[tuple[Layout, ...], ...]:
        """Return layouts for all statements in which some share their outermost loop, the most promising first."""

    @property
    def roof(self) -> Roof:
        """The device's roofline."""

    def source(self) -> str:
        """Return the input of the device's compiler, or its output."""

    def timing(self, name: str) -> Timing:
        """Return the kernel's timing, for the observation of this name."""


def _flops(subject: _Subject) -> float:
    if subject.schedule.left_alone:
        return 0.0
    return subject.schedule.computation.flops / subject.timing("flops").seconds / 1e9


def observation_spaces(actions: int) -> tuple[ObservationSpec, ...]:
    """Return all spaces, for this number of actions in the first action space."""
    specs = [one.spec for one in OBSERVATIONS.values()]
    return tuple([replace(spec, shape=(actions,)) if spec.name == "action_mask" else spec for spec in specs])


_measured = functools.partial(Observation.of, dtype="float64", low=0, deterministic=False, platform_dependent=True)
FLOPS = _measured("flops", "real", "Floating-point operations, 10**9 a second.", _flops)
"""The speed of the kernel, 0 if nobody would wait for it: an observation that all loop environments share."""
COMPILED = frozenset({"source", "flops", "runtime", "runtime_spread", "roof_fraction"})
"""The observations that need a kernel."""


def _spread(subject: _Subject) -> NDArray[np.float64]:
    timing = subject.timing("runtime_spread")
    return np.array([timing.low, timing.high])


def _roof_fraction(subject: _Subject) -> float:
    if subject.schedule.left_alone:
        return 0.0
    return least_seconds(subject.schedule.computation, subject.roof) / subject.timing("roof_fraction").seconds


def _templates(subject: _Subject) -> dict[str, list[str]]:
    stages, found = subject.schedule.computation.stages, subject.templates()
    alone = {stage.tensor: list(map(write_layout, layouts)) for stage, layouts in zip(stages, found, strict=True)}
    joined = [";".join(map(write_layout, layouts)) for layouts in subject.joined_layouts()]
    return {**alone, JOINED: joined} if joined else alone


_ALL = (
    Observation.of(
        "loop_tree",
        "text",
        "The loops of each stage, with their numbers.",
        lambda subject: loop_tree(subject.schedule.nests),
    ),
    Observation.of(
        "schedule",
        "text",
        "All that tells the schedule from others, nest by nest.",
        lambda subject: subject.schedule.text,
    ),
    Observation.of(
        "source",
        "text",
        "The code that the device's compiler is given.",
        lambda subject: subject.source(),
        platform_dependent=True,
    ),
    Observation.of(
        "graph",
        "json",
        "Loops, accesses and tensors as a graph, in NetworkX's form.",
        lambda subject: graph(subject.schedule),
    ),
    Observation.of(
        "features",
        "array",
        "A row for each loop by its number: extent, kind, strides, reuse, footprint and what caches hold of it.",
        lambda subject: features(subject.schedule),
        dtype="float32",
        shape=(MAX_LOOPS, len(FEATURES)),
    ),
    Observation.of(
        "action_mask",
        "array",
        "1 for each action of the space steps that is legal.",
        lambda subject: subject.schedule.legal().astype(np.int8),
        dtype="int8",
        shape=(-1,),
        low=0,
        high=1,
    ),
    Observation.of(
        "refusals",
        "json",
        "For each action of the space steps that is not, why.",
        lambda subject: subject.schedule.refusals(),
    ),
    Observation.integer(
        "cursor", "The number of the loop at the cursor.", lambda subject: subject.cursor, high=MAX_LOOPS - 1
    ),
    Observation.of(
        "templates",
        "json",
        "For each statement layouts that are likely to be fast, the likeliest first; behind `;`, if some can share "
        "their outermost loop, layouts of all statements in which they do: what stands in `nests<…>`.",
        _templates,
        platform_dependent=True,
    ),
    FLOPS,
    _measured(
        "runtime",
        "real",
        "Seconds that the kernel takes, the median of several samples.",
        lambda subject: subject.timing("runtime").seconds,
    ),
    _measured(
        "runtime_spread",
        "array",
        "The first and the third quartile of the samples, in seconds.",
        _spread,
        default=None,
        shape=(2,),
    ),
    _measured(
        "roof_fraction",
        "real",
        "The speed as a fraction of what the device's arithmetic and memory allow, as measured.",
        _roof_fraction,
    ),
    Observation.integer(
        "flop_count",
        "Floating-point operations of the computation.",
        lambda subject: subject.schedule.computation.flops,
    ),
    Observation.integer("footprint", "Bytes of all tensors.", lambda subject: subject.schedule.computation.footprint),
)
OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _ALL}
