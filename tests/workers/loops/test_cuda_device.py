"""Kernels on a GPU: their results, how long they take, and what becomes of failures. Skipped where there is none."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from aiocg.workers.compilation import CompilationError
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops.cuda._device import EXIT_STATUS, open_device
from aiocg.workers.loops.cuda.target import CudaTarget

from . import cuda_schedules as written
from . import strategies

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@pytest.fixture(scope="module")
def target() -> CudaTarget:
    try:
        return CudaTarget(tensor_cores=open_device().has_tensor_cores)
    except CompilationError as error:
        pytest.skip(error.message)


def arrays(schedule: Schedule) -> list[Any]:
    """Return inputs, and room for results that are no numbers yet."""
    computation = schedule.computation
    results = (np.full(stage.result.shape, np.nan, np.float32) for stage in computation.stages)
    return [*random_inputs(computation, seed=1), *results]


def check(target: CudaTarget, schedule: Schedule) -> None:
    """Run a schedule's kernels, and compare all results with NumPy's."""
    computation, memory = schedule.computation, arrays(schedule)
    kernel = target.compile(computation, schedule.nests)
    kernel.run(memory)
    inputs, results = memory[: len(computation.inputs)], memory[len(computation.inputs) :]
    mismatch = compare(computation, results, expect(computation, inputs, schedule.on_tensor_cores))
    assert mismatch is None, f"{mismatch}\n{kernel.source}"


def seconds(target: CudaTarget, schedule: Schedule) -> float:
    kernel = target.compile(schedule.computation, schedule.nests)
    return kernel.time(arrays(schedule), samples=5, seconds=0.05).seconds


@pytest.mark.parametrize(
    "schedule",
    [
        pytest.param(written.pointwise(1000003), id="a remainder"),
        pytest.param(written.matmul(131, 100, 77), id="tiles"),
        pytest.param(written.register_matmul(300, 200, 100), id="tiles and registers"),
        pytest.param(written.register_matmul(512, 512, 512), id="no remainder"),
        pytest.param(written.register_matmul(300, 200, 100, more="pipeline<loop=4>"), id="a pipelined loop"),
        pytest.param(written.register_matmul(301, 203, 101, more="pipeline<loop=4>"), id="odd and pipelined"),
        pytest.param(written.warp_matmul(300, 200, 100), id="tiles of warps"),
        pytest.param(written.deep_matmul(9, 10, 1001), id="tiles above 48 KiB"),
        pytest.param(written.neighbours(1 << 20), id="vectors"),
        pytest.param(written.columns(1000), id="columns of a tile"),
        pytest.param(written.transpose(1000, 130), id="a tile, transposed"),
        pytest.param(written.softmax(100, 1000), id="several stages"),
        pytest.param(written.rows(1001, 3000), id="a sum of many threads"),
        pytest.param(written.rows(37, 1000, threads=37, each=3, reducer="max"), id="threads that are no power of two"),
        pytest.param(written.column_sums(999, 1001), id="shared sums of columns"),
        pytest.param(written.split_sums(50, 70, 300), id="tiles and sums of many threads"),
        pytest.param(written.joined_softmax(1000, 4096), id="joined stages"),
        pytest.param(written.scheduled("B[i:300] = max(j:5) A[i, j]", "reorder<loop=0>"), id="no accumulators"),
    ],
)
def test_what_people_write(target: CudaTarget, schedule: Schedule) -> None:
    check(target, schedule)


@settings(UNHURRIED, max_examples=50)
@given(schedule=strategies.schedules("cuda"))
def test_all_schedules_compute_the_same(target: CudaTarget, schedule: Schedule) -> None:
    check(target, schedule)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(UNHURRIED, max_examples=1000)
@given(schedule=strategies.schedules("cuda", most_steps=20))
def test_many_schedules_compute_the_same(target: CudaTarget, schedule: Schedule) -> None:
    check(target, schedule)


@settings(UNHURRIED, max_examples=100)
@given(schedule=strategies.on_tensor_cores())
def test_tensor_cores_compute_the_same(target: CudaTarget, schedule: Schedule) -> None:
    if "tensor" not in target.rules.kinds:
        pytest.skip("this device has no tensor cores for tf32")
    check(target, schedule)


def test_several_threads_compile_at_once(target: CudaTarget) -> None:
    schedules = [written.matmul(60 + size, 50, 40) for size in range(16)]
    with ThreadPoolExecutor(4) as pool:
        kernels = list(pool.map(lambda one: target.compile(one.computation, one.nests), schedules))
    for schedule, kernel in zip(schedules, kernels, strict=True):
        memory = arrays(schedule)
        kernel.run(memory)
        assert compare(schedule.computation, memory[2:], expect(schedule.computation, memory[:2])) is None


def test_a_timing_is_of_many_runs_and_says_how_it_varies(target: CudaTarget) -> None:
    schedule = written.pointwise(1 << 16)
    timing = target.compile(schedule.computation, schedule.nests).time(arrays(schedule), samples=7, seconds=0.1)
    assert 0 < timing.low <= timing.seconds <= timing.high
    assert timing.samples == 7
    assert timing.runs > 10
    assert timing.seconds < 0.001  # 768 KiB


def test_more_work_takes_longer(target: CudaTarget) -> None:
    assert seconds(target, written.pointwise(1 << 26)) > 4 * seconds(target, written.pointwise(1 << 22))


def test_a_schedule_makes_a_difference(target: CudaTarget) -> None:
    plain = written.scheduled("C[i:128, j:128] = sum(k:128) A[i, k] * B[k, j]", "")
    assert seconds(target, plain) > 10 * seconds(target, written.register_matmul(128, 128, 128))


def test_the_roof_is_above_what_is_under_it(target: CudaTarget) -> None:
    roof = target.roof()
    sizes = [size for size, _ in roof.bandwidths]
    assert sizes == sorted(sizes)
    schedule = written.pointwise(1 << 24)
    moved = schedule.computation.traffic / seconds(target, schedule)
    assert 0.5 < moved / roof.bandwidths[-1][1] < 1.2
    product = written.register_matmul(1024, 1024, 1024)
    assert product.computation.flops / seconds(target, product) < roof.flops


def test_what_does_not_fit_in_memory_is_an_error_and_the_device_goes_on(target: CudaTarget) -> None:
    schedule = written.pointwise(1 << 11)
    with pytest.raises(MemoryError), target._device.use():
        target._device.cupy.empty(1 << 46, np.float32)
    check(target, schedule)


def test_a_launch_that_the_device_refuses_is_an_error_and_the_device_goes_on(target: CudaTarget) -> None:
    device = target._device
    nothing = device.cupy.RawModule(code='extern "C" __global__ void nothing() {}').get_function("nothing")
    with pytest.raises(CompilationError, match="refuses"), device.use():
        nothing((1,), (4096,), ())
    check(target, written.pointwise(1 << 11))


def test_an_access_outside_of_all_memory_ends_the_process(target: CudaTarget) -> None:
    script = (
        "from aiocg.workers.loops.cuda._device import open_device\n"
        "device = open_device()\n"
        "code = 'extern \"C\" __global__ void wrong(float *nowhere) { nowhere[threadIdx.x] = 1; }'\n"
        "with device.use():\n"
        "    device.cupy.RawModule(code=code).get_function('wrong')((1,), (32,), (0,))\n"
        "    device.stream.synchronize()\n"
        "print('not reached')\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == EXIT_STATUS, done.stderr
    assert "context is lost" in done.stderr
    assert "not reached" not in done.stdout
