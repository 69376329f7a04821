"""Kernels for the processor compute what NumPy does, whatever the loops are."""

import gc
import itertools
import math
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding as llvm

from aiocg.transport.messages import FailureCode
from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import _device_lock as device_lock
from aiocg.workers.loops._expression import Computation, Stage
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Kind, Loop, Nest, Split, Staging, initial_nest
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops.cpu import _jit as jit
from aiocg.workers.loops.cpu import _kernel as kernel
from aiocg.workers.loops.cpu import _loops as index_loops
from aiocg.workers.loops.cpu.target import CpuTarget, _aligned

from . import strategies

KINDS: Mapping[str, Kind] = {"!": "unrolled", "#": "vectorized", "=": "parallel"}
MATMUL = "C[i:{}, j:{}] = sum(k:{}) A[i, k] * B[k, j]"
SOFTMAX = """
    M[i:{0}] = max(j:{1}) X[i, j]
    E[i:{0}, j:{1}] = exp(X[i, j] - M[i])
    S[i:{0}] = sum(j:{1}) E[i, j]
    Y[i:{0}, j:{1}] = E[i, j] / S[i]
"""
NAN, INF = math.nan, math.inf

Array = np.ndarray[Any, np.dtype[np.float32]]


@pytest.fixture(scope="module")
def target() -> CpuTarget:
    return CpuTarget(threads=3)  # on some machines more than there are processors


