"""Tests of what is kept of measured programs: real files, real SQLite."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from aiocg.datasets.errors import DatasetError, IndexNotFound
from aiocg.datasets.index import COLUMNS, DatasetIndex, IndexRow
from aiocg.datasets.programs import ProgramsDataset

LLVM = "22.1.8"


@pytest.fixture
def index(tmp_path: Path) -> DatasetIndex:
    return DatasetIndex(tmp_path / "folder" / "things-v0.sqlite", "things-v0")


def row(position: int, instructions: int | None = 10, **others: object) -> IndexRow:
    return IndexRow(f"things-v0/{position}", position, LLVM, instructions=instructions, **others)  # type: ignore[arg-type]


def test_rows_come_back_in_the_order_of_the_dataset(index: DatasetIndex) -> None:
    rows = [row(number, 100 - number, ir_hash=f"{number}", detail="ünï\n'\"") for number in (3, 1, 2)]
    assert not index.exists
    index.record(rows)
    assert index.exists
    assert list(index.rows()) == sorted(rows, key=lambda one: one.position)
    assert list(index.recorded(LLVM)) == [1, 2, 3]
    assert list(index.recorded(LLVM, "instructions < 99")) == [2, 3]
    assert index.versions() == {LLVM: 3}


def test_row_is_replaced(index: DatasetIndex) -> None:
    index.record([row(0, None, status="crash", detail="signal 11")])
    index.record([row(0, 7)])
    assert list(index.rows()) == [row(0, 7)]


def test_versions_of_llvm_are_kept_apart(index: DatasetIndex) -> None:
    older = IndexRow("things-v0/0", 0, "19.1.7", instructions=5)
    index.record([older, row(0, 6), row(1, 7)])
    assert [one.instructions for one in index.rows()] == [6, 7]
    assert list(index.rows(llvm="19.1.7")) == [older]
    assert list(index.versions()) == [LLVM, "19.1.7"]
    assert list(index.rows(llvm="9.9.9")) == []


def test_positions_by_size_and_hash_and_expression(index: DatasetIndex) -> None:
    index.record(
        [
            row(0, 499, ir_hash="a"),
            row(1, 500, ir_hash="b", instructions_oz=100),
            row(2, 5000, ir_hash="b", instructions_oz=4000),
            row(3, 5001, ir_hash="a"),
            row(4, None, status="compilation", detail="no such header"),
        ]
    )
    assert list(index.positions()) == [0, 1, 2, 3]
    assert list(index.positions((500, 5000))) == [1, 2]
    assert list(index.positions((None, 499))) == [0]
    assert list(index.positions((5001, None))) == [3]
    assert list(index.positions(unique=True)) == [0, 1]
    assert list(index.positions((5000, 5000), unique=True)) == []  # the first with this code is another one
    assert list(index.positions(where="instructions_oz < 0.5 * instructions")) == [1]
    assert list(index.positions(where="ir_hash = 'a' OR ir_hash = 'b' -- both")) == [0, 1, 2, 3]
    assert [one.position for one in index.rows("status != 'ok'")] == [4]


@pytest.mark.parametrize(
    "where",
    [
        "nonsense = 1",
        "instructions >",
        "1; DROP TABLE programs",
        "1); DROP TABLE programs; SELECT (1",
        "instructions) OR (1",
        "1 THEN 1 END, CASE WHEN 1",
        "'",
        "no_function(1)",
        "count(*) > 1",
        ":x > 3",
        "?",
        "a\0b",
    ],
)
def test_wrong_expression_says_what_there_is(index: DatasetIndex, where: str) -> None:
    index.record([row(0)])
    for use in (index.rows, lambda where: index.positions(where=where), lambda where: index.recorded(LLVM, where)):
        with pytest.raises(DatasetError, match=r"SQL expression over uri, position, llvm, status") as caught:
            list(use(where))
        assert str(caught.value).startswith(repr(where))
    assert list(index.rows()) == [row(0)]


def test_what_was_never_measured_names_the_command(index: DatasetIndex) -> None:
    assert list(index.recorded(LLVM)) == []
    assert index.versions() == {}
    with pytest.raises(IndexNotFound, match=r"aiocg dataset index things-v0"):
        index.positions()
    with pytest.raises(IndexNotFound):
        ProgramsDataset().select((1, 2))


def test_writer_killed_before_the_first_row_has_measured_nothing(index: DatasetIndex) -> None:
    index.path.parent.mkdir()
    index.path.touch()
    assert (index.exists, index.versions(), list(index.recorded(LLVM))) == (False, {}, [])
    with pytest.raises(IndexNotFound):
        index.positions()
    index.record([row(0)])
    assert list(index.rows()) == [row(0)]


def test_failure_while_recording_keeps_nothing_of_it(index: DatasetIndex) -> None:
    index.record([row(0)])
    with pytest.raises((DatasetError, ValueError, TypeError)):
        index.record([row(1), row(2, object())])  # type: ignore[arg-type]
    assert list(index.rows()) == [row(0)]


@pytest.mark.parametrize("content", [b"this is no database at all, and long enough to tell" * 20, b"SQLite format 3\0"])
def test_damaged_file_is_named(index: DatasetIndex, content: bytes) -> None:
    index.path.parent.mkdir()
    index.path.write_bytes(content)
    with pytest.raises(DatasetError, match=r"things-v0\.sqlite"):
        list(index.rows())


def test_later_format_is_refused(index: DatasetIndex) -> None:
    import sqlite3

    index.record([row(0)])
    connection = sqlite3.connect(index.path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(DatasetError, match="later version"):
        index.record([row(1)])


def test_selection_is_a_view(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path))
    dataset = ProgramsDataset()
    uris = [str(uri) for uri in dataset.benchmark_uris()]
    index = DatasetIndex.of(dataset)
    index.record(IndexRow(uri, place, LLVM, instructions=place, ir_hash=uri) for place, uri in enumerate(uris))
    assert [str(one.uri) for one in dataset.select((3, 5))] == uris[3:6]
    assert [str(one.uri) for one in dataset[2:10].select((3, 5))] == uris[3:6]
    assert len(dataset.select((3, 5))[1:]) == 2


def test_killed_writer_loses_only_what_it_had_not_recorded(index: DatasetIndex) -> None:
    script = (
        "import sys, itertools; from pathlib import Path\n"
        "from aiocg.datasets.index import DatasetIndex, IndexRow\n"
        "index = DatasetIndex(Path(sys.argv[1]), 'things-v0')\n"
        "for n in itertools.count():\n"
        "    index.record(IndexRow(f'things-v0/{n}/{k}', 2 * n + k, '22.1.8', instructions=n) for k in (0, 1))\n"
        "    print(n, flush=True)\n"
    )
    command = [sys.executable, "-P", "-c", script, str(index.path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        for _ in range(20):
            last = int(writer.stdout.readline())
        os.kill(writer.pid, signal.SIGKILL)
    rows = list(index.rows())
    assert len(rows) >= 2 * (last + 1)
    assert len(rows) % 2 == 0  # each record whole or not at all
    index.record([row(10**6)])
    assert len(list(index.rows())) == len(rows) + 1


@pytest.mark.slow
def test_processes_write_at_once(index: DatasetIndex) -> None:
    script = (
        "import sys; from pathlib import Path\n"
        "from aiocg.datasets.index import DatasetIndex, IndexRow\n"
        "index, first = DatasetIndex(Path(sys.argv[1]), 'things-v0'), int(sys.argv[2])\n"
        "for n in range(first, first + 20):\n"
        "    index.record([IndexRow(f'things-v0/{n}', n, '22.1.8')])\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-P", "-c", script, str(index.path), str(first)]) for first in (0, 20, 40)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(index.recorded(LLVM)) == 60


@pytest.mark.every_case
@pytest.mark.slow
def test_many_rows(index: DatasetIndex) -> None:
    started = time.monotonic()
    for start in range(0, 200_000, 50_000):
        index.record(row(n, n % 10_000, ir_hash=str(n % 180_000)) for n in range(start, start + 50_000))
    recorded = time.monotonic() - started
    assert len(index.positions((500, 5000))) == 90_020
    assert len(index.positions(unique=True)) == 180_000
    print(f"recorded in {recorded:.1f} s, {index.path.stat().st_size / 1e6:.0f} MB")


def test_columns_are_those_of_a_row() -> None:
    assert COLUMNS[:4] == ("uri", "position", "llvm", "status")


CUT_SHORT = """
import os, signal, sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA cache_size = 2")  # so that the file is changed before the transaction is over
connection.execute("UPDATE programs SET detail = 'changed' || detail")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_reading_undoes_what_a_killed_writer_has_begun(index: DatasetIndex) -> None:
    rows = [row(number, detail="x" * 500) for number in range(500)]
    index.record(rows)
    subprocess.run([sys.executable, "-c", CUT_SHORT, str(index.path)])
    assert index.path.with_name(f"{index.path.name}-journal").stat().st_size
    assert list(index.rows()) == rows


def test_a_query_changes_nothing(index: DatasetIndex) -> None:
    index.record([row(0)])
    with pytest.raises(DatasetError, match="readonly"):
        list(index.query("DELETE FROM programs"))
    assert list(index.rows()) == [row(0)]


def test_an_index_is_not_to_be_removed_for_what_it_was_asked(index: DatasetIndex) -> None:
    index.record([row(0)])
    for wrong in ("randomblob(1 << 40)", "abs(-9223372036854775808)"):
        with pytest.raises(DatasetError) as caught:
            list(index.rows(wrong))
        assert "remove it" not in str(caught.value)


def test_bytes_of_a_name_that_is_no_text_are_spelt_out(index: DatasetIndex) -> None:
    index.record([row(0, detail="/home/\udcff.c: no such header")])
    assert [one.detail for one in index.rows()] == ["/home/\\udcff.c: no such header"]
