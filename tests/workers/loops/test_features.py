"""What schedules are as numbers and as graphs: by hand for a product of matrices, and against a count for all."""

import itertools
import json
import math
from typing import Any

import networkx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._observations import FEATURES, accesses, features, graph, stride, touched
from aiocg.workers.loops._schedule import MAX_LOOPS, Schedule, Step

from . import strategies
from .interpreter import iterations

ALWAYS_THE_SAME = strategies.ALWAYS_THE_SAME


def _after(text: str, target_name: str, *steps: str) -> Schedule:
    schedule = Schedule.of(parse(text), target_name)
    for step in steps:
        schedule = schedule.apply(Step.parse(step))
    return schedule


def _row(schedule: Schedule, number: int) -> dict[str, float]:
    return dict(zip(FEATURES, map(float, features(schedule)[number]), strict=True))


def _positive(row: dict[str, float], *names: str) -> Any:
    """Return what logarithms to the base 2 are of."""
    return pytest.approx([2 ** row[name] for name in names], rel=1e-5)


# ------------------------------------------------------------------------------------------------- features

PRODUCT = ("C[i:64, j:32] = sum(k:128) A[i, k] * B[k, j]", "cpu", "split<loop=1;factor=8>", "reorder<loop=2>",
           "vectorize<loop=3>", "parallel<loop=0>")  # fmt: skip
# i parallel, j.0 of 4, k, j.1 of 8 vectorized


def test_features_have_a_fixed_size_and_rows_without_a_loop_are_empty() -> None:
    found = features(_after(*PRODUCT))
    assert found.shape == (MAX_LOOPS, len(FEATURES)) and found.dtype == np.float32
    assert len(set(FEATURES)) == len(FEATURES)
    assert found[:4, FEATURES.index("present")].tolist() == [1] * 4
    assert not found[4:].any()


def test_features_of_a_loop_in_a_product_of_matrices() -> None:
    row = _row(_after(*PRODUCT), 2)
    assert row["position"] == 2 and row["innermost"] == 0
    assert row["reduced"] == 1 and row["serial"] == 1 and row["vectorized"] == 0
    assert _positive(row, "extent", "entered", "bodies") == [128, 64 * 4, 8]
    assert _positive(row, "turn_bytes", "bytes") == [4 * (8 + 1 + 8), 4 * (8 + 128 + 8 * 128)]
    assert _positive(row, "reuse") == [3 * 8 * 128 / (8 + 128 + 8 * 128)]
    assert [row[f"{name}_varies"] for name in ("written", "read0", "read1")] == [0, 1, 1]
    assert [round(2 ** row[f"{name}_stride"]) - 1 for name in ("written", "read0", "read1")] == [0, 1, 32]
    assert _positive(row, "written_touched", "read0_touched", "read1_touched") == [8, 128, 1024]
    assert [row[f"read{number}_present"] for number in range(4)] == [1, 1, 0, 0]


def test_features_of_the_outermost_and_the_innermost_loop() -> None:
    schedule = _after(*PRODUCT)
    outer, inner = _row(schedule, 0), _row(schedule, 3)
    assert outer["parallel"] == 1 and inner["vectorized"] == 1
    assert outer["reduced"] == inner["reduced"] == 0
    assert outer["innermost"] == 0 and inner["innermost"] == 1
    assert _positive(inner, "turn_bytes", "bytes", "bodies") == [12, 4 * (8 + 1 + 8), 1]
    assert _positive(outer, "bytes") == [4 * (64 * 32 + 64 * 128 + 128 * 32)]
    assert (outer["turn_in_l1"], outer["in_l1"], outer["in_l2"]) == (1, 0, 1)


def test_features_of_other_stages_are_told_apart() -> None:
    schedule = _after("R[i:7] = A[i] * 2\nS[o:1] = max(i:7) R[i]", "cpu", "split<loop=0;factor=4>")
    assert [_row(schedule, number)["stage"] for number in range(4)] == [0, 0, 1, 1]
    assert [_row(schedule, number)["remainder"] for number in range(4)] == [1, 1, 0, 0]


def test_what_is_read_backwards_has_a_negative_stride() -> None:
    row = _row(_after("B[i:8] = A[14 - 2*i]", "cpu"), 0)
    assert row["read0_stride"] == pytest.approx(-math.log2(1 + 2))
    assert row["written_stride"] == pytest.approx(math.log2(1 + 1))


def test_staged_bytes_are_those_that_a_turn_copies() -> None:
    schedule = _after("C[i:64, j:32] = sum(k:128) A[i, k] * B[k, j]", "cuda", "split<loop=2;factor=16>",
                      "bind<loop=0;to=block.x>", "bind<loop=1;to=thread.x>", "stage<loop=2;tensor=0>",
                      "stage<loop=2;tensor=1>")  # fmt: skip
    assert _positive(_row(schedule, 2), "staged") == [4 * (16 + 16 * 32)]
    assert _row(schedule, 3)["staged"] == 0
    assert _row(schedule, 0)["block.x"] == _row(schedule, 1)["thread.x"] == 1


