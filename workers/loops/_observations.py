"""The observation spaces of `loops-v0`, by name, and the features of schedules: of each loop, and a graph.

`features` is an array with a row for each possible loop number and a column for each of `FEATURES`. Rows of unused loop
numbers are 0. Counts and bytes are base-2 logarithms, so that features range from 0 to a few dozen; strides are
sign(s) * log2(1 + |s|). Cache sizes are typical ones, not those of a machine, so that equal schedules have equal
features everywhere.

* `present`: 1.
* `stage`: the number of the stage. `position`: the loop's position in its nest, 0 for the outermost.
* `innermost`: 1 if no loop is inside.
* `extent`: log2 of the loop's iterations.
* `reduced`: 1 if a reduction axis depends on it.
* `serial` ... `thread.z`: 1 for the loop's kind.
* `remainder`: 1 if a guard that skips the body in some iterations depends on this loop.
* `entered`: log2 of how often the loop is entered. `bodies`: log2 of how often one iteration of it runs the body.
* `turn_bytes`: log2 of the bytes, of all tensors together, that one iteration touches at most. `turn_in_l1`,
  `turn_in_l2`, `turn_in_l3`: 1 if that fits in 32 KiB, 1 MiB, 32 MiB.
* `bytes`, `in_l1`, `in_l2`, `in_l3`: the same for all iterations.
* `reuse`: log2 of how often each element is accessed, on average, while the loop runs once.
* `staged`: log2 of the bytes of tiles that each iteration copies to shared memory, 0 if none.
* for the written element (`written_...`) and the first `READS` distinct read ones (`read0_...`): `_present`: 1;
  `_stride`: the distance in elements from the first iteration's to the second's; `_varies`: 1 if it depends on the
  loop; `_touched`: log2 of the maximal number of elements touched while the loop runs once.
"""

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, get_args

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from aiocg.transport.messages import ObservationSpec
from aiocg.workers.compilation import Observation
from aiocg.workers.loops._expression import ELEMENT_BYTES, Computation, Read, Stage
from aiocg.workers.loops._nest import Kind, Nest, Split
from aiocg.workers.loops._rules import span, staged_tile
from aiocg.workers.loops._schedule import MAX_LOOPS, Layout, Schedule, unparse, write_layout
from aiocg.workers.loops._target import Roof, Timing


def accesses(stage: Stage) -> list[Read]:
    """Return the element that a stage writes, followed by the distinct ones that it reads, in textual order."""
    return [stage.written, *dict.fromkeys(stage.reads())]


def stride(nest: Nest, access: Read, shape: Sequence[int], variable: str) -> int:
    """Return the distance in elements of an access between a loop's first two iterations, other loops in their first.

    Args:
        nest: the loops.
        access: the element.
        shape: the shape of its tensor.
        variable: the loop's variable.
    """
    values = nest.values({loop.variable: int(loop.variable == variable) for loop in nest.loops})
    return sum(
        math.prod(shape[dimension + 1 :]) * factor * values[axis]
        for dimension, index in enumerate(access.indices)
        for axis, factor in index.terms
    )


def touched(nest: Nest, access: Read, shape: Sequence[int], inside: Set[str]) -> int:
    """Return the maximal number of elements of a tensor that loops touch by one access.

    Args:
        nest: the loops.
        access: the element.
        shape: the shape of its tensor.
        inside: the loops that run; the others are fixed.
    """
    extents = {loop.variable: loop.extent for loop in nest.loops}
    needed: set[str] = set()
    box = combinations = 1
    for index, most in zip(access.indices, shape, strict=True):
        extent = 1
        for variable, factor in index.terms:
            values = span(nest, variable, inside) or nest.extent[variable]
            extent += abs(factor) * (values - 1)
            combinations *= values
            needed |= nest.dependencies[variable] & inside
        box *= min(extent, most)
    return min(box, combinations, math.prod(extents[variable] for variable in needed))


READS = 4  # of a stage that get features
CACHES: Mapping[str, int] = {"l1": 2**15, "l2": 2**20, "l3": 2**25}  # bytes

_ACCESSES = ("written", *(f"read{number}" for number in range(READS)))
FEATURES: tuple[str, ...] = (
    "present", "stage", "position", "innermost", "extent", "reduced", *get_args(Kind), "remainder", "entered", "bodies",
    "turn_bytes", *(f"turn_in_{cache}" for cache in CACHES), "bytes", *(f"in_{cache}" for cache in CACHES), "reuse",
    "staged", *(f"{access}_{what}" for access in _ACCESSES for what in ("present", "stride", "varies", "touched")),
)  # fmt: skip


