"""What a device can do at most: copies of all sizes, and multiplications and additions that need no memory."""

from typing import Any

import numpy as np

from aiocg.workers.loops.cuda.device import Device
from aiocg.workers.loops.cuda.timing import time_runs
from aiocg.workers.loops.target import Roof

__all__ = ["ROOF_VERSION", "SOURCE", "measure_roof"]

ROOF_VERSION = 1  # of what is measured, and how

THREADS = 256  # of a block
CHAINS = 8  # of multiplications and additions that a thread has under way at once
TURNS = 4096  # of each chain
BLOCKS = 32  # for each multiprocessor, which has room for 8
SMALLEST, LARGEST = 1 << 13, 1 << 30  # bytes that are read and written
SAMPLES, SECONDS = 5, 0.05

SOURCE = f"""\
extern "C" __global__ void __launch_bounds__({THREADS}) copy(const float4 *__restrict__ a, float4 *__restrict__ b) {{
    const int i = blockIdx.x * {THREADS} + threadIdx.x;
    b[i] = a[i];
}}

extern "C" __global__ void __launch_bounds__({THREADS}) multiply_add(float factor, float term, float *result) {{
    float value[{CHAINS}];
    #pragma unroll
    for (int i = 0; i < {CHAINS}; ++i) value[i] = threadIdx.x + i;
    #pragma unroll 16
    for (int turn = 0; turn < {TURNS}; ++turn) {{
        #pragma unroll
        for (int i = 0; i < {CHAINS}; ++i) value[i] = value[i] * factor + term;
    }}
    float sum = 0.0f;
    #pragma unroll
    for (int i = 0; i < {CHAINS}; ++i) sum += value[i];
    result[blockIdx.x * {THREADS} + threadIdx.x] = sum;
}}
"""


def measure_roof(device: Device) -> Roof:
    """Return what a device can do; nothing else must run on it.

    Raises:
        MemoryError, CompilationError: as `Device.use` does.
    """
    with device.use():
        module = device.cupy.RawModule(code=SOURCE, options=("--std=c++17",))
        largest = min(LARGEST, device.free_memory() // 4)
        sizes = [1 << power for power in range(SMALLEST.bit_length() - 1, largest.bit_length())]
        bandwidths = tuple((size, _bandwidth(device, module, size)) for size in sizes)
        return Roof(_flops(device, module), bandwidths)


def _bandwidth(device: Device, module: Any, size: int) -> float:
    copy, count = module.get_function("copy"), size // 8
    source, to = device.cupy.zeros(count, np.float32), device.cupy.empty(count, np.float32)

    def run() -> None:
        copy((count // (4 * THREADS),), (THREADS,), (source, to))

    return size / _seconds(device, run)


def _flops(device: Device, module: Any) -> float:
    multiply_add, blocks = module.get_function("multiply_add"), BLOCKS * device.multiprocessors
    result = device.cupy.empty(blocks * THREADS, np.float32)

    def run() -> None:
        multiply_add((blocks,), (THREADS,), (np.float32(0.5), np.float32(1), result))

    return 2 * CHAINS * TURNS * blocks * THREADS / _seconds(device, run)


def _seconds(device: Device, run: Any) -> float:
    return time_runs(device, run, samples=SAMPLES, seconds=SECONDS).seconds