@ALWAYS_THE_SAME
@given(schedule=strategies.schedules("cuda"), data=st.data())
def test_touched_elements_and_strides_are_what_a_count_finds(schedule: Schedule, data: st.DataObject) -> None:
    nest = data.draw(st.sampled_from(schedule.nests))
    access = data.draw(st.sampled_from(accesses(nest.stage)))
    position = data.draw(st.integers(0, len(nest.loops) - 1))
    shape = schedule.computation.by_name[access.tensor].shape
    inside = {loop.variable for loop in nest.loops[position:]}
    most = touched(nest, access, shape, inside)
    step = stride(nest, access, shape, nest.loops[position].variable)
    seen: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    flat: dict[tuple[int, ...], int] = {}
    for values in iterations(nest):
        place = tuple(one.constant + sum(factor * values[axis] for axis, factor in one.terms) for one in access.indices)
        turns = tuple(values[loop.variable] for loop in nest.loops)
        seen.setdefault(turns[:position], set()).add(place)
        flat[turns] = int(np.ravel_multi_index(place, shape))
    assert max(map(len, seen.values())) <= most <= math.prod(shape)
    first = (0,) * len(nest.loops)
    second = tuple(int(number == position) for number in range(len(nest.loops)))
    if second in flat:
        assert flat[second] - flat[first] == step


@ALWAYS_THE_SAME
@given(schedule=st.one_of(strategies.schedules("cpu"), strategies.schedules("cuda")))
def test_features_of_any_schedule_are_numbers_of_a_moderate_size(schedule: Schedule) -> None:
    found = features(schedule)
    assert np.isfinite(found).all() and np.abs(found).max() < 64
    kinds = found[: len(schedule.loops), FEATURES.index("serial") : FEATURES.index("joined") + 1]
    assert (kinds.sum(axis=1) == 1).all()
    assert not found[len(schedule.loops) :].any()


# ---------------------------------------------------------------------------------------------------- graph


def _graph(schedule: Schedule) -> networkx.MultiDiGraph:
    return networkx.node_link_graph(json.loads(json.dumps(graph(schedule))), edges="links")


def test_graph_of_a_product_of_matrices() -> None:
    found = _graph(_after(*PRODUCT))
    assert found.is_directed() and found.is_multigraph()
    nodes = {data.get("variable") or data.get("text") or data["name"]: node for node, data in found.nodes(data=True)}
    assert set(nodes) == {"i", "j.0", "k", "j.1", "C[i, j]", "A[i, k]", "B[k, j]", "A", "B", "C"}
    assert found.nodes[nodes["j.0"]] == {"type": "loop", "number": 1, "variable": "j.0", "extent": 4, "kind": "serial",
                                         "reduced": False}  # fmt: skip
    assert found.nodes[nodes["A"]] == {"type": "tensor", "name": "A", "shape": [64, 128], "input": True}
    assert found.nodes[nodes["C"]]["input"] is False
    edges = {(source, target, data["type"]) for source, target, data in found.edges(data=True)}
    chain = ["i", "j.0", "k", "j.1"]
    expected = {(nodes[a], nodes[b], "nesting") for a, b in itertools.pairwise(chain)}
    expected |= {(nodes["j.1"], nodes[access], "nesting") for access in ("C[i, j]", "A[i, k]", "B[k, j]")}
    expected |= {(nodes["A"], nodes["A[i, k]"], "reads"), (nodes["B"], nodes["B[k, j]"], "reads"),
                 (nodes["C[i, j]"], nodes["C"], "writes")}  # fmt: skip
    indexed = {"C[i, j]": ("i", "j.0", "j.1"), "A[i, k]": ("i", "k"), "B[k, j]": ("k", "j.0", "j.1")}
    expected |= {(nodes[loop], nodes[access], "indexes") for access, loops in indexed.items() for loop in loops}
    assert edges == expected
    strides = [data["stride"] for _, _, data in found.edges(nodes["j.0"], data=True) if data["type"] == "indexes"]
    assert strides == [8, 8]


def test_graph_leads_from_stage_to_stage_through_tensors() -> None:
    found = _graph(_after("R[i:7] = A[i] * 2\nS[o:1] = max(i:7) R[i]", "cpu"))
    nodes = {data.get("name"): node for node, data in found.nodes(data=True) if data["type"] == "tensor"}
    flow = networkx.MultiDiGraph(
        (source, target) for source, target, data in found.edges(data=True) if data["type"] in ("reads", "writes")
    )
    assert flow.in_degree(nodes["R"]) == 1 and flow.out_degree(nodes["R"]) == 1
    assert flow.in_degree(nodes["A"]) == 0


@ALWAYS_THE_SAME
@given(schedule=strategies.schedules("cpu"))
def test_graph_has_a_chain_of_loops_for_each_stage(schedule: Schedule) -> None:
    found = _graph(schedule)
    loops = {data["number"]: node for node, data in found.nodes(data=True) if data["type"] == "loop"}
    assert sorted(loops) == list(range(len(schedule.loops)))
    for number, (stage, position) in enumerate(schedule.loops):
        outer = [a for a, _, data in found.in_edges(loops[number], data=True) if data["type"] == "nesting"]
        assert outer == ([loops[number - 1]] if position else [])
        assert found.nodes[loops[number]]["extent"] == schedule.nests[stage].loops[position].extent
    assert all(data["type"] != "access" or found.degree(node) for node, data in found.nodes(data=True))