def features(schedule: Schedule) -> NDArray[np.float32]:
    """Return the features of a schedule's loops: float32, shape (MAX_LOOPS, len(FEATURES))."""
    found = np.zeros((MAX_LOOPS, len(FEATURES)), np.float32)
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    for number, (stage, position) in enumerate(schedule.loops):
        row = {"stage": float(stage)} | _loop_features(schedule.nests[stage], position, shapes)
        found[number] = [row.get(name, 0.0) for name in FEATURES]
    return found


def _loop_features(nest: Nest, position: int, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, float]:
    """Return the nonzero features of one loop, by name."""
    loop = nest.loops[position]
    inner = frozenset(one.variable for one in nest.loops[position + 1 :])
    bodies = math.prod(one.extent for one in nest.loops[position + 1 :])
    found = accesses(nest.stage)
    turn = _bytes(nest, found, shapes, inner)
    whole = _bytes(nest, found, shapes, inner | {loop.variable})
    row: dict[str, float] = {
        "present": 1, "position": position, "innermost": position + 1 == len(nest.loops),
        "extent": math.log2(loop.extent), "reduced": loop.variable in nest.reductions, loop.kind: 1,
        "remainder": any(loop.variable in nest.dependencies[guard.variable] for guard in nest.guards),
        "entered": math.log2(math.prod(one.extent for one in nest.loops[:position])), "bodies": math.log2(bodies),
        "turn_bytes": math.log2(turn), "bytes": math.log2(whole),
        "reuse": math.log2(ELEMENT_BYTES * len(found) * bodies * loop.extent / whole),
        **{f"turn_in_{cache}": turn <= size for cache, size in CACHES.items()},
        **{f"in_{cache}": whole <= size for cache, size in CACHES.items()},
    }  # fmt: skip
    copied = sum(staged_tile(nest, one).size for one in nest.stagings if one.variable == loop.variable)
    if copied:
        row["staged"] = math.log2(copied)
    for name, access in zip(_ACCESSES, found, strict=False):
        elements = touched(nest, access, shapes[access.tensor], inner | {loop.variable})
        step = stride(nest, access, shapes[access.tensor], loop.variable)
        row[f"{name}_present"] = 1
        row[f"{name}_stride"] = math.copysign(math.log2(1 + abs(step)), step)
        row[f"{name}_varies"] = nest.varies(access, loop.variable)
        row[f"{name}_touched"] = math.log2(elements)
    return row