def _nest(stage: Stage, order: str = "", **factors: int) -> Nest:
    """Return loops in some order, such as `io= jo k ii! ji#`, where axes were split: `i=4` makes `io` and `ii`."""
    extents = {axis.name: axis.extent for axis in stage.axes}
    relations = []
    for name, factor in factors.items():
        relations.append(Split(name, f"{name}o", f"{name}i", factor))
        extents |= {f"{name}o": -(-extents[name] // factor), f"{name}i": factor}
    names = order.split() or [axis.name for axis in stage.axes]
    kinds = {name.rstrip("!#="): KINDS.get(name[-1], "serial") for name in names}
    loops = tuple(Loop(name, extents[name], kind) for name, kind in kinds.items())
    return Nest(stage, loops, tuple(relations), tuple(extents.items()))


def _run(target: CpuTarget, computation: Computation, nests: Sequence[Nest], inputs: Sequence[Array]) -> list[Array]:
    """Return the results of a kernel; nothing may be written around them."""
    results, frames = [], []
    for stage in computation.stages:
        frame = np.full(stage.result.size + 128, 7.0, np.float32)
        results.append(frame[64:-64].reshape(stage.result.shape))
        results[-1].fill(NAN)
        frames.append(frame)
    copies = [array.copy() for array in inputs]
    target.compile(computation, nests).run([*inputs, *results])
    for frame in frames:
        assert (frame[:64] == 7).all() and (frame[-64:] == 7).all()
    for array, copy in zip(inputs, copies, strict=True):
        np.testing.assert_array_equal(array, copy)
    return results


def _check(target: CpuTarget, computation: Computation, nests: Sequence[Nest]) -> None:
    """Compare a kernel's results with NumPy's."""
    inputs = random_inputs(computation)
    results = _run(target, computation, nests, inputs)
    assert str(compare(computation, results, expect(computation, inputs)) or "") == ""


# ------------------------------------------------------------------------------------------------ loops


@pytest.mark.sampled
@pytest.mark.few(15)
@pytest.mark.parametrize("shape", [(1, 1, 1), (13, 17, 5), (64, 64, 64), (65, 63, 67)])
@pytest.mark.parametrize(("order", "factors"), [
    ("", {}),
    ("k i j", {}),
    ("i= k j", {}),
    ("io= jo k ii! ji#", {"i": 4, "j": 16}),
    ("io jo= k ii! ji#", {"i": 4, "j": 16}),
    ("jo= io ko ki! ii! ji#", {"i": 6, "j": 8, "k": 4}),
    ("ko io jo ki ii! ji#", {"i": 6, "j": 8, "k": 4}),
    ("i j ko ki#", {"k": 16}),
    ("io j ko ii! ki#", {"i": 3, "k": 8}),
    ("io jo ko ki ii ji", {"i": 5, "j": 7, "k": 9}),
    ("io= jo k ii ji#", {"i": 4, "j": 16}),
    ("ii! jo k io ji#", {"i": 4, "j": 64}),
    ("ko ji! jo ki! i", {"j": 5, "k": 3}),
    ("j k io ii#", {"i": 8}),
    ("io jo k ii! ji!", {"i": 12, "j": 12}),
])  # fmt: skip
def test_products_of_matrices(
    target: CpuTarget, shape: tuple[int, int, int], order: str, factors: dict[str, int]
) -> None:
    computation = parse(MATMUL.format(*shape))
    if "jo=" in order and not order.startswith("jo="):
        with pytest.raises(CompilationError, match="outermost"):
            target.compile(computation, [_nest(computation.stages[0], order, **factors)])
        return
    _check(target, computation, [_nest(computation.stages[0], order, **factors)])


@pytest.mark.sampled
@pytest.mark.few(3)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("size", [1, 15, 64, 1000])
def test_tails_of_vectors(target: CpuTarget, width: int, size: int) -> None:
    computation = parse(f"C[i:{size}] = A[i] + B[2*i + 1] * 0.5")
    _check(target, computation, [_nest(computation.stages[0], "io ii#", i=width)])
    _check(target, computation, [_nest(computation.stages[0], "io= ii!", i=width)])


@pytest.mark.sampled
@pytest.mark.few(6)
@pytest.mark.parametrize("reducer", ["sum", "max", "min"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 100), (3, 31)])
@pytest.mark.parametrize(("order", "factors"), [
    ("i jo ji#", {"j": 16}), ("i= jo ji!", {"j": 5}), ("jo i ji#", {"j": 4}), ("j i", {}), ("j io ii#", {"i": 4}),
])  # fmt: skip
def test_reductions(
    target: CpuTarget, reducer: str, shape: tuple[int, int], order: str, factors: dict[str, int]
) -> None:
    computation = parse("R[i:{1}] = {0}(j:{2}) X[i, j] - 0.25".format(reducer, *shape))
    _check(target, computation, [_nest(computation.stages[0], order, **factors)])


@pytest.mark.parametrize("text", [
    "B[i:33, j:18] = A[j, i]",
    "Y[n:2, o:3, y:7, x:9] = sum(c:2, r:3, s:3) X[n, c, 2*y + r, x + s] * W[o, c, r, s]",
    SOFTMAX.format(7, 45),
    "S[i:1] = sum(j:1) X[i, j]",
    "Z[i:3, j:20] = -X[i] + 2",
])  # fmt: skip
def test_other_computations(target: CpuTarget, text: str) -> None:
    computation = parse(text)
    _check(target, computation, [initial_nest(stage) for stage in computation.stages])
    nests = []
    for stage in computation.stages:
        last = stage.axes[-1].name
        order = " ".join([axis.name for axis in stage.axes[:-1]] + [f"{last}o", f"{last}i#"])
        nests.append(_nest(stage, order, **{last: 8}))
    _check(target, computation, nests)
    outermost = [
        Nest(one.stage, (one.loops[0]._replace(kind="parallel"), *one.loops[1:]), one.relations, one.extents)
        if one.loops[0].variable not in one.reductions
        else one
        for one in nests
    ]
    _check(target, computation, outermost)


@pytest.mark.few(5)
@pytest.mark.parametrize("steps", [
    "fuse<loop=0> fuse<loop=0> split<loop=0;factor=8> vectorize<loop=1>",
    "fuse<loop=0> fuse<loop=0> split<loop=0;factor=16> parallel<loop=0> unroll<loop=1>",
    "fuse<loop=1> split<loop=1;factor=4> parallel<loop=0> unroll<loop=2>",
    "split<loop=2;factor=4> fuse<loop=1> fuse<loop=0> split<loop=0;factor=12> vectorize<loop=2>",
    "fuse<loop=0> split<loop=0;factor=8> fuse<loop=1> split<loop=1;factor=16> vectorize<loop=2>",
])  # fmt: skip
@pytest.mark.parametrize("shape", [(3, 4, 5), (2, 8, 16), (5, 7, 9)])
def test_fused_loops(target: CpuTarget, steps: str, shape: tuple[int, int, int]) -> None:
    text = "C[i:{}, j:{}, k:{}] = A[i, j, k] * B[k, i] + V[j]".format(*shape)
    schedule = Schedule.of(parse(text), "cpu")
    for step in steps.split():
        schedule = schedule.apply(Step.parse(step))
    _check(target, schedule.computation, schedule.nests)


def test_where_many_copies_would_be_tested_apart_loops_are_kept(target: CpuTarget) -> None:
    computation = parse(MATMUL.format(37, 83, 9))
    (stage,) = computation.stages
    extents = {"i": 37, "j": 83, "k": 9, "io": 3, "ii": 16, "jo": 2, "jw": 80, "jx": 5, "ji": 16}
    kinds: dict[str, Kind] = {"io": "serial", "jo": "serial", "k": "serial", "ii": "unrolled", "jx": "unrolled",
                              "ji": "vectorized"}  # fmt: skip
    loops = tuple(Loop(name, extents[name], kind) for name, kind in kinds.items())
    relations = (Split("i", "io", "ii", 16), Split("j", "jo", "jw", 80), Split("jw", "jx", "ji", 16))
    nest = Nest(stage, loops, relations, tuple(extents.items()))
    _check(target, computation, [nest])
    calls = target.compile(computation, [nest]).source.count('call nsz <16 x float> @"llvm.fma')
    assert 80 <= calls < 2 * 80


def _assembly(source: str) -> str:
    """Return a module's machine code as text."""
    machine, compiled = jit._machine(), llvm.parse_assembly(source, llvm.create_context())
    jit._optimize(compiled, machine)
    return str(machine.emit_assembly(compiled))


@pytest.mark.skipif(jit.vector_length() < 16, reason="looks for instructions of AVX-512")
def test_tiles_of_results_stay_in_registers(target: CpuTarget) -> None:
    computation = parse(MATMUL.format(500, 500, 500))
    nest = _nest(computation.stages[0], "io jo k ii! ji#", i=8, j=32)
    lines = _assembly(target.compile(computation, [nest]).source).splitlines()
    additions = [number for number, line in enumerate(lines) if "vfmadd" in line and "{%k" not in line]
    start = next(number for number in reversed(range(additions[0])) if lines[number].startswith(".L"))
    end = next(number for number in range(additions[0], len(lines)) if lines[number].strip().startswith("j"))
    loop = [line.split("#")[0].strip() for line in lines[start:end]]
    assert sum("vfmadd" in line and "zmm" in line for line in loop) == 16
    stores = [line for line in loop if line.startswith("vmov") and line.endswith(")")]
    assert stores == []


@settings(max_examples=25, deadline=None)
@given(strategies.schedules("cpu"))
def test_random_schedules(schedule: Schedule) -> None:
    _check(SHARED, schedule.computation, schedule.nests)


@pytest.mark.every_case
@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=50, deadline=None)
@given(strategies.schedules("cpu", most_steps=30))
def test_many_random_schedules(schedule: Schedule) -> None:
    _check(SHARED, schedule.computation, schedule.nests)


