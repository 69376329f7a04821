"""What the search `schedule` finds for a GPU by itself, beside NVIDIA's libraries and copies.

PyTorch calls cuBLAS and cuDNN, with TF32 where schedules may use tensor cores, and without it elsewhere. Both sides are
recorded as CUDA graphs of many runs, so that launches cost nothing on either, and take turns.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

import aiocg
from aiocg.loops import make_benchmark
from aiocg.search import Budget, SearchResult, schedule
from aiocg.workers.loops._language import parse
from aiocg.workers.loops._reference import random_inputs
from aiocg.workers.loops._schedule import Schedule, arrange, read_layouts
from aiocg.workers.loops._target import Target
from aiocg.workers.loops._targets import PRECISIONS, open_target
from bench.measure import Budget as Promise
from bench.measure import Effort, Results

ROUNDS, RUNS = 7, 10
PRODUCT = "C[i:{0}, j:{0}] = sum(k:{0}) A[i, k] * B[k, j]"
SOFTMAX = """
    M[i:4096] = max(j:4096) X[i, j]
    E[i:4096, j:4096] = exp(X[i, j] - M[i])
    S[i:4096] = sum(j:4096) E[i, j]
    Y[i:4096, j:4096] = E[i, j] / S[i]
"""


class Subject(NamedTuple):
    """A computation to search a schedule for.

    Attributes:
        text: the expression.
        library: makes the other side from PyTorch and the inputs' tensors: what is called again and again. None for a
            copy of as many bytes.
        least: how many times as fast as that the schedule should be.
        precision: of products, on both sides.
    """

    text: str
    library: Callable[[Any, Sequence[Any]], object] | None
    least: float
    precision: str = "float32"


def _product(torch: Any, tensors: Sequence[Any]) -> object:
    return torch.matmul(*tensors)


def _filtered(torch: Any, tensors: Sequence[Any]) -> object:
    return torch.nn.functional.conv2d(tensors[0][None], tensors[1])


BATCH = "C[b:16, i:{0}, j:{0}] = sum(k:{0}) A[b, i, k] * B[b, k, j]"
FILTERS = "Y[o:64, y:56, x:56] = sum(c:64, r:3, s:3) X[c, y + r, x + s] * W[o, c, r, s]"
SUBJECTS = {
    **{f"matmul {size}": Subject(PRODUCT.format(size), _product, 0.7) for size in (512, 1000, 1024, 2048, 4096)},
    "A times B transposed, 1024": Subject(
        "C[i:1024, j:1024] = sum(k:1024) A[i, k] * B[j, k]", lambda torch, both: torch.matmul(both[0], both[1].T), 0.7
    ),
    "16 matmuls of 128": Subject(BATCH.format(128), _product, 0.7),
    "conv2d, 64 channels": Subject(FILTERS, _filtered, 0.7),
    **{
        f"TF32: matmul {size}": Subject(PRODUCT.format(size), _product, 0.3, "tf32")
        for size in (1000, 1024, 2048, 4096)
    },
    "TF32: 16 matmuls of 512": Subject(BATCH.format(512), _product, 0.3, "tf32"),
    "TF32: conv2d, 64 channels": Subject(FILTERS, _filtered, 0.3, "tf32"),
    "add, 2^26": Subject("C[i:67108864] = A[i] + B[i]", None, 0.9),
    "transpose, 8192²": Subject("B[i:8192, j:8192] = A[j, i]", None, 0.9),
    "rows summed, 8192²": Subject("R[i:8192] = sum(j:8192) X[i, j]", None, 0.9),
    "columns summed, 8192²": Subject("R[j:8192] = sum(i:8192) X[i, j]", None, 0.9),
    "softmax, 4096²": Subject(SOFTMAX, lambda torch, one: torch.softmax(one[0], 1), 0.5),
}


def measure_cuda(effort: Effort, seconds: float, names: Sequence[str]) -> Results:
    """Search a schedule for each subject, and measure it in turns with a library.

    Args:
        effort: how often to measure.
        seconds: of each search.
        names: of subjects; all if there are none.

    Raises:
        ImportError: without PyTorch.
        CompilationError: without a GPU, saying what is missing.
    """
    import torch  # the other side; not among our extras, since its wheel for GPUs has gigabytes

    torch.backends.cudnn.benchmark = True
    results, targets = Results(), {name: open_target("cuda", {"precision": name}) for name in PRECISIONS}
    results.note(f"{targets[PRECISIONS[0]].description}; PyTorch {torch.__version__}; {seconds:g} s for each search")
    for name in names or SUBJECTS:
        subject = SUBJECTS[name]
        narrow = subject.precision == "tf32"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = narrow
        found = asyncio.run(_found(subject, seconds))
        results.note(f"{name}: {found.evaluations} schedules, {found.actions}")
        _compare(results, name, subject, found.actions, targets[subject.precision], torch, effort)
    return results


async def _found(subject: Subject, seconds: float) -> SearchResult:
    async with aiocg.Runtime(workers=1) as runtime:
        env = await runtime.make(
            "loops-v0",
            target="cuda",
            precision=subject.precision,
            benchmark=make_benchmark(subject.text),
            reward_space="roof_fraction",
        )
        return await schedule(env, budget=Budget(seconds=seconds))


def _compare(
    results: Results, name: str, subject: Subject, actions: tuple[str, ...], target: Target, torch: Any,
    effort: Effort,
) -> None:  # fmt: skip
    computation = parse(subject.text)
    layouts = read_layouts(actions[0]) if actions else None
    first = replace(Schedule.of(computation, "cuda"), rules=target.rules)
    ours = first if layouts is None else arrange(first, layouts)
    inputs = random_inputs(computation, seed=1)
    arrays = [*inputs, *(np.zeros(stage.result.shape, np.float32) for stage in computation.stages)]
    kernel = target.compile(computation, ours.nests)
    if subject.library is None:
        source = torch.rand(computation.traffic // 8, device="cuda")
        to = torch.empty_like(source)
        other, called = _graph(torch, lambda: to.copy_(source)), "a copy"
    else:
        library, tensors = subject.library, [torch.from_numpy(array).cuda() for array in inputs]
        other, called = _graph(torch, lambda: library(torch, tensors)), "PyTorch"
    clocks = [
        (kernel.time(arrays, samples=3, seconds=0.05).seconds, _seconds(torch, other))
        for _ in range(effort.choose(ROUNDS, 2))
    ]
    if computation.flops:
        results.add(f"{name}: speed", [computation.flops / mine / 1e12 for mine, _ in clocks], "TFLOP/s")
    else:
        results.add(f"{name}: bandwidth", [computation.traffic / mine / 1e9 for mine, _ in clocks], "GB/s")
    results.add(f"{name}: to {called}", [theirs / mine for mine, theirs in clocks], "",
                Promise(subject.least, at_least=True))  # fmt: skip


def _graph(torch: Any, call: Callable[[], object]) -> Any:
    """Record a number of calls."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(5):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS):
            call()
    return graph


def _seconds(torch: Any, graph: Any) -> float:
    """Return the median of the seconds that one of the calls takes."""
    times = []
    for _ in range(5):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end) / 1000 / RUNS)
    return float(np.median(times))
