"""Generated loops beside copies, and beside NumPy."""

from collections.abc import Callable

from aiocg.transport import system
from aiocg.workers.loops.cpu import _jit as jit
from aiocg.workers.loops.cpu.target import CpuTarget
from bench.loops.schedules import ADD, COPY, products, rows_summed, softmax, streaming
from bench.loops.sides import NUMPY, NumPy, Ours, fastest
from bench.measure import Budget, Effort, Results

OF_COPY = Budget(0.9, at_least=True)
OF_BLAS = Budget(0.5, at_least=True)
GIGA = 1e9
UNROLLED = 4


async def measure(effort: Effort) -> Results:
    """Measure all; both sides take turns, and of each side's samples of a round the best counts."""
    results = Results()
    counts = sorted({1, len(system.processors())})
    targets = {count: CpuTarget(count) for count in counts}
    results.note(f"{targets[counts[-1]].description}. Of each round the best of several samples counts, on both sides.")
    _additions(results, targets, effort)
    for count, target in targets.items():
        with NumPy(count) as numpy:
            _products(results, target, numpy, effort)
            _beside(results, target, numpy, effort, "rows", effort.choose(4096, 1024), rows_summed)
            _beside(results, target, numpy, effort, "softmax", effort.choose(1024, 512), softmax)
    return results


def _additions(results: Results, targets: dict[int, CpuTarget], effort: Effort) -> None:
    """Adding beside copying, where all arrays together are equally large; each with as many threads as are best."""
    rounds = effort.choose(7, 3)
    for power in effort.choose(range(10, 27, 2), range(10, 23, 6)):
        size = 1 << power
        sides: dict[str, list[Ours]] = {}
        for name, text in (("add", ADD.format(size)), ("copy", COPY.format(size * 3 // 2))):
            sides[name] = [
                Ours(target, streaming(text, count, jit.vector_length(), UNROLLED), check=power < 24)
                for count, target in targets.items()
            ]
        rates: dict[str, list[float]] = {name: [] for name in sides}
        for turn in range(rounds):
            for name in reversed(sides) if turn % 2 else sides:
                fast = max(one.traffic / one.seconds(effort.choose(0.1, 0.03), 5) for one in sides[name])
                rates[name].append(fast / GIGA)
        ratios = [a / b for a, b in zip(rates["add"], rates["copy"], strict=True)]
        results.add(f"add, 2^{power}", rates["add"], "GB/s")
        results.add(f"add, 2^{power}: to copying", ratios, "", OF_COPY)


def _products(results: Results, target: CpuTarget, numpy: NumPy, effort: Effort) -> None:
    threads = f"{target.threads} thread{'s' * (target.threads > 1)}"
    for size in effort.choose((512, 1024), (256,)):
        candidates = list(products(size, target.threads, jit.vector_length()))
        name, ours = fastest(target, candidates[:: effort.choose(1, 8)], effort.choose(0.05, 0.02))
        results.note(f"matmul {size}, {threads}: the best of {len(candidates)} schedules is {name}")
        _compare(results, f"matmul {size}, {threads}", ours, numpy, "matmul", effort, OF_BLAS)


def _beside(
    results: Results, target: CpuTarget, numpy: NumPy, effort: Effort, kind: str, size: int, make: Callable[..., object]
) -> None:
    threads = f"{target.threads} thread{'s' * (target.threads > 1)}"
    ours = Ours(target, make(size, target.threads, jit.vector_length()))  # type: ignore[arg-type]
    _compare(results, f"{kind} {size}, {threads}", ours, numpy, kind, effort, None)


def _compare(
    results: Results, what: str, ours: Ours, numpy: NumPy, kind: str, effort: Effort, budget: Budget | None
) -> None:
    seconds, rounds = effort.choose(0.15, 0.03), effort.choose(7, 3)
    fast: list[float] = []
    ratios: list[float] = []
    for turn in range(rounds):
        if turn % 2:
            mine, (other, _) = ours.seconds(seconds, 5), numpy.seconds(NUMPY[kind], ours.tensors, seconds, 5)
        else:
            (other, _), mine = numpy.seconds(NUMPY[kind], ours.tensors, seconds, 5), ours.seconds(seconds, 5)
        fast.append(ours.flops / mine / GIGA)
        ratios.append(other / mine)
    results.add(what, fast, "GFLOP/s")
    results.add(f"{what}: to NumPy", ratios, "", budget)
