"""What the search `schedule` finds by itself, beside NumPy, and GCC and Numba with the loops as they are written."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import aiocg
from aiocg.datasets import Benchmark, default_datasets
from aiocg.loops import make_benchmark
from aiocg.search import Budget, schedule
from aiocg.workers.loops.cpu.target import CpuTarget
from aiocg.workers.loops.session import LoopsSession
from bench.loops.naive import Naive, Numba
from bench.loops.sides import NUMPY, NumPy, Ours
from bench.measure import Budget as Promise
from bench.measure import Effort, Results

ROUNDS = 7
SECONDS = 0.3  # of each side in a round
CONVOLUTION = """
windows = np.lib.stride_tricks.sliding_window_view(X[0], K.shape[2:], axis=(1, 2))
columns = windows.transpose(0, 3, 4, 1, 2).reshape(K[0].size, -1)
np.matmul(K.reshape(len(K), -1), columns, out=Y.reshape(len(K), -1))
"""


class Subject(NamedTuple):
    """A computation to search a schedule for.

    Attributes:
        text: the expression, or the rest of a URI of generator://loops-v0.
        numpy: the same with NumPy.
        least: how many times as fast as NumPy the search should be.
    """

    text: str
    numpy: str
    least: float

    @property
    def benchmark(self) -> Benchmark:
        """The benchmark."""
        if "=" in self.text and "?" not in self.text:
            return make_benchmark(self.text)
        return default_datasets().benchmark(f"generator://loops-v0/{self.text}")


SUBJECTS: Mapping[str, Subject] = {
    "matmul 512": Subject("matmul?m=512&n=512&k=512", NUMPY["matmul"], 0.6),
    "matmul 1024": Subject("matmul?m=1024&n=1024&k=1024", NUMPY["matmul"], 0.6),
    "matmul 500": Subject("matmul?m=500&n=500&k=500", NUMPY["matmul"], 0.5),
    "A times B transposed, 512": Subject(
        "C[i:512, j:512] = sum(k:512) A[i, k] * B[j, k]", "np.matmul(A, B.T, out=C)", 0.5
    ),
    "A transposed times B, 512": Subject(
        "C[i:512, j:512] = sum(k:512) A[k, i] * B[k, j]", "np.matmul(A.T, B, out=C)", 0.5
    ),
    "16 matmuls of 128": Subject("batch_matmul?b=16&m=128&n=128&k=128", NUMPY["matmul"], 0.5),
    "conv2d, 64 channels": Subject("conv2d?c=64", CONVOLUTION, 1.2),
    "softmax, 1024²": Subject("softmax?m=1024&n=1024", NUMPY["softmax"], 1.5),
}


def measure_searches(effort: Effort, seconds: float, names: Sequence[str], threads: int = 1) -> Results:
    """Search a schedule for each subject, and measure it in turns with NumPy, GCC's code and, if there is Numba, its.

    Args:
        effort: how long to measure.
        seconds: of each search.
        names: of subjects; all if there are none.
        threads: of the schedules and of NumPy; GCC's code has one.
    """
    results = Results()
    results.note(f"{CpuTarget(threads).description}; {seconds:g} s for each search; {blas()}")
    with NumPy(threads) as numpy, tempfile.TemporaryDirectory() as folder:
        for name in names or SUBJECTS:
            found = asyncio.run(_found(SUBJECTS[name].benchmark, seconds, threads))
            results.note(f"{name}: {found.evaluations} schedules, {found.reward:.1f} GFLOP/s more than at the start by "
                         f"the search itself, {found.actions}")  # fmt: skip
            _compare(results, name, found.actions, threads, numpy, Path(folder), effort)
    return results


def blas() -> str:
    """Return what BLAS NumPy has, and which of its kernels that chooses for this processor."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return "threadpoolctl, which would tell NumPy's BLAS, is not installed"
    found = (one for one in threadpool_info() if one["user_api"] == "blas")
    return ", ".join(f"{one['internal_api']} {one['version']} with kernels for {one['architecture']}" for one in found)


async def _found(benchmark: Benchmark, seconds: float, threads: int) -> aiocg.search.SearchResult:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make(f"loops-v0?threads={threads}", benchmark=benchmark)
        return await schedule(env, budget=Budget(seconds=seconds))


def _compare(
    results: Results, name: str, actions: tuple[str, ...], threads: int, numpy: NumPy, folder: Path, effort: Effort
) -> None:
    subject = SUBJECTS[name]
    LoopsSession.start({"threads": str(threads)})
    session = LoopsSession(LoopsSession.load_benchmark(subject.benchmark.content))
    for action in actions:
        session.apply_action(action)
    computation = session.schedule.computation
    ours = Ours(CpuTarget(threads), session.schedule)
    others: dict[str, Naive | Numba] = {"gcc -O3": Naive(computation, folder)}
    if find_spec("numba"):
        others["Numba"] = Numba(computation)
    seconds = effort.choose(SECONDS, 0.01)
    rounds = [
        (
            ours.seconds(seconds, 5),
            ours.processor_seconds(seconds, 5),
            *numpy.seconds(subject.numpy, computation.tensors, seconds, 5),
            *(one.processor_seconds(seconds, 3) for one in others.values()),
        )
        for _ in range(effort.choose(ROUNDS, 2))
    ]
    results.add(f"{name}: speed", [computation.flops / clock / 1e9 for clock, *_ in rounds], "GFLOP/s")
    results.add(f"{name}: to NumPy, by the clock", [other / clock for clock, _, other, *_ in rounds], "")
    least = Promise(subject.least, at_least=True)
    results.add(f"{name}: to NumPy, processor", [other / busy for _, busy, _, other, *_ in rounds], "", least)
    for at, other in enumerate(others, 4):
        naively = [one[at] / one[1] for one in rounds]
        results.add(f"{name}: to {other}, processor", naively, "", Promise(1.0, at_least=True))
