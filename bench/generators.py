"""What a generated program costs: writing it, and compiling it, for programs of several sizes, beside Csmith's.

Nothing comes from a cache: each measurement takes seeds that have not been used, and an empty cache of its own.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from aiocg.datasets import Benchmark, DatasetError
from aiocg.datasets.generators.csmith import CsmithDataset, find_csmith
from aiocg.datasets.generators.random_c import RandomProgramsDataset
from bench.measure import MILLI, Budget, Effort, Results, ratios

SIZES = (50, 1000, 10_000, 50_000)

PER_INSTRUCTION = Budget(0.1)  # milliseconds


async def measure(effort: Effort) -> Results:
    """Write and compile programs of each size, then programs of Csmith."""
    results = Results()
    count, dataset = effort.choose(15, 3), RandomProgramsDataset()
    with _empty_cache():
        for size in effort.choose(SIZES, SIZES[:2]):
            written, compiled = _times(lambda seed, size=size: dataset.benchmark_from_seed(seed, size=size), count)
            results.add(f"write, size {size:,}", written, "ms")
            results.add(f"write, size {size:,}, per instruction", [t / size for t in written], "ms", PER_INSTRUCTION)
            results.add(f"write and compile, size {size:,}", compiled, "ms")
            if size == 1000:
                ours = compiled
        try:
            find_csmith()
        except DatasetError as error:
            results.note(f"Without Csmith: {error}")
        else:
            written, compiled = _times(CsmithDataset().benchmark_from_seed, count)
            results.add("write, Csmith", written, "ms")
            results.add("write and compile, Csmith", compiled, "ms")
            results.add("write and compile, size 1,000 to Csmith", ratios(ours, compiled), "x")
    results.note("One seed after the other, nothing cached; Csmith chooses the size, 5,000 instructions in the median.")
    return results


def _times(make: Callable[[int], Benchmark], count: int) -> tuple[list[float], list[float]]:
    """Return the milliseconds of writing programs, and of writing and compiling others."""
    written = [_time(lambda seed=seed: make(seed).sources) for seed in range(count)]
    compiled = [_time(lambda seed=seed: make(seed).content) for seed in range(count, 2 * count)]
    return written, compiled


def _time(operation: Callable[[], object]) -> float:
    started = time.perf_counter()
    operation()
    return (time.perf_counter() - started) * MILLI


@contextmanager
def _empty_cache() -> Iterator[None]:
    """Keep out what has been made and compiled before."""
    before = os.environ.get("AIOCG_CACHE")
    with tempfile.TemporaryDirectory(prefix="aiocg-") as folder:
        os.environ["AIOCG_CACHE"] = folder
        try:
            yield
        finally:
            if before is None:
                del os.environ["AIOCG_CACHE"]
            else:
                os.environ["AIOCG_CACHE"] = before
