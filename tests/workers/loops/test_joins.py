"""Stages that share their outermost loop: which may, what becomes of them, and which layouts do."""

import re
import subprocess
from typing import Any

import numpy as np
import pytest

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest, Refusal
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._rules import RULES, groups
from aiocg.workers.loops._schedule import Layout, Schedule, Step, arrange, read_layouts, write_layout
from aiocg.workers.loops._targets import open_target
from aiocg.workers.loops.cuda.target import templates as cuda_templates
from aiocg.workers.loops.session import MOST, joined_layouts

from . import cuda_schedules as written
from . import interpreter
from .test_cuda_emulated import check

SOFTMAX = """
    M[i:{rows}] = max(j:{columns}) X[i, j]
    E[i:{rows}, j:{columns}] = exp(X[i, j] - M[i])
    S[i:{rows}] = sum(j:{columns}) E[i, j]
    Y[i:{rows}, j:{columns}] = E[i, j] / S[i]
"""
LAYERS = """
    H[i:21, j:50] = sum(k:40) X[i, k] * W[j, k]
    R[i:21, j:50] = max(H[i, j] + B[j], 0)
    Z[j:50] = sum(i:21) R[i, j]
"""
PAIRS = """
    A[i:40, j:70] = X[i, j] + 1
    B[i:40] = sum(j:70) A[i, j]
    C[i:40, j:70] = B[39 - i] - A[i, j]
    D[i:40, j:70] = C[i, j] * C[i, j]
"""
TARGETS = ("cpu", "cuda")


def softmax(rows: int = 21, columns: int = 70) -> str:
    return SOFTMAX.format(rows=rows, columns=columns)


def arranged(text: str, layouts: str, target: str = "cpu") -> Schedule:
    found = read_layouts(f"nests<{layouts}>")
    assert found is not None
    return arrange(Schedule.of(parse(text), target), found)


def joined(text: str, target: str, threads: int = 1) -> tuple[Schedule, tuple[tuple[Layout, ...], ...]]:
    """Return the initial schedule, and layouts in which stages are joined."""
    schedule = Schedule.of(parse(text), target)
    if target == "cuda":
        return schedule, joined_layouts(schedule, cuda_templates(schedule, RULES["cuda"], 4))
    return schedule, joined_layouts(schedule, open_target("cpu", {"threads": str(threads)}).templates(schedule))


def names(nests: tuple[Nest, ...]) -> list[str]:
    return ["".join(nest.stage.tensor for nest in group) for group in groups(nests)]


# --------------------------------------------------------------------------------------------------- what may be joined


@pytest.mark.parametrize(
    ("text", "layouts", "reason"),
    [
        pytest.param("A[i:9] = X[i]", "i=join", "A is computed first", id="the first stage"),
        pytest.param("A[i:9] = X[i]\nB[i:8] = A[i]", "i;i=join", "turns of i of B", id="other turns"),
        pytest.param("A[i:9] = X[i]\nB[i:9] = A[8 - i]", "i;i=join", "reads of A what other turns", id="backwards"),
        pytest.param("A[i:10] = X[i]\nB[i:9] = A[i + 1]", "i:10;i=join", "turns of i of B", id="a neighbour"),
        pytest.param("A[i:9, j:9] = X[i]\nB[i:9, j:9] = A[j, i]", "i,j;i=join,j", "what other turns", id="transposed"),
        pytest.param("A[i:9, j:9] = X[i]\nB[i:9] = sum(j:9) A[j, i]", "i,j;i=join,j", "what other turns", id="sums"),
        pytest.param("A[i:9] = X[i]\nB[i:9] = A[i]", "i,i:3;i=join,i:2", "turns of i.0 of B", id="other parts"),
        pytest.param("A[i:9] = X[i]\nB[i:3] = sum(j:9) A[j]", "i,i:3;j=join,i", "j is reduced over", id="a sum"),
        pytest.param("A[i:3] = sum(k:9) X[k]\nB[i:9] = A[0]", "k,i;i=join", "k is reduced over", id="after a sum"),
        pytest.param("A[i:9] = X[i]\nB[i:9, j:2] = A[i]", "i;j,i=join", "only the outermost", id="an inner loop"),
        pytest.param("A[i:8] = X[i]\nB[i:8] = A[i]", "i=unroll;i=join", "i is unrolled", id="an unrolled loop"),
    ],
)
def test_what_would_compute_something_else_is_refused(text: str, layouts: str, reason: str) -> None:
    with pytest.raises(Refusal, match=re.escape(reason)):
        arranged(text, layouts)