SHARED = CpuTarget(threads=2)  # what Hypothesis repeats can have no fixture of a module


@given(st.integers(1, 60), st.integers(1, 60), st.integers(0, 40), st.integers(1, 70), st.integers(2, 70))
def test_quotients_and_remainders(a: int, b: int, constant: int, divisor: int, extent: int) -> None:
    extents = {"x": extent, "y": 7}
    form = index_loops.variable("x").plus(index_loops.variable("y"), b).plus(index_loops.constant(constant))
    form = index_loops.constant(0).plus(form, a)
    quotient, remainder = form.divided(divisor, extents)
    for x, y in itertools.product({0, 1, extent // 2, extent - 1}, range(7)):
        value = a * (x + b * y + constant)
        for found, expected in ((quotient, value // divisor), (remainder, value % divisor)):
            number = found.where({"x": x, "y": y}, extents)
            assert not number.terms and number.constant == expected <= found.largest(extents)
            half = found.where({"x": x}, extents).where({"y": y}, extents)
            assert half == number


# ------------------------------------------------------------------------------------------------ functions


def _apply(target: CpuTarget, body: str, values: Array, width: int, kind: str) -> Array:
    computation = parse(f"Y[i:{values.size}] = {body}")
    (result,) = _run(target, computation, [_nest(computation.stages[0], f"io ii{kind}", i=width)], [values])
    return result


@pytest.mark.few(5)
@pytest.mark.parametrize(("width", "kind"), [(16, "#"), (4, "#"), (2, "!")])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "sqrt", "abs"])
def test_functions_are_numpys(target: CpuTarget, name: str, width: int, kind: str) -> None:
    special = [0.0, -0.0, INF, -INF, NAN, 1e-45, -1e-45, 1.1754944e-38, 1e-40, 3.4e38, -3.4e38, 1.0, -1.0, 88.72,
               88.73, -87.3, -87.4, -103.9, -104.5, 0.625, -0.625, 20.0, 9.5, 0.70710677, 0.7071068]  # fmt: skip
    rng = np.random.default_rng(0)
    scales = np.float32(2.0) ** rng.integers(-20, 7, 2000).astype(np.float32)
    values = np.concatenate([np.array(special), rng.uniform(-1, 1, 2000) * scales]).astype(np.float32)
    found = _apply(target, f"{name}(X[i])", values, width, kind)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(values.astype(np.float64))
        expected = exact.astype(np.float32)
        np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
        whole = ~np.isfinite(expected)
        np.testing.assert_array_equal(found[whole], expected[whole])
        step = np.spacing(np.abs(expected[~whole]).astype(np.float32))
        error = np.abs(found[~whole].astype(np.float64) - exact[~whole]) / step
    assert error.max() <= 3, values[~whole][error.argmax()]


@pytest.mark.parametrize(("width", "kind"), [(8, "#"), (2, "!")])
@pytest.mark.parametrize("name", ["max", "min"])
def test_what_is_no_number_wins(target: CpuTarget, name: str, width: int, kind: str) -> None:
    values = np.array([NAN, 1, -INF, INF, 0, -2.5, 3, 7] * 3, np.float32)
    with np.errstate(all="ignore"):
        expected = (np.maximum if name == "max" else np.minimum)(values, np.float32(0.5))
    np.testing.assert_array_equal(_apply(target, f"{name}(X[i], 0.5)", values, width, kind), expected)
    computation = parse(f"R[i:3] = {name}(j:20) X[i, j]")
    rows = np.zeros((3, 20), np.float32)
    rows[0, 13], rows[1, 19], rows[1, 2] = NAN, INF, -INF
    order = "i jo ji#" if kind == "#" else "i jo ji!"
    (found,) = _run(target, computation, [_nest(computation.stages[0], order, j=width)], [rows])
    np.testing.assert_array_equal(found, (rows.max if name == "max" else rows.min)(axis=1))


def test_division_is_exact_and_infinities_remain(target: CpuTarget) -> None:
    values = np.array([0, -0.0, 3, -7, INF, NAN, 1e-45, 1e38] * 2, np.float32)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_apply(target, "1 / X[i]", values, 16, "#"), np.float32(1) / values)
        np.testing.assert_array_equal(_apply(target, "X[i] - X[i]", values, 16, "#"), values - values)


# ------------------------------------------------------------------------------------------------ timing


def test_what_takes_all_the_time_there_is_runs_once(target: CpuTarget, monkeypatch: pytest.MonkeyPatch) -> None:
    computation = parse(MATMUL.format(64, 64, 64))
    compiled = target.compile(computation, [initial_nest(computation.stages[0])])
    runs, nanoseconds = [], kernel.CpuKernel._nanoseconds

    def counted(self: Any, arrays: Any, count: int) -> int:
        runs.append(count)
        return nanoseconds(self, arrays, count)

    monkeypatch.setattr(kernel.CpuKernel, "_nanoseconds", counted)
    timing = compiled.time([_aligned(tensor.shape) for tensor in computation.tensors], samples=7, seconds=1e-9)
    assert (runs, timing.samples, timing.runs) == ([1], 1, 1)


def test_time_is_told_with_its_spread(target: CpuTarget) -> None:
    computation = parse(MATMUL.format(32, 32, 32))
    arrays = [_aligned(tensor.shape) for tensor in computation.tensors]
    for array in arrays:
        assert array.ctypes.data % 64 == 0
        array.fill(1)
    for order in ("i j k", "i= j k"):
        compiled = target.compile(computation, [_nest(computation.stages[0], order)])
        timings = (compiled.time(arrays, samples=5, seconds=0.02) for _ in range(50))
        timing = next(one for one in timings if one.samples == 5)  # where nothing else runs, the first
        assert 0 < timing.low <= timing.seconds <= timing.high < 1 and timing.runs >= 1
        np.testing.assert_array_equal(arrays[2], np.full((32, 32), 32, np.float32))
        assert "define" in compiled.source


def test_what_takes_long_is_not_measured_often(target: CpuTarget) -> None:
    computation = parse(MATMUL.format(128, 128, 128))
    arrays = [np.ones(tensor.shape, np.float32) for tensor in computation.tensors]
    compiled = target.compile(computation, [initial_nest(computation.stages[0])])
    timing = compiled.time(arrays, samples=1000, seconds=1e-6)
    assert (timing.samples, timing.runs) == (1, 1)


def test_who_measures_waits_until_the_deadline(
    target: CpuTarget, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_lock.held.__wrapped__, "__defaults__", (INF, tmp_path))  # type: ignore[attr-defined]
    computation = parse("B[i:8] = A[i]")
    compiled = target.compile(computation, [initial_nest(computation.stages[0])])
    arrays = [np.zeros(8, np.float32) for _ in range(2)]
    with device_lock.held(kernel.DEVICE), pytest.raises(CompilationError) as raised:
        compiled.time(arrays, samples=1, seconds=0.001, deadline=time.monotonic() + 0.02)
    assert raised.value.code == FailureCode.OBSERVATION
    assert compiled.time(arrays, samples=1, seconds=0.001).samples == 1
    with device_lock.held(kernel.DEVICE), pytest.raises(CompilationError, match="others measured"):
        target.roof(time.monotonic() + 0.02)


def test_other_threads_run_meanwhile(target: CpuTarget) -> None:
    computation = parse(MATMUL.format(400, 400, 400))
    compiled = target.compile(computation, [initial_nest(computation.stages[0])])
    arrays = [np.ones(tensor.shape, np.float32) for tensor in computation.tensors]
    done = threading.Event()
    thread = threading.Thread(target=lambda: (compiled.run(arrays), done.set()))
    thread.start()
    turns = 0
    while not done.is_set():
        turns += 1
    thread.join()
    assert turns > 1000


def test_threads_compile_and_run_at_once(target: CpuTarget) -> None:
    def work(size: int) -> None:
        computation = parse(MATMUL.format(size, size, size))
        _check(target, computation, [_nest(computation.stages[0], "io= jo k ii! ji#", i=3, j=8)])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(10, 22)))


