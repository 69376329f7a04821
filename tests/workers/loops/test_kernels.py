"""Compiled kernels: how many are kept, and that they can be freed."""

import subprocess
import sys
from collections.abc import Sequence

import pytest

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops import kernels
from aiocg.workers.loops.expression import Computation
from aiocg.workers.loops.kernels import Kernels
from aiocg.workers.loops.language import parse
from aiocg.workers.loops.nest import Nest
from aiocg.workers.loops.schedule import Schedule
from aiocg.workers.loops.target import Kernel
from aiocg.workers.loops.targets import open_target

FREEING = """
import gc
from aiocg.workers.loops.cpu.target import CpuTarget
from aiocg.workers.loops.language import parse
from aiocg.workers.loops.nest import initial_nest
computation = parse("C[i:8] = A[i] + 1")
target = CpuTarget(1)
for _ in range(20):
    kernel = target.compile(computation, [initial_nest(computation.stages[0])])
    kernel.itself = kernel  # so that the collector has to find it, and its parts in any order
    del kernel
    gc.collect()
print("freed")
"""


def test_a_kernel_that_the_garbage_collector_finds_is_freed_in_order() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", FREEING], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "freed\n"), done.stderr


def test_only_the_kernels_that_were_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "KEPT_KERNELS", 3)
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


def test_arrays_of_the_computation_that_was_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "KEPT_BYTES", 4 * 2 * 1000)
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    for size in (600, 300, 200, 5000):
        kept.measure(Schedule.of(parse(f"C[i:{size}] = A[i] + 1"), "cpu"), 1, 0.001)
    assert [computation.stages[0].result.size for computation in kept._workloads] == [5000]


def test_of_many_small_computations_the_last_ones_arrays_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "KEPT_WORKLOADS", 2)
    kept = Kernels(open_target("cpu", {"threads": "1"}))
    for size in (3, 4, 5, 4):
        kept.measure(Schedule.of(parse(f"C[i:{size}] = A[i] + 1"), "cpu"), 1, 0.001)
    assert [computation.stages[0].result.size for computation in kept._workloads] == [5, 4]
