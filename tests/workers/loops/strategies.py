"""Strategies of Hypothesis: small computations of many forms, and schedules for them that are legal.

A computation is small enough for a reference in Python: some thousands of
evaluations of a body. Its values stay tame if the inputs are between -4 and 4.
"""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import BLOCKS, THREADS, Refusal
from aiocg.workers.loops._schedule import Schedule, Step, arrange, read_layouts, steps

ALWAYS_THE_SAME = settings(
    derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck), max_examples=60
)

Draw = Callable[[st.SearchStrategy[Any]], Any]

EXTENTS = st.one_of(st.integers(1, 9), st.sampled_from((12, 13, 16, 17)))
SHORT = st.integers(1, 4)
REDUCERS = st.sampled_from(("sum", "max", "min"))
MAPS = st.sampled_from((  # of x and y
    "{x} + {y}", "{x} - {y} * 0.5", "-{x} / (1 + abs({y}))", "max({x}, {y})", "min({x}, 0.25) * {y}", "abs({x}) - {y}",
    "tanh({x}) * {y}", "exp(min({x}, 1)) + {y}", "sqrt(abs({x}) + 1) - {y}", "log(abs({x} * {y}) + 1)", "{x} * {x}",
    "2",
))  # fmt: skip


def _pointwise(draw: Draw) -> str:
    body = draw(MAPS)
    if draw(st.booleans()):
        return f"C[i:{draw(st.integers(1, 300))}] = " + body.format(x="A[i]", y="B[i]")
    n, m = draw(EXTENTS), draw(EXTENTS)
    return f"C[i:{n}, j:{m}] = " + body.format(x="A[i, j]", y=draw(st.sampled_from(("B[j]", "B[j, i]", "A[i, j]"))))


def _matmul(draw: Draw) -> str:
    n, m, k = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    a, b = draw(st.sampled_from(("A[i, k]", "A[k, i]"))), draw(st.sampled_from(("B[k, j]", "B[j, k]")))
    return f"C[i:{n}, j:{m}] = {draw(REDUCERS)}(k:{k}) {a} * {b}"


def _transpose(draw: Draw) -> str:
    n, m, k = draw(EXTENTS), draw(EXTENTS), draw(SHORT)
    return f"B[i:{n}, j:{m}, k:{k}] = A[{', '.join(draw(st.permutations(['i', 'j', 'k'])))}]"


def _stencil(draw: Draw) -> str:
    n, m, stride, shift = draw(EXTENTS), draw(EXTENTS), draw(SHORT), draw(SHORT)
    reverse = f"A[{n - 1} - i, j]" if draw(st.booleans()) else f"A[{stride}*i + {shift}, j]"
    return f"B[i:{n}, j:{m}] = A[{stride}*i, j + 2] - {reverse} * 0.5"


def _convolution(draw: Draw) -> str:
    stride = draw(st.integers(1, 2))
    y, x, r, s, c, o = draw(EXTENTS), draw(SHORT), draw(SHORT), draw(st.integers(1, 3)), draw(SHORT), draw(SHORT)
    return f"Y[o:{o}, y:{y}, x:{x}] = sum(c:{c}, r:{r}, s:{s}) X[c, {stride}*y + r, x + s] * W[o, c, r, s]"


def _reduction(draw: Draw) -> str:
    n, m = draw(EXTENTS), draw(st.integers(1, 70))
    if draw(st.booleans()):
        return f"S[o:1] = {draw(REDUCERS)}(i:{n}, j:{m}) A[i, j] * 0.5"
    body = draw(st.sampled_from(("A[i, j]", "A[j, i]", "1 + A[i, j] * V[j]")))
    return f"S[i:{n}] = {draw(REDUCERS)}(j:{m}) {body}"


def _softmax(draw: Draw) -> str:
    n, m = draw(EXTENTS), draw(EXTENTS)
    return f"""
        M[i:{n}] = max(j:{m}) X[i, j]
        E[i:{n}, j:{m}] = exp(X[i, j] - M[i])
        S[i:{n}] = sum(j:{m}) E[i, j]
        Y[i:{n}, j:{m}] = E[i, j] / S[i]
    """


def _layers(draw: Draw) -> str:
    n, m, k = draw(EXTENTS), draw(EXTENTS), draw(EXTENTS)
    return f"""
        H[i:{n}, j:{m}] = sum(k:{k}) X[i, k] * W[j, k]
        R[i:{n}, j:{m}] = {draw(MAPS).format(x="H[i, j]", y="B[j]")}
        Z[j:{m}] = {draw(REDUCERS)}(i:{n}) R[i, j] - H[i, j]
    """