@pytest.mark.slow
def test_kernels_that_are_gone_leave_no_memory_behind(target: CpuTarget) -> None:
    computation = parse("B[i:8] = A[i]")

    def resident(kernels: int) -> int:
        for _ in range(kernels):
            target.compile(computation, [initial_nest(computation.stages[0])])
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    before = resident(20)
    assert resident(80) - before < 4 << 20  # what llvmlite does not free by itself would be 8 MiB


def test_a_forked_process_has_threads_of_its_own() -> None:
    script = """
import os, sys
import numpy as np
from aiocg.workers.loops.cpu.target import CpuTarget
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest, initial_nest
computation = parse("B[i:1000] = A[i] + 1")
nest = initial_nest(computation.stages[0])
nest = Nest(nest.stage, (nest.loops[0]._replace(kind="parallel"),), nest.relations, nest.extents)
kernel = CpuTarget(threads=2).compile(computation, [nest])
def right():
    arrays = [np.zeros(1000, np.float32), np.zeros(1000, np.float32)]
    kernel.run(arrays)
    return bool((arrays[1] == 1).all())
assert right()
child = os.fork()
if not child:
    os._exit(0 if right() else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) or not right())
"""
    subprocess.run([sys.executable, "-P", "-c", script], check=True, timeout=60, env=os.environ)