def graph(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as a directed graph, in the form that `networkx.node_link_graph(value, edges="links")` reads.

    Nodes have a `type`:

    * `loop`: with its `number`, `variable`, `extent`, `kind`, and whether it is `reduced`;
    * `access`: an element that the body of a `stage` reads or writes, with its `text`;
    * `tensor`: with its `name`, `shape`, and whether it is an `input`.

    Edges have a `type` too:

    * `nesting`: from a loop to the next inner one, and from the innermost one to the accesses;
    * `reads`: from a tensor to the access; `writes`: from the access to the tensor;
    * `indexes`: from a loop to an access that depends on it, with the `stride` in elements from the first iteration to
      the second.
    """
    nodes: list[dict[str, Any]] = []
    links: list[dict[str, Any]] = []
    inputs = set(schedule.computation.inputs)
    tensors = {
        tensor.name: _node(nodes, "tensor", name=tensor.name, shape=list(tensor.shape), input=tensor in inputs)
        for tensor in schedule.computation.tensors
    }
    shapes = {tensor.name: tensor.shape for tensor in schedule.computation.tensors}
    for nest in schedule.nests:
        loops = _loop_nodes(nest, nodes, links)
        for access in accesses(nest.stage):
            written = access.tensor == nest.stage.tensor
            node = _node(nodes, "access", stage=nest.stage.tensor, text=_text(access))
            links += [{"source": loop, "target": node, "type": "nesting"} for loop in list(loops.values())[-1:]]
            ends = (node, tensors[access.tensor]) if written else (tensors[access.tensor], node)
            links.append({"source": ends[0], "target": ends[1], "type": "writes" if written else "reads"})
            for variable, loop in loops.items():
                if nest.varies(access, variable):
                    step = stride(nest, access, shapes[access.tensor], variable)
                    links.append({"source": loop, "target": node, "type": "indexes", "stride": step})
    return {"directed": True, "multigraph": True, "graph": {}, "nodes": nodes, "links": links}


def _loop_nodes(nest: Nest, nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> dict[str, int]:
    """Add a nest's loops, and return their nodes by variable."""
    found: dict[str, int] = {}
    for loop in nest.loops:
        number = sum(node["type"] == "loop" for node in nodes)
        node = _node(nodes, "loop", number=number, variable=loop.variable, extent=loop.extent, kind=loop.kind,
                     reduced=loop.variable in nest.reductions)  # fmt: skip
        links += [{"source": outer, "target": node, "type": "nesting"} for outer in list(found.values())[-1:]]
        found[loop.variable] = node
    return found


def _node(nodes: list[dict[str, Any]], type_: str, **attributes: Any) -> int:
    nodes.append({"id": len(nodes), "type": type_, **attributes})
    return len(nodes) - 1


def _bytes(nest: Nest, accesses: Sequence[Read], shapes: Mapping[str, tuple[int, ...]], inside: frozenset[str]) -> int:
    """Return the maximal bytes that loops touch; at most the size of a tensor for all accesses to it."""
    elements: dict[str, int] = {}
    for access in accesses:
        shape = shapes[access.tensor]
        more = elements.get(access.tensor, 0) + touched(nest, access, shape, inside)
        elements[access.tensor] = min(more, math.prod(shape))
    return ELEMENT_BYTES * sum(elements.values())


def _text(access: Read) -> str:
    indices = []
    for index in access.indices:
        terms = [axis if factor == 1 else f"{factor}*{axis}" for axis, factor in index.terms]
        indices.append(" + ".join([*terms, str(index.constant)] if index.constant or not terms else terms))
    return f"{access.tensor}[{', '.join(indices)}]"


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
    Observation.of("loop_tree", "text", "The loops of each stage, with their numbers.",
                   lambda subject: loop_tree(subject.schedule.nests)),
    Observation.of("schedule", "text", "All that tells the schedule from others, nest by nest.",
                   lambda subject: subject.schedule.text),
    Observation.of("source", "text", "The code that the device's compiler is given.", lambda subject: subject.source(),
                   platform_dependent=True),
    Observation.of("graph", "json", "Loops, accesses and tensors as a graph, in NetworkX's form.",
                   lambda subject: graph(subject.schedule)),
    Observation.of(
        "features", "array",
        "A row for each loop by its number: extent, kind, strides, reuse, footprint and what caches hold of it.",
        lambda subject: features(subject.schedule), dtype="float32", shape=(MAX_LOOPS, len(FEATURES)),
    ),
    Observation.of("action_mask", "array", "1 for each action of the space steps that is legal.",
                   lambda subject: subject.schedule.legal().astype(np.int8), dtype="int8", shape=(-1,), low=0, high=1),
    Observation.of("refusals", "json", "For each action of the space steps that is not, why.",
                   lambda subject: subject.schedule.refusals()),
    Observation.integer("cursor", "The number of the loop at the cursor.", lambda subject: subject.cursor,
                        high=MAX_LOOPS - 1),
    Observation.of(
        "templates",
        "json",
        "For each statement layouts that are likely to be fast, the likeliest first; behind `;`, if some can share "
        "their outermost loop, layouts of all statements in which they do: what stands in `nests<…>`.",
        _templates,
        platform_dependent=True,
    ),
    FLOPS,
    _measured("runtime", "real", "Seconds that the kernel takes, the median of several samples.",
              lambda subject: subject.timing("runtime").seconds),
    _measured("runtime_spread", "array", "The first and the third quartile of the samples, in seconds.", _spread,
              default=None, shape=(2,)),
    _measured("roof_fraction", "real",
              "The speed as a fraction of what the device's arithmetic and memory allow, as measured.", _roof_fraction),
    Observation.integer("flop_count", "Floating-point operations of the computation.",
                        lambda subject: subject.schedule.computation.flops),
    Observation.integer("footprint", "Bytes of all tensors.", lambda subject: subject.schedule.computation.footprint),
)  # fmt: skip
OBSERVATIONS: dict[str, Observation] = {observation.spec.name: observation for observation in _ALL}
