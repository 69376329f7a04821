"""Measuring a GPU: the run time of kernels, and the roofline."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from aiocg.workers.loops.cuda.device import Device
from aiocg.workers.loops.target import Roof, Timing

MOST_RUNS = 1024  # in a graph
RESOLUTION = 5e-7  # seconds, of the device's clock
ENOUGH = 0.5  # fraction of one sample's time; a warm-up of this length shows how many runs fit


def time_runs(device: Device, run: Callable[[], None], *, samples: int, seconds: float) -> Timing:
    """Warm up, then time, inside `Device.use`.

    A run that takes longer than the time for all samples is the only sample: on a single thread it takes seconds.

    Args:
        device: the device.
        run: launches only what is timed; its kernels must be compiled.
        samples: the number of samples, at least 1.
        seconds: the approximate total time.
    """
    span = seconds / samples
    runs = 1
    while True:
        graph = _record(device, run, runs)
        taken = _elapsed(device, graph, 1)
        if runs == 1 and taken >= seconds:
            return Timing(taken, taken, taken, 1, 1)
        if taken >= ENOUGH * span or runs == MOST_RUNS:
            break
        runs = max(runs + 1, min(int(runs * span / taken), 16 * runs, MOST_RUNS))
    launches = max(1, int(span / taken))
    if launches > 1:
        _elapsed(device, graph, launches)
    times = [_elapsed(device, graph, launches) / (launches * runs) for _ in range(samples)]
    low, median, high = (float(value) for value in np.percentile(times, (25, 50, 75)))
    return Timing(median, low, high, samples, launches * runs)


def _record(device: Device, run: Callable[[], None], runs: int) -> Any:
    device.stream.begin_capture()
    try:
        for _ in range(runs):
            run()
    finally:
        graph = device.stream.end_capture()
    graph.upload(device.stream)
    return graph


def _elapsed(device: Device, graph: Any, launches: int) -> float:
    """Return the seconds that the device takes to run a graph so many times."""
    cuda, stream = device.cupy.cuda, device.stream
    start, end = cuda.Event(), cuda.Event()
    start.record(stream)
    for _ in range(launches):
        graph.launch(stream)
    end.record(stream)
    end.synchronize()
    milliseconds: float = cuda.get_elapsed_time(start, end)
    return max(milliseconds / 1000, RESOLUTION)


ROOF_VERSION = 1  # of the measurement

THREADS = 256  # per block
CHAINS = 8  # concurrent chains of multiply-adds in a thread
TURNS = 4096  # iterations of each chain
BLOCKS = 32  # per multiprocessor, which has room for 8
SMALLEST, LARGEST = 1 << 13, 1 << 30  # bytes read and written
SAMPLES, SECONDS = 5, 0.05

SOURCE = f"#define THREADS {THREADS}\n#define CHAINS {CHAINS}\n#define TURNS {TURNS}\n" + (
    Path(__file__).with_name("roof.cu").read_text(encoding="utf-8")
)


def measure_roof(device: Device) -> Roof:
    """Return a device's roofline; nothing else may run on it.

    Raises:
        MemoryError, CompilationError: as `Device.use`.
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