# ------------------------------------------------------------------------------------------------ refusals


def test_what_a_processor_cannot_do_is_refused(target: CpuTarget) -> None:
    computation = parse("C[i:8, j:8] = A[i, j]")
    nest = initial_nest(computation.stages[0])
    i, j = nest.loops
    wrong = {
        "block.x": ((i._replace(kind="block.x"), j), ()),
        "innermost": ((i._replace(kind="vectorized"), j), ()),
        "outermost": ((i, j._replace(kind="parallel")), ()),
        "shared memory": ((i, j), (Staging("A", "j"),)),
    }
    for reason, (loops, stagings) in wrong.items():
        with pytest.raises(CompilationError, match=reason) as raised:
            target.compile(computation, [Nest(nest.stage, loops, (), nest.extents, stagings)])
        assert raised.value.code == FailureCode.ACTION
    reduced = parse("R[i:8] = sum(j:8) A[i, j]").stages[0]
    with pytest.raises(CompilationError, match="outermost one of the result"):
        target.compile(parse("R[i:8] = sum(j:8) A[i, j]"), [_nest(reduced, "j= i")])


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("C[i:64, j:16, k:64] = exp(tanh(A[i, j, k]))", "i! j! k#"),
        ("C[a:64, i:16, b:16] = A[a, b, i]", "a! b! i#"),  # too many addresses
        ("C[a:64, i:16, b:16] = A[a, b, i]", "i! a! b#"),
    ],
)
def test_too_much_code_is_refused(target: CpuTarget, text: str, order: str) -> None:
    computation = parse(text)
    with pytest.raises(CompilationError, match="too much code") as raised:
        target.compile(computation, [_nest(computation.stages[0], order)])
    assert raised.value.code == FailureCode.ACTION