@st.composite
def computations(draw: Draw) -> Computation:
    """Pointwise ones, products of matrices, transpositions, stencils, convolutions, reductions and several stages."""
    forms = (_pointwise, _matmul, _transpose, _stencil, _convolution, _reduction, _softmax, _layers)
    return parse(draw(st.sampled_from(forms))(draw))


@st.composite
def schedules(
    draw: Draw, target_name: str, of: st.SearchStrategy[Computation] | None = None, *, most_steps: int = 12
) -> Schedule:
    """A schedule that legal steps lead to: often some that people would choose, then any, of each primitive as many."""
    schedule = Schedule.of(draw(computations() if of is None else of), target_name)
    if draw(st.booleans()):
        for stage in range(len(schedule.nests)):
            schedule = _usual(draw, schedule, stage)
    for _ in range(draw(st.integers(0, most_steps))):
        schedule = schedule.apply(draw(_step(schedule)))
    return schedule


@st.composite
def on_tensor_cores(draw: Draw, most: int = 3) -> Schedule:
    """A schedule of a product for tensor cores: batches, transposed operands, warps, tiles, and remainders."""
    (down, high), (across, wide) = ((draw(st.integers(1, most)), draw(st.integers(1, most))) for _ in range(2))
    n, m = (draw(st.integers(tile, 2 * tile + 9)) for tile in (16 * down * high, 8 * across * wide))
    k = draw(st.integers(16, 40))
    a, b = draw(st.sampled_from(("A[{}i, k]", "A[{}k, i]"))), draw(st.sampled_from(("B[{}k, j]", "B[{}j, k]")))
    if draw(st.booleans()):
        a, b = b, a
    outer = draw(st.sampled_from(("", "b")))
    index = "b, " if outer else ""
    text = f"C[{'b:2, ' if outer else ''}i:{n}, j:{m}] = sum(k:{k}) {a.format(index)} * {b.format(index)}"
    staged = draw(st.sampled_from(("", "=serial@A", "=serial@B", "=serial@A@B", "=pipeline@A@B")))
    places = [*(["b=block.z"] * bool(outer)), "i=block.y", "j=block.x", f"i:{down}=thread.y", f"j:{across}=thread.z",
              f"k{staged}", "k:2", f"i:{high}=unroll", f"j:{wide}=unroll",
              "i:16=tensorize", "j:8=tensorize", "k:8=tensorize"]  # fmt: skip
    layouts = read_layouts(f"nests<{','.join(places)}>")
    assert layouts is not None
    return arrange(Schedule.of(parse(text), "cuda"), layouts)


def _usual(draw: Draw, schedule: Schedule, stage: int) -> Schedule:
    """Take the steps that use a target for one stage, as far as they are legal, the loops at the ends split before."""
    first, end = (sum(len(nest.loops) for nest in schedule.nests[:last]) for last in (stage, stage + 1))
    factors = st.sampled_from((2, 3, 4, 8))
    if draw(st.booleans()):
        schedule = _tried(schedule, Step("split", end - 1, draw(factors)))
    if draw(st.booleans()):
        schedule = _tried(schedule, Step("split", first, draw(factors)))
    last = sum(len(nest.loops) for nest in schedule.nests[: stage + 1]) - 1
    joins = [Step("join", first)] if stage and draw(st.booleans()) else []
    if schedule.rules.target == "cpu":
        return _tried(schedule, Step("parallel", first), Step("vectorize", last), *joins)
    block, thread = draw(st.sampled_from(BLOCKS)), draw(st.sampled_from(THREADS))
    staged = [Step("stage", draw(st.integers(first, last)), tensor) for tensor in range(draw(st.integers(0, 3)))]
    pipelined = [Step("pipeline", step.loop) for step in staged if draw(st.booleans())]
    return _tried(schedule, Step("bind", first, block), Step("bind", first + 1, thread), *staged, *pipelined, *joins)


def _tried(schedule: Schedule, *attempts: Step) -> Schedule:
    for step in attempts:
        with contextlib.suppress(Refusal):
            schedule = schedule.apply(step)
    return schedule


def _step(schedule: Schedule) -> st.SearchStrategy[Step]:
    """Any legal step, and splits by factors that are not offered."""
    offered = steps(schedule.rules.target)
    legal: dict[str, list[Step]] = {}
    for index in np.flatnonzero(schedule.legal()):
        legal.setdefault(offered[index].primitive, []).append(offered[index])
    splits = {step.loop: _split(schedule, step.loop) for step in legal.pop("split", [])}
    groups = [st.sampled_from(group) for group in legal.values()]
    return st.one_of(*groups, *([st.one_of(*splits.values())] if splits else []))


def _split(schedule: Schedule, number: int) -> st.SearchStrategy[Step]:
    stage, position = schedule.loops[number]
    extent = schedule.nests[stage].loops[position].extent
    return st.integers(2, min(extent - 1, 17)).map(lambda factor: Step("split", number, factor))
