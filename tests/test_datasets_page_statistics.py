"""Tests of the statistics of indexes, against numbers that Python computes."""

import random
import statistics
from pathlib import Path

import pytest

from aiocg.datasets.errors import IndexNotFound
from aiocg.datasets.index import DatasetIndex, IndexRow
from aiocg.programs.corpus import NOT_RUNNABLE
from bench.datasets_page.statistics import PERCENTILES, Bin, statistics_of


@pytest.fixture
def index(tmp_path: Path) -> DatasetIndex:
    """An index without rows."""
    return DatasetIndex(tmp_path / "some-v0.sqlite", "some-v0")


def _row(number: int, instructions: int, oz: int, **others: str) -> IndexRow:
    values = {"llvm": "22", "ir_hash": f"hash {number}", **others}
    uri = f"benchmark://some-v0/{number}"
    return IndexRow(
        uri,
        number,
        instructions=instructions,
        instructions_oz=oz,
        text_size=8 * instructions,
        text_size_oz=oz,
        **values,
    )


def test_numbers_are_those_of_the_rows(index: DatasetIndex) -> None:
    rng = random.Random(0)
    sizes = [int(rng.lognormvariate(6, 2)) + 1 for _ in range(1000)]
    ratios = [rng.uniform(0.2, 1.1) for _ in sizes]
    index.record(_row(n, size, int(size * ratio)) for n, (size, ratio) in enumerate(zip(sizes, ratios, strict=True)))
    found = statistics_of(index)
    assert (found.dataset, found.llvm, found.programs, found.duplicates) == ("some-v0", "22", 1000, 0)
    assert found.instructions is not None and found.text_size is not None and found.ratio is not None
    assert (found.instructions.minimum, found.instructions.maximum) == (min(sizes), max(sizes))
    assert found.instructions.mean == pytest.approx(statistics.fmean(sizes))
    ordered = sorted(sizes)
    assert found.instructions.percentiles == {percent: ordered[10 * percent - 1] for percent in PERCENTILES}
    assert found.text_size.percentiles[50] == 8 * ordered[499]
    expected = sorted(int(size * ratio) / size for size, ratio in zip(sizes, ratios, strict=True))
    assert found.ratio.percentiles[95] == expected[949]
    for distribution, values in ((found.instructions, sizes), (found.ratio, expected)):
        assert sum(bar.count for bar in distribution.histogram) == distribution.count == 1000
        for before, after in zip(distribution.histogram, distribution.histogram[1:], strict=False):
            assert before.high == after.low
        for bar in distribution.histogram:
            assert bar.count == sum(bar.low <= value < bar.high for value in values)
        assert distribution.histogram[0].count and distribution.histogram[-1].count


def test_edges_of_bins_belong_to_the_bin_above(index: DatasetIndex) -> None:
    index.record([_row(0, 10, 0), _row(1, 19, 0), _row(2, 20, 2)])
    found = statistics_of(index)
    assert found.instructions is not None and found.instructions_oz is not None and found.ratio is not None
    assert found.instructions.histogram == (Bin(10, 20, 2), Bin(20, 50, 1))
    assert found.instructions_oz.histogram == (Bin(0, 1, 2), Bin(1, 2, 0), Bin(2, 5, 1))
    assert found.ratio.histogram == (Bin(0.0, 0.1, 2), Bin(0.1, 0.2, 1))


def test_failures_duplicates_and_runs_are_counted_and_failures_not_measured(index: DatasetIndex) -> None:
    failed = [
        IndexRow(f"benchmark://some-v0/{n}", n, "22", status, "why") for n, status in ((7, "crash"), (8, "crash"))
    ]
    index.record(
        [
            _row(0, 5, 5, ir_hash="same", run="ok"),
            _row(1, 5, 5, ir_hash="same", run="the output differs"),
            _row(2, 5, 5, ir_hash="same", run=NOT_RUNNABLE),
            _row(3, 0, 0, ir_hash="empty"),
            *failed,
        ]
    )
    found = statistics_of(index)
    assert (found.programs, found.statuses, found.duplicates) == (6, {"ok": 4, "crash": 2}, 2)
    assert found.runs == {"failed": 1, "not runnable": 1, "ok": 1}
    assert found.instructions is not None and found.instructions.count == 4
    assert found.ratio is not None and found.ratio.count == 3  # an empty program has none


def test_version_with_most_programs_is_taken_if_none_is_named(index: DatasetIndex) -> None:
    index.record([_row(0, 5, 5), _row(1, 5, 5), _row(0, 9, 9, llvm="23")])
    assert statistics_of(index).programs == 2
    newer = statistics_of(index, "23")
    assert newer.instructions is not None and (newer.programs, newer.instructions.maximum) == (1, 9)


def test_without_a_measured_program_there_are_no_distributions(index: DatasetIndex) -> None:
    with pytest.raises(IndexNotFound, match="aiocg dataset index some-v0"):
        statistics_of(index)
    index.record([IndexRow("benchmark://some-v0/0", 0, "22", "crash")])
    found = statistics_of(index)
    assert (found.programs, found.instructions, found.ratio) == (1, None, None)