@pytest.mark.slow
def test_stages_share_what_there_is_of_room(target: CpuTarget) -> None:
    computation = parse("\n".join(f"C{n}[i{n}:4, j{n}:64, k{n}:16] = tanh(A[i{n}, j{n}, k{n}])" for n in range(8)))
    nests = [_nest(stage, f"i{n} j{n}! k{n}#") for n, stage in enumerate(computation.stages)]
    for stage, nest in zip(computation.stages, nests, strict=True):
        target.compile(Computation(computation.inputs, (stage,)), [nest])
    with pytest.raises(CompilationError, match="too much code"):
        target.compile(computation, nests)


@pytest.mark.slow
def test_tensors_are_read_backwards(target: CpuTarget) -> None:
    computation = parse("C[i:4, j:8] = A[31 - 8*i - j] + A[i]")
    (stage,) = computation.stages
    for nest in (initial_nest(stage), _nest(stage, "i! j#"), _nest(stage, "i jo ji#", j=4)):
        _check(target, computation, [nest])
        source = target.compile(computation, [nest]).source
        assert not re.search("mul nuw.* -", source)  # such a product is poison, of which LLVM may make anything
    schedule = Schedule.of(parse("T[a:1, b:128, c:15] = A[127 - b, 29 - 2*c + a + b, 1]"), "cpu")
    for primitive, loop, factor in (
        ("fuse", 0, None), ("reorder", 0, None), ("fuse", 0, None), ("split", 0, 4), ("split", 0, 69),
        ("split", 1, 65), ("reorder", 0, None), ("reorder", 1, None), ("fuse", 0, None), ("unroll", 2, None),
    ):  # fmt: skip
        schedule = schedule.apply(Step(primitive, loop, factor))
    _check(target, schedule.computation, schedule.nests)  # as it did


def test_threads_that_cannot_be_started_leave_none_waiting() -> None:
    limited = """if 1:
        import os, resource, sys, time
        import numpy as np
        from aiocg.workers.compilation import CompilationError
        from aiocg.workers.loops.cpu.target import CpuTarget
        from aiocg.workers.loops._language import parse
        from aiocg.workers.loops._schedule import Schedule, Step
        computation = parse("C[i:64] = A[i] * 2")
        kernel = CpuTarget(64).compile(computation, Schedule.of(computation, "cpu").apply(Step("parallel", 0)).nests)
        arrays = [np.ones(64, np.float32), np.zeros(64, np.float32)]
        size = 4096 * int(open("/proc/self/statm").read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (size + (200 << 20), resource.RLIM_INFINITY))
        try:
            kernel.run(arrays)
        except CompilationError as error:
            print(error.fields["reason"])
        before = time.process_time()
        time.sleep(0.2)
        assert time.process_time() - before < 0.1
        resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
        kernel.run(arrays)
        print(arrays[1].sum())
    """
    done = subprocess.run([sys.executable, "-c", limited], capture_output=True, text=True, timeout=100)
    assert done.stdout.split() == ["threads", "128.0"], done.stderr


def test_arrays_that_do_not_fit_are_refused(target: CpuTarget) -> None:
    computation = parse("B[i:8] = A[i]")
    compiled = target.compile(computation, [initial_nest(computation.stages[0])])
    right = np.zeros(8, np.float32)
    for wrong in (np.zeros(7, np.float32), np.zeros(8), np.zeros(16, np.float32)[::2]):
        with pytest.raises(ValueError, match="B must be"):
            compiled.run([right, wrong])
