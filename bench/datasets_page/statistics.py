"""Statistics of a dataset, from its index.

SQLite sorts and counts, so that memory does not depend on the number of programs.
"""

import bisect
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping

from aiocg.datasets.index import DatasetIndex
from aiocg.programs.corpus import NOT_RUNNABLE

PERCENTILES = (5, 25, 50, 75, 95)

RATIO_STEP = 0.1
"""The width of a bin of the ratio."""


@dataclasses.dataclass(frozen=True, slots=True)
class Bin:
    """One bar of a histogram: the number of programs from the lower bound on, and below the upper one."""

    low: float
    high: float
    count: int


@dataclasses.dataclass(frozen=True, slots=True)
class Distribution:
    """The distribution of a number over programs.

    Attributes:
        percentiles: for each p of `PERCENTILES`, the least value that p % of the programs do not exceed.
        histogram: contiguous bins from the least value to the greatest.
    """

    count: int
    minimum: float
    maximum: float
    mean: float
    percentiles: Mapping[int, float]
    histogram: tuple[Bin, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the measured programs of a dataset.

    Attributes:
        dataset: its name.
        llvm: the version of LLVM.
        programs: number of measured programs.
        statuses: their number by status, see `IndexRow`, most frequent first.
        duplicates: number of programs with the same code as an earlier one.
        runs: number of programs by result of running: "ok", "failed" or "not runnable".
        instructions: IR instructions; None, like the others, when no program could be measured.
        instructions_oz: IR instructions after `-Oz`.
        text_size: bytes of code.
        text_size_oz: bytes of code after `-Oz`.
        ratio: instructions after `-Oz`, divided by those before.
    """

    dataset: str
    llvm: str
    programs: int
    statuses: Mapping[str, int]
    duplicates: int
    runs: Mapping[str, int]
    instructions: Distribution | None
    instructions_oz: Distribution | None
    text_size: Distribution | None
    text_size_oz: Distribution | None
    ratio: Distribution | None


def statistics_of(index: DatasetIndex, llvm: str = "") -> Statistics:
    """Return the statistics of an index.

    Args:
        index: such as `DatasetIndex.of(dataset)`.
        llvm: the version of LLVM, by default the one with the most programs.

    Raises:
        IndexNotFound: when nothing has been measured.
        DatasetError: when the index cannot be read.
    """
    version = llvm or next(iter(index.versions()), "")
    status = "SELECT status, count(*) FROM programs WHERE llvm = :llvm GROUP BY status ORDER BY 2 DESC, 1"
    statuses = dict(index.query(status, version))
    duplicates = "SELECT count(*) - count(DISTINCT ir_hash) FROM programs WHERE llvm = :llvm AND status = 'ok'"
    outcome = f"CASE WHEN run IN ('ok', '{NOT_RUNNABLE}') THEN run ELSE 'failed' END"
    runs = f"SELECT {outcome}, count(*) FROM programs WHERE llvm = :llvm AND run != '' GROUP BY 1 ORDER BY 2 DESC, 1"
    return Statistics(
        dataset=index.dataset,
        llvm=version,
        programs=sum(statuses.values()),
        statuses=statuses,
        duplicates=next(index.query(duplicates, version))[0],
        runs=dict(index.query(runs, version)),
        instructions=_distribution(index, version, "instructions"),
        instructions_oz=_distribution(index, version, "instructions_oz"),
        text_size=_distribution(index, version, "text_size"),
        text_size_oz=_distribution(index, version, "text_size_oz"),
        ratio=_distribution(index, version, "1.0 * instructions_oz / nullif(instructions, 0)", RATIO_STEP),
    )


def _distribution(index: DatasetIndex, llvm: str, value: str, step: float = 0.0) -> Distribution | None:
    """Return the distribution of values, given in ascending order with the number of programs of each."""
    found = f"FROM programs WHERE llvm = :llvm AND status = 'ok' AND ({value}) IS NOT NULL"
    summary = f"SELECT count(*), min({value}), max({value}), avg({value}) {found}"
    count, minimum, maximum, mean = next(index.query(summary, llvm))
    if not count:
        return None
    edges = _linear(minimum, maximum, step) if step else _decimal(minimum, maximum)
    ranks = [-(-percent * count // 100) for percent in PERCENTILES]  # rounded up
    percentiles: list[float] = []
    counts, seen = [0] * (len(edges) - 1), 0
    for one, programs in index.query(f"SELECT {value}, count(*) {found} GROUP BY 1 ORDER BY 1", llvm):
        counts[bisect.bisect_right(edges, one) - 1] += programs
        seen += programs
        while len(percentiles) < len(ranks) and ranks[len(percentiles)] <= seen:
            percentiles.append(one)
    bins = (Bin(low, high, number) for (low, high), number in zip(itertools.pairwise(edges), counts, strict=True))
    return Distribution(count, minimum, maximum, mean, dict(zip(PERCENTILES, percentiles, strict=True)), tuple(bins))


def _decimal(minimum: float, maximum: float) -> list[float]:
    """Return the edges of bins around the values, in the ratios of 1, 2, 5 and 10."""
    return _around(minimum, maximum, itertools.chain([0], _one_two_five()))


def _one_two_five() -> Iterator[int]:
    return (digit * 10**power for power in itertools.count() for digit in (1, 2, 5))


def _linear(minimum: float, maximum: float, step: float) -> list[float]:
    """Return the edges of bins around the values, all of one width."""
    return _around(minimum, maximum, (round(number * step, 9) for number in itertools.count()))


def _around(minimum: float, maximum: float, edges: Iterable[float]) -> list[float]:
    found: list[float] = []
    for edge in edges:
        if edge <= minimum:
            found = [edge]
        else:
            found.append(edge)
        if edge > maximum:
            return found
    raise AssertionError("the edges have an end")
