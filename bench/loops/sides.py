"""What is compared: kernels of ours, and NumPy in processes that have as many threads as they are to use."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

from aiocg.workers.loops._expression import Tensor
from aiocg.workers.loops._reference import compare, expect, random_inputs
from aiocg.workers.loops._schedule import Schedule
from aiocg.workers.loops.cpu.target import CpuTarget, _aligned

SCRIPT = """
import json, sys, time
import numpy as np
arrays = {}
for line in sys.stdin:
    code, shapes, seconds, samples = json.loads(line)
    for name, shape in shapes.items():
        if name not in arrays or list(arrays[name].shape) != shape:
            arrays[name] = np.random.default_rng(0).random(shape, np.float32)
    compiled = compile(code, "numpy", "exec")
    run = lambda: exec(compiled, {"np": np, **arrays})
    run()
    found = []
    for _ in range(samples):
        runs, began, busy = 0, time.perf_counter(), time.process_time()
        while (passed := time.perf_counter() - began) * samples < seconds or not runs:
            run()
            runs += 1
        found.append((passed / runs, (time.process_time() - busy) / runs))
    print(json.dumps([min(one) for one in zip(*found)]), flush=True)
"""
NUMPY = {  # the same computations with NumPy, in arrays named as there
    "matmul": "np.matmul(A, B, out=C)",
    "rows": "X.sum(axis=1, out=R)",
    "softmax": """
np.subtract(X, X.max(axis=1, keepdims=True), out=Y)
np.exp(Y, out=Y)
np.divide(Y, Y.sum(axis=1, keepdims=True), out=Y)
""",
}


class NumPy:
    """NumPy in a process of its own, where BLAS has so many threads."""

    def __init__(self, threads: int) -> None:
        settings = {name: str(threads) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", SCRIPT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **settings},
        )  # fmt: skip

    def __enter__(self) -> "NumPy":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def seconds(self, code: str, tensors: Iterable[Tensor], seconds: float, samples: int) -> tuple[float, float]:
        """Return how long one run of some code takes at best, by the clock and of the processor."""
        assert self._process.stdin is not None and self._process.stdout is not None
        shapes = {tensor.name: tensor.shape for tensor in tensors}
        self._process.stdin.write(json.dumps([code, shapes, seconds, samples]) + "\n")
        self._process.stdin.flush()
        clock, processor = json.loads(self._process.stdout.readline())
        return clock, processor


class Ours:
    """A kernel with arrays to work on; its result was compared with NumPy's."""

    def __init__(self, target: CpuTarget, schedule: Schedule, *, check: bool = True) -> None:
        computation = schedule.computation
        self.tensors = computation.tensors
        self.flops, self.traffic, self.footprint = computation.flops, computation.traffic, computation.footprint
        self._kernel = target.compile(computation, schedule.nests)
        inputs = random_inputs(computation)
        self._arrays = [_aligned(tensor.shape) for tensor in computation.tensors]
        for array, values in zip(self._arrays, inputs, strict=False):
            array[...] = values
        for array in self._arrays[len(inputs) :]:
            array.fill(0)
        if check:
            self._kernel.run(self._arrays)
            wrong = compare(computation, self._arrays[len(inputs) :], expect(computation, inputs))
            if wrong is not None:
                raise AssertionError(f"a kernel is wrong: {wrong}")

    def seconds(self, seconds: float, samples: int) -> float:
        """Return how long one run takes, at best."""
        return min(self._kernel.sample(self._arrays, samples=samples, seconds=seconds)[0])

    def processor_seconds(self, seconds: float, samples: int) -> float:
        """Return how much time of the processor one run takes, at best, with that of the call from Python."""
        return processor_seconds(lambda: self._kernel.run(self._arrays), seconds, samples)


def processor_seconds(run: Callable[[], object], seconds: float, samples: int) -> float:
    """Return how much time of the processor one run takes, at best, after one that does not count."""
    run()
    found = []
    for _ in range(samples):
        runs, began, busy = 0, time.perf_counter(), time.process_time()
        while (time.perf_counter() - began) * samples < seconds or not runs:
            run()
            runs += 1
        found.append((time.process_time() - busy) / runs)
    return min(found)


def fastest(target: CpuTarget, schedules: Sequence[tuple[str, Schedule]], seconds: float) -> tuple[str, Ours]:
    """Search: try all, and the best ones again; return the best one and its name."""
    tried: list[tuple[float, str, Any]] = []
    for name, schedule in schedules:
        ours = Ours(target, schedule, check=False)
        tried.append((ours.seconds(seconds, 3), name, schedule))
        del ours
    tried.sort(key=lambda one: one[0])
    again = [(Ours(target, schedule).seconds(4 * seconds, 5), name, schedule) for _, name, schedule in tried[:4]]
    _, name, schedule = min(again, key=lambda one: one[0])
    return name, Ours(target, schedule)
