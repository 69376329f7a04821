"""What is compared: kernels of ours, and NumPy in processes that have as many threads as they are to use."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from aiocg.workers.loops.arrays import aligned
from aiocg.workers.loops.cpu.target import CpuTarget
from aiocg.workers.loops.reference import compare, expect, random_inputs
from aiocg.workers.loops.schedule import Schedule

SCRIPT = """
import json, sys, time
import numpy as np
arrays = {}
def random(*shape):
    if shape not in arrays:
        arrays[shape] = np.random.default_rng(0).random(shape, np.float32)
    return arrays[shape]
def matmul(n):
    a, c = random(n, n), random(n, n + 0)
    out = np.empty((n, n), np.float32)
    return lambda: np.matmul(a, c, out=out)
def rows(n):
    x = random(n, n)
    out = np.empty(n, np.float32)
    return lambda: x.sum(axis=1, out=out)
def softmax(n):
    x = random(n, n)
    out = np.empty((n, n), np.float32)
    def run():
        np.subtract(x, x.max(axis=1, keepdims=True), out=out)
        np.exp(out, out=out)
        np.divide(out, out.sum(axis=1, keepdims=True), out=out)
    return run
kinds = {"matmul": matmul, "rows": rows, "softmax": softmax}
for line in sys.stdin:
    kind, size, seconds, samples = json.loads(line)
    run = kinds[kind](size)
    run()
    found = []
    for _ in range(samples):
        runs, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) * samples < seconds or not runs:
            run()
            runs += 1
        found.append(passed / runs)
    print(json.dumps(found), flush=True)
"""


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

    def seconds(self, kind: str, size: int, seconds: float, samples: int) -> float:
        """Return how long one run takes, at best."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([kind, size, seconds, samples]) + "\n")
        self._process.stdin.flush()
        found: list[float] = json.loads(self._process.stdout.readline())
        return min(found)


class Ours:
    """A kernel with arrays to work on; its result was compared with NumPy's."""

    def __init__(self, target: CpuTarget, schedule: Schedule, *, check: bool = True) -> None:
        computation = schedule.computation
        self.flops, self.traffic, self.footprint = computation.flops, computation.traffic, computation.footprint
        self._kernel = target.compile(computation, schedule.nests)
        inputs = random_inputs(computation)
        self._arrays = [aligned(tensor.shape) for tensor in computation.tensors]
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
