"""Templates: what is derived from an expression and a machine, and that it is legal and computes the right thing."""

from collections.abc import Iterator

import numpy as np
import pytest

from aiocg.datasets.loop_nests.dataset import TEMPLATES
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Layout, Schedule, arrange, write_layout
from aiocg.workers.loops._targets import open_target
from aiocg.workers.loops.cpu.target import MOST, _Machine, templates

WIDE, NARROW = _Machine(16, 32, 1), _Machine(4, 16, 1)


def derived(expression: str, machine: _Machine = WIDE) -> list[list[str]]:
    found = templates(Schedule.of(parse(expression), "cpu"), machine)
    return [list(map(write_layout, layouts)) for layouts in found]


def vectors(layouts: list[str]) -> list[str]:
    return [layout.rpartition(",")[2] for layout in layouts]


@pytest.mark.parametrize("machine", [WIDE, NARROW])
@pytest.mark.parametrize(
    ("product", "axis"), [("A[i, k] * B[k, j]", "j"), ("A[k, i] * B[k, j]", "j"), ("A[i, k] * B[j, k]", "k")]
)
def test_the_best_template_has_vectors_where_elements_lie_side_by_side_and_fills_registers(
    product: str, axis: str, machine: _Machine
) -> None:
    (found,) = derived(f"C[i:512, j:512] = sum(k:512) {product}", machine)
    assert vectors(found)[0].startswith(f"{axis}:") and found[0].endswith("=vectorize")
    copies = [int(part.partition(":")[2].partition("=")[0]) for part in found[0].split(",") if "=unroll" in part]
    width = int(vectors(found)[0].partition(":")[2].partition("=")[0])
    in_registers = np.prod(copies) * max(1, width // machine.vector)
    assert machine.registers // 2 <= in_registers <= machine.registers


def test_sums_are_done_in_parts_and_loops_around_come_in_two_orders() -> None:
    (found,) = derived("C[i:512, j:512] = sum(k:512) A[i, k] * B[k, j]")
    assert {layout.split(",i:")[0] for layout in found} >= {"i,j,k", "j,i,k", "i,k,j,k:64", "j,k,i,k:64", "i,k,j,k:128"}
    (short,) = derived("C[i:512, j:512] = sum(k:32) A[i, k] * B[k, j]")
    assert not any("k:" in layout and "k:16=" not in layout and "k:32=" not in layout for layout in short)


def test_names_do_not_matter() -> None:
    (one,) = derived("C[i:100, j:60] = sum(k:70) A[i, k] * B[k, j]")
    (other,) = derived("R[a:100, b:60] = sum(c:70) P[a, c] * Q[c, b]")
    renamed = str.maketrans("ijk", "abc")
    kinds = {"unroll": "UNROLL", "vectorize": "VECTORIZE"}
    for kind, shout in kinds.items():
        one = [layout.replace(kind, shout) for layout in one]
        other = [layout.replace(kind, shout) for layout in other]
    assert [layout.translate(renamed) for layout in one] == other


def test_threads_share_the_outermost_loop_of_what_is_worth_it() -> None:
    long, short = "C[i:512, j:512] = A[i, j] + 1", "C[i:16, j:16] = A[i, j] + 1"
    machine = _Machine(16, 32, 4)
    assert all(layout.split(",")[0].endswith("=parallel") for layout in derived(long, machine)[0][:4])
    for expression, threads in ((short, machine), (long, WIDE)):
        assert not any("parallel" in layout for layout in derived(expression, threads)[0])


def members() -> Iterator[tuple[str, str]]:
    """Yield an expression of each family of the dataset, and small ones with odd extents."""
    for name, template in TEMPLATES.items():
        yield name, template.write(template.values({}))
    yield "one", "C[i:1] = A[i] + 1"
    yield "odd", "C[i:3, j:5] = sum(k:7) A[i, k] * B[k, j]"
    yield "all", "C[i:1] = sum(j:77, k:3) A[j, k]"
    yield "strided", "B[i:33, j:5] = A[3*i, 4 - j] * 0.5"


@pytest.mark.sampled
@pytest.mark.few(2)
@pytest.mark.parametrize(("name", "expression"), list(members()))
def test_all_templates_are_legal(name: str, expression: str) -> None:
    schedule = Schedule.of(parse(expression), "cpu")
    for machine in (WIDE, NARROW, _Machine(8, 16, 3)):
        found = templates(schedule, machine)
        assert found == templates(schedule, machine) and len(found) == len(schedule.nests)
        for number, layouts in enumerate(found):
            assert len(layouts) == len(set(layouts)) <= MOST
            assert layouts or all(axis.extent == 1 for axis in schedule.nests[number].stage.axes)
            for layout in layouts:
                alone: list[Layout] = [()] * len(found)
                alone[number] = layout
                arrange(schedule, tuple(alone))  # a refusal is an error


@pytest.mark.slow
@pytest.mark.parametrize(
    "expression",
    [
        "C[i:37, j:50] = sum(k:150) A[i, k] * B[k, j]",
        "C[i:37, j:18] = sum(k:150) A[i, k] * B[j, k]",
        "Y[f:6, y:9, x:21] = sum(c:3, r:3, s:3) X[c, y + r, x + s] * K[f, c, r, s]",
        "M[i:19] = max(j:70) X[i, j]\nE[i:19, j:70] = exp(X[i, j] - M[i])",
        "B[i:33, j:45] = A[j, i]",
        "C[j:40] = sum(i:140) A[i, j]",
    ],
)
def test_kernels_of_templates_are_right(expression: str) -> None:
    target = open_target("cpu", {"threads": "2"})
    assert target.machine is not None
    schedule = Schedule.of(parse(expression), "cpu")
    inputs = random_inputs(schedule.computation)
    expected = expect(schedule.computation, inputs)
    found = templates(schedule, target.machine)
    for rank in range(0, max(map(len, found)), 7):
        layouts = tuple(of_stage[min(rank, len(of_stage) - 1)] for of_stage in found)
        results = [np.full(stage.result.shape, np.nan, np.float32) for stage in schedule.computation.stages]
        target.compile(schedule.computation, arrange(schedule, layouts).nests).run([*inputs, *results])
        assert compare(schedule.computation, results, expected) is None, layouts
