"""How long the device takes, by its own clock.

What is timed is recorded once, as a graph of many runs, which the device then carries out without the host. Otherwise a
small kernel would take as long as Python takes to launch it.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from aiocg.workers.loops.cuda.device import Device
from aiocg.workers.loops.target import Timing

__all__ = ["time_runs"]

MOST_RUNS = 1024  # in a graph
RESOLUTION = 5e-7  # seconds, of the device's clock
ENOUGH = 0.5  # of the time for one sample: a warm-up of so long says how many runs fit


def time_runs(device: Device, run: Callable[[], None], *, samples: int, seconds: float) -> Timing:
    """Warm up, then time, inside of `Device.use`.

    A run that takes longer than all samples should is its own and only one: that of a single thread takes seconds.

    Args:
        device: what the run is for.
        run: launches what is timed, and nothing else; its kernels are compiled.
        samples: how many to take, at least 1.
        seconds: about how long to measure in all.
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
    """Return how many seconds the device takes for a graph, so many times over."""
    cuda, stream = device.cupy.cuda, device.stream
    start, end = cuda.Event(), cuda.Event()
    start.record(stream)
    for _ in range(launches):
        graph.launch(stream)
    end.record(stream)
    end.synchronize()
    milliseconds: float = cuda.get_elapsed_time(start, end)
    return max(milliseconds / 1000, RESOLUTION)
