"""Compiled kernels: how many are kept, and that they can be freed."""

import math
import subprocess
import sys
from collections.abc import Sequence

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import _kernel_session as kernel_session
from aiocg.workers.loops._expression import Computation
from aiocg.workers.loops._kernel_session import Kernels
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Nest
from aiocg.workers.loops._schedule import Schedule, Step
from aiocg.workers.loops._target import Arrays, Kernel, Timing
from aiocg.workers.loops._targets import open_target

FREEING = """
import gc
from aiocg.workers.loops.cpu.target import CpuTarget
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import initial_nest
computation = parse("C[i:8] = A[i] + 1")
target = CpuTarget(1)
for _ in range(20):
    kernel = target.compile(computation, [initial_nest(computation.stages[0])])
    kernel.itself = kernel  # so that the collector has to find it, and its parts in any order
    del kernel
    gc.collect()
print("freed")
"""


@pytest.mark.slow
def test_a_kernel_that_the_garbage_collector_finds_is_freed_in_order() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", FREEING], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "freed\n"), done.stderr


def test_only_the_kernels_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_session, "KEPT_KERNELS", 3)
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    schedules = [Schedule.of(parse(f"C[i:{size}] = A[i] + 1"), "cpu") for size in range(1, 6)]
    first = kept.kernel(schedules[0])
    kept.prepare(schedules[1:4])
    assert kept.statistics()["kernels_kept"] == 3
    assert kept.kernel(schedules[3]) is kept.kernel(schedules[3])
    assert (kept.compiles, kept.hits) == (4, 2)
    assert kept.kernel(schedules[0]) is not first and kept.compiles == 5


def test_what_fails_when_several_are_compiled_fails_again_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    schedules = [Schedule.of(parse(f"C[i:{size}] = A[i] + 1"), "cpu") for size in range(1, 5)]
    compile_ = kept.target.compile

    def short_of_memory(computation: Computation, nests: Sequence[Nest]) -> Kernel:
        if computation is schedules[1].computation:
            raise MemoryError
        return compile_(computation, nests)

    monkeypatch.setattr(kept.target, "compile", short_of_memory)
    kept.prepare(schedules)
    assert kept.compiles == 3
    with pytest.raises(CompilationError, match="no room") as raised:
        kept.kernel(schedules[1])
    assert raised.value.fields == {"reason": "memory"}


@pytest.mark.parametrize(
    ("bound", "most", "sizes", "left"),
    [("KEPT_BYTES", 4 * 2 * 1000, (600, 300, 200, 5000), [5000]), ("KEPT_WORKLOADS", 2, (3, 4, 5, 4), [5, 4])],
)
def test_the_arrays_of_the_computations_that_were_used_last_are_kept(
    monkeypatch: pytest.MonkeyPatch, bound: str, most: int, sizes: tuple[int, ...], left: list[int]
) -> None:
    monkeypatch.setattr(kernel_session, bound, most)
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    for size in sizes:
        kept.measure(Schedule.of(parse(f"C[i:{size}] = A[i] + 1"), "cpu"), 1, 0.001)
    assert [computation.stages[0].result.size for computation in kept._workloads] == left


class Clocked:
    """A kernel that computes what it should in a time of its own, and counts how often it is timed."""

    def __init__(self, kernel: Kernel, clock: list[float], seconds: float) -> None:
        self.source, self.timed = kernel.source, 0
        self._kernel, self._clock, self._seconds = kernel, clock, seconds

    def run(self, arrays: Arrays) -> None:
        self._clock[0] += self._seconds
        self._kernel.run(arrays)

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        self.timed += 1
        self._kernel.run(arrays)
        return Timing(self._seconds, self._seconds, self._seconds, samples, 1)


@pytest.mark.parametrize(
    ("taken", "patience", "timed"),
    [
        (0.29, 3.0, 1),  # of 0.1 s for the fastest
        (0.31, 3.0, 0),
        (0.31, math.inf, 1),
        (0.019, 0.1, 1),  # shorter than the measurement
        (0.21, math.inf, 1),
        (2.1, math.inf, 0),  # LONG times as long
    ],
)
def test_what_is_clearly_slower_than_the_fastest_is_run_once(
    monkeypatch: pytest.MonkeyPatch, taken: float, patience: float, timed: int
) -> None:
    clock, seconds = [0.0], 0.2 if taken > 0.31 or patience == 0.1 else 0.05
    monkeypatch.setattr(kernel_session.time, "perf_counter", lambda: clock[0])
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    schedule = Schedule.of(parse("C[i:8, j:9] = A[i, j] + 1"), "cpu")
    for one, lasting in ((schedule.apply(Step("reorder", 0)), 0.1), (schedule, taken)):
        kernel = Clocked(kept.kernel(one), clock, lasting)
        kept._entries[one.digest].kernel = kernel
        assert kept.measure(one, 3, seconds, patience=patience).seconds == pytest.approx(lasting)
    assert kernel.timed == timed
    kept.measure(schedule, 3, seconds, patience=patience)
    assert kernel.timed == timed + 1  # asking again measures, as ever


class Idle(Clocked):
    """A kernel that does a part of the work only when it is timed: it leaves the last result as it is."""

    def time(self, arrays: Arrays, *, samples: int, seconds: float, deadline: float = math.inf) -> Timing:
        last = arrays[-1][-1].copy()
        timing = super().time(arrays, samples=samples, seconds=seconds, deadline=deadline)
        arrays[-1][-1] = last
        return timing


def test_the_runs_that_are_timed_must_do_all_of_the_work() -> None:
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    schedule = Schedule.of(parse("C[i:8, j:9] = A[i, j] + 1"), "cpu")
    kept._entries[schedule.digest].kernel = Idle(kept.kernel(schedule), [0.0], 0.01)
    for message in ("when it is timed: C", "computes something else"):
        with pytest.raises(CompilationError, match=message) as raised:
            kept.measure(schedule, 3, 0.01)
        assert raised.value.fields == {"reason": "wrong result"}


def test_kernels_work_on_numbers_that_no_compiler_knows() -> None:
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    schedule = Schedule.of(parse("C[i:8] = sum(k:9) A[i, k] * B[k]"), "cpu")
    kept.measure(schedule, 1, 0.001)
    kernel, (workload,) = kept.kernel(schedule), kept._workloads.values()
    before = workload.arrays[-1].copy()
    for array in workload.arrays[:-1]:
        array += 1  # after it was compiled
    kernel.run(workload.arrays)
    assert (workload.arrays[-1] != before).all() and len(set(before)) > 1