@pytest.mark.parametrize(
    ("layouts", "reason"),
    [
        ("i,i:4;i=join,i:4", "A needs a loop bound to block.x"),
        ("i=block.y,i:4;i=join,i:4", "A needs a loop bound to block.x"),
        ("i=block.x,i:4=thread.x;i=join,i:4", "different threads"),
        ("i=block.x,i:4=thread.x;i=join,i:4=block.y", "which is joined"),
    ],
)
def test_blocks_of_joined_stages_are_the_same(layouts: str, reason: str) -> None:
    with pytest.raises(Refusal, match=re.escape(reason)):
        arranged("A[i:64] = X[i]\nB[i:64] = A[i]", layouts, "cuda")


def test_tiles_of_joined_stages_fit_together() -> None:
    text = "A[i:64] = sum(k:64) X[i, k] * V[k]\nB[i:64] = sum(k:{}) Z[i, k] * A[i]"
    layouts = "i=block.x,k=serial@X,i:64,k:64;i=join,k=serial@Z,i:64,k:{}"
    assert names(arranged(text.format(64), layouts.format(64), "cuda").nests) == ["AB"]
    with pytest.raises(Refusal, match="joined stages would share 65536 bytes"):
        arranged(text.format(192), layouts.format(192), "cuda")


def test_a_step_that_would_part_what_is_joined_is_refused() -> None:
    schedule = Schedule.of(parse("A[i:8, j:4] = X[i, j]\nB[i:8, j:4] = A[i, j]"), "cpu").apply(
        Step.parse("join<loop=2>")
    )
    assert "  loops i:8 joined, j:4\n" in schedule.text
    for step in (
        "split<loop=0;factor=2>",
        "reorder<loop=0>",
        "fuse<loop=0>",
        "vectorize<loop=0>",
        "split<loop=2;factor=2>",
    ):
        with pytest.raises(Refusal):
            schedule.apply(Step.parse(step))
    assert (
        schedule.apply(Step.parse("parallel<loop=0>")).apply(Step.parse("serial<loop=2>")).nests[1].loops[0].kind
        == "serial"
    )


def test_steps_join_blocks_with_threads() -> None:
    steps = (
        "bind<loop=0;to=block.x> bind<loop=1;to=thread.x> bind<loop=2;to=block.x> bind<loop=3;to=thread.x> join<loop=2>"
    )
    schedule = written.scheduled("A[i:8, j:4] = X[i, j]\nB[i:8, j:4] = A[i, j]", steps)
    assert names(schedule.nests) == ["AB"]
    with pytest.raises(Refusal, match="different threads"):
        schedule.apply(Step.parse("serial<loop=3>"))


# ---------------------------------------------------------------------------------------------- what becomes of them


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "together"), [(softmax(), ["MESY"]), (LAYERS, ["HRZ"]), (PAIRS, ["AB", "CD"])])
def test_layouts_join_all_stages_that_can_be(target: str, text: str, together: list[str]) -> None:
    schedule, found = joined(text, target)
    assert 2 < len(found) <= MOST and len(set(found)) == len(found)
    for layouts in found:
        made = names(arrange(schedule, layouts).nests)
        assert all(any(one in group for group in together) for one in made) and len(made) < len(schedule.nests)


@pytest.mark.parametrize("target", TARGETS)
def test_where_nothing_can_be_joined_there_are_no_layouts(target: str) -> None:
    assert joined("C[i:9, j:9] = sum(k:9) A[i, k] * B[k, j]", target)[1] == ()
    assert joined("A[i:9] = X[i] + 1\nB[i:9] = A[8 - i] + 1", target)[1] == ()


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("text", [softmax(), LAYERS])
def test_joined_kernels_compute_the_same(text: str, threads: int) -> None:
    target = open_target("cpu", {"threads": str(threads)})
    schedule, found = joined(text, "cpu", threads)
    inputs = random_inputs(schedule.computation)
    expected = expect(schedule.computation, inputs)
    for layouts in found[::3]:
        results = [np.full(stage.result.shape, np.nan, np.float32) for stage in schedule.computation.stages]
        target.compile(schedule.computation, arrange(schedule, layouts).nests).run([*inputs, *results])
        assert compare(schedule.computation, results, expected) is None, layouts


