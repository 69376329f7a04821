"""Computations, and schedules for them: written as the steps that an agent takes, so that each can be reached."""

from collections.abc import Iterator

from aiocg.workers.loops._language import parse
from aiocg.workers.loops._nest import Refusal
from aiocg.workers.loops._schedule import Schedule, Step

ADD = "C[i:{0}] = A[i] + B[i]"
COPY = "B[i:{0}] = A[i]"
MATMUL = "C[i:{0}, j:{0}] = sum(k:{0}) A[i, k] * B[k, j]"
ROWS = "R[i:{0}] = sum(j:{0}) X[i, j]"
SOFTMAX = """
    M[i:{0}] = max(j:{0}) X[i, j]
    E[i:{0}, j:{0}] = exp(X[i, j] - M[i])
    S[i:{0}] = sum(j:{0}) E[i, j]
    Y[i:{0}, j:{0}] = E[i, j] / S[i]
"""


def applied(text: str, *steps: str) -> Schedule:
    """Return what steps make of a computation's first schedule.

    Raises:
        Refusal: if one of them is not legal.
    """
    schedule = Schedule.of(parse(text), "cpu")
    for step in " ".join(steps).split():
        schedule = schedule.apply(Step.parse(step))
    return schedule


def streaming(text: str, threads: int, vector: int, unrolled: int) -> Schedule:
    """Schedule a computation of one axis and no reduction: a part for each thread, by unrolled vectors."""
    extent = Schedule.of(parse(text), "cpu").nests[0].loops[0].extent
    steps, inner = [], 0
    if threads > 1:
        steps += [f"split<loop=0;factor={-(-extent // threads)}>", "parallel<loop=0>"]
        inner = 1
    steps += [f"split<loop={inner};factor={vector * unrolled}>", f"split<loop={inner + 1};factor={vector}>"]
    steps += [f"vectorize<loop={inner + 2}>", f"unroll<loop={inner + 1}>"]
    return applied(text, *steps)


def products(size: int, threads: int, vector: int) -> Iterator[tuple[str, Schedule]]:
    """Yield schedules of a product of matrices with their names: tiles that fit registers, in two orders, with and
    without a block of what is summed over, for which parts of B stay in a cache."""
    for rows, vectors, block, outer in (
        (rows, vectors, block, outer)
        for rows, vectors in ((8, 1), (12, 1), (16, 1), (6, 2), (8, 2), (12, 2), (4, 4), (6, 4))
        for block in (0, 64, 128, 256)
        for outer in "ij"
    ):
        try:
            yield (
                f"{rows}x{vectors * vector}, block {block}, {outer} outermost",
                _product(size, threads, rows, vectors * vector, block, outer),
            )
        except Refusal:
            continue


def _product(size: int, threads: int, rows: int, columns: int, block: int, outer: str) -> Schedule:
    """Schedule a product: io jo k ii ji, or jo io k ii ji; with a block ko between the first two loops."""
    steps = [f"split<loop=0;factor={rows}>", f"split<loop=2;factor={columns}>"]  # io ii jo ji k
    steps += ["reorder<loop=1>", "reorder<loop=3>", "reorder<loop=2>"]  # io jo k ii ji
    if outer == "j":
        steps += ["reorder<loop=0>"]
    if block and block < size:
        steps += [f"split<loop=2;factor={block}>", "reorder<loop=1>"]  # io ko jo ki ii ji
    last = 5 if block and block < size else 4
    steps += [f"vectorize<loop={last}>", f"unroll<loop={last - 1}>"]
    if threads > 1:
        steps += ["parallel<loop=0>"]
    return applied(MATMUL.format(size), *steps)


def rows_summed(size: int, threads: int, vector: int) -> Schedule:
    """Schedule the sums of rows: several vectors at once, added at the end."""
    parallel = ["parallel<loop=0>"] if threads > 1 else []
    return applied(
        ROWS.format(size), f"split<loop=1;factor={8 * vector}>", f"split<loop=2;factor={vector}>", "vectorize<loop=3>",
        "unroll<loop=2>", *parallel,
    )  # fmt: skip


def softmax(size: int, threads: int, vector: int) -> Schedule:
    """Schedule softmax of rows: vectors in each stage."""
    steps = []
    for stage in range(4):
        first = 3 * stage  # the earlier stages have three loops each by now
        reduced = stage in (0, 2)
        steps += [f"split<loop={first + 1};factor={4 * vector if reduced else vector}>", f"vectorize<loop={first + 2}>"]
        if threads > 1:
            steps += [f"parallel<loop={first}>"]
    return applied(SOFTMAX.format(size), *steps)