@pytest.mark.parametrize("target", TARGETS)
def test_turns_read_what_turns_before_have_computed(target: str) -> None:
    schedule, found = joined(softmax(5, 40), target)
    inputs = random_inputs(schedule.computation)
    results = [np.zeros(stage.result.shape, np.float32) for stage in schedule.computation.stages]
    interpreter.run(schedule.computation, arrange(schedule, found[0]).nests, [*inputs, *results])
    assert compare(schedule.computation, results, expect(schedule.computation, inputs)) is None


def on_a_gpu(rows: int, columns: int, threads: int = 8) -> Schedule:
    """Return the softmax of rows in one kernel: each block goes through all stages with two rows."""
    sums, values = f"j:{threads}=thread.x,i:2,j", f"j:{threads}=thread.x,i:2,j,j:4=unroll"
    layouts = f"i=block.x,{sums};i=join,{values};i=join,{sums};i=join,{values}"
    return arranged(softmax(rows, columns), layouts, "cuda")


def test_joined_stages_are_one_kernel() -> None:
    program = written.program(on_a_gpu(5, 70))
    (call,) = program.calls
    assert (call.function, call.launch.grid, call.launch.block) == ("stage_0_to_3", (3, 1, 1), (8, 1, 1))
    assert program.source.count("__global__") == 1
    assert re.findall(r"^    (\w+)\(.*\);$", program.source, re.M) == [
        "stage_0", "__syncthreads", "stage_1", "__syncthreads", "stage_2", "__syncthreads", "stage_3",
    ]  # fmt: skip


def accesses(ptx: str) -> list[tuple[str, str]]:
    """Return loads, stores and barriers in order, with the numbers of the parameters whose memory they access."""
    origins: dict[str, set[str]] = {}  # the parameters that registers come from
    found: list[tuple[str, str]] = []
    for line in ptx.splitlines():
        if parameter := re.search(r"ld\.param\.u64\s+(%rd\d+), \[\w+_param_(\d)\]", line):
            origins[parameter[1]] = {parameter[2]}
        elif access := re.search(r"(ld\.global(?:\.nc)?|st\.global)\S* .*\[(%rd\d+)", line):
            found += [(access[1], number) for number in sorted(origins[access[2]])]
        elif "bar.sync" in line:
            found.append(("bar.sync", ""))
        elif (registers := re.findall(r"%rd\d+", line)) and not line.strip().startswith((".reg", "st.")):
            origins.setdefault(registers[0], set()).update(*(origins.get(one, ()) for one in registers[1:]))
    return found


def test_what_a_kernel_writes_is_read_after_the_barrier_and_not_through_the_cache_for_what_does_not_change(
    nvrtc: Any,
) -> None:
    ptx = nvrtc.compile(written.program(on_a_gpu(4096, 4096, 256)).source, "compute_90").decode()
    assert ptx.count(".visible .entry") == 1
    found = accesses(ptx)
    assert {what for what in found if what[0].startswith("ld.")} == {
        ("ld.global.nc", "0"), ("ld.global", "1"), ("ld.global", "2"), ("ld.global", "3"),
    }  # fmt: skip
    for number in "123":  # M, E and S
        stored = max(at for at, what in enumerate(found) if what == ("st.global", number))
        barrier = found.index(("bar.sync", ""), stored)
        assert all(at > barrier for at, what in enumerate(found) if what == ("ld.global", number))


@pytest.mark.every_case
@pytest.mark.slow
def test_joined_kernels_of_a_gpu_compute_the_same(emulator: Any) -> None:
    check(emulator, on_a_gpu(5, 70))
    small = LAYERS.replace("21", "4").replace("50", "33").replace("40", "33")
    for text in (softmax(3, 33), small):
        schedule, found = joined(text, "cuda")
        few = [layouts for layouts in found if "32=thread.x" in write_layout(layouts[0])]
        for layouts in few[:2]:
            check(emulator, arrange(schedule, layouts))


@pytest.mark.slow
def test_barriers_keep_joined_stages_apart(race_detector: Any) -> None:
    schedule = on_a_gpu(3, 40)
    check(race_detector, schedule)
    program = written.program(schedule)
    for at in range(3):
        before, *rest = re.split(r"(?<=\);\n)    __syncthreads\(\);\n(?=    stage_)", program.source)
        parts = [before, *rest]
        source = parts[0]
        for number, part in enumerate(parts[1:]):
            source += part if number == at else f"    __syncthreads();\n{part}"
        with pytest.raises(subprocess.CalledProcessError) as caught:
            check(race_detector, schedule, program._replace(source=source))
        assert b"data race" in caught.value.stderr
