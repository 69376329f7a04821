"""Tests of measuring whole datasets: real programs, real workers, and programs that go wrong."""

import asyncio
import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiocg.datasets._files import FilesDataset
from aiocg.datasets.errors import DatasetError, IndexNotFound
from aiocg.datasets.generators.csmith import CsmithDataset
from aiocg.datasets.index import DatasetIndex, IndexRow
from aiocg.datasets.programs import ProgramsDataset
from aiocg.datasets.uri import BenchmarkUri
from aiocg.errors import WorkerStartError
from aiocg.fleet.restart_policy import Policy
from aiocg.programs.corpus import NOT_RUNNABLE, measure
from aiocg.runtime import Runtime

LOOP = "int f(int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }\n"


@pytest.fixture(autouse=True)
def own_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Indexes of its own for each test."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path / "site"))
    return tmp_path / "site"


@pytest.fixture
def mixed(tmp_path: Path) -> FilesDataset:
    """A folder with two equal programs, a damaged one, one that does not compile and one that is no IR."""
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "1_loop.c").write_text(LOOP)
    (folder / "2_same.c").write_text(LOOP)
    (folder / "3_wrong.c").write_text("int f(void) { return nowhere; }\n")
    (folder / "4_damaged.bc").write_bytes(b"BC\xc0\xde" + bytes(range(256)))
    (folder / "5_text.ll").write_text("this is no IR\n")
    (folder / "6_main.c").write_text("int main(void) { return 0; }\n")
    return FilesDataset("mixed-v0", folder)


@pytest.mark.slow
async def test_sizes_and_hashes_are_those_of_the_programs() -> None:
    dataset, rows = ProgramsDataset(), list[IndexRow]()
    async with Runtime(workers=1) as runtime:
        summary = await measure(dataset, runtime=runtime, limit=2, on_row=rows.append)
        assert (summary.measured, summary.skipped, dict(summary.statuses)) == (2, 0, {"ok": 2})
        stored = list(DatasetIndex.of(dataset).rows())
        assert sorted(rows, key=lambda row: row.position) == stored
        assert [row.position for row in stored] == [0, 1]
        async with await runtime.make("llvm-v0") as env:
            for row in stored:
                await env.reset(benchmark=row.uri)
                expected = await env.observe("IrSha1", "IrInstructionCountO0", "IrInstructionCountOz")
                assert expected == [row.ir_hash, row.instructions, row.instructions_oz]
                assert row.text_size is not None and row.text_size_oz is not None
                assert row.text_size > row.text_size_oz > 0
    again = await measure(dataset, limit=3, workers=1)
    assert (again.measured, again.skipped) == (1, 2)


@pytest.mark.slow
async def test_programs_that_fail_are_recorded_and_the_others_go_on(mixed: FilesDataset) -> None:
    summary = await measure(mixed, workers=1)
    rows = {row.uri.rpartition("/")[2]: row for row in DatasetIndex.of(mixed).rows()}
    assert rows["3_wrong.c"].status == "compilation"
    assert "nowhere" in rows["3_wrong.c"].detail
    assert rows["4_damaged.bc"].status in ("loading", "crash")
    assert rows["5_text.ll"].status == "loading"
    assert summary.statuses["ok"] == 3
    assert rows["1_loop.c"].ir_hash == rows["2_same.c"].ir_hash != rows["6_main.c"].ir_hash
    assert [str(one.uri).rpartition("/")[2] for one in mixed.select(unique=True)] == ["1_loop.c", "6_main.c"]
    assert (await measure(mixed, workers=1)).measured == 0
    Path(mixed.directory, "3_wrong.c").write_text("int g(void) { return 1; }\n")
    repaired = await measure(mixed, workers=1, again=True)
    assert repaired.measured == 3
    assert repaired.statuses["ok"] == 1


@pytest.mark.slow
async def test_programs_are_run_where_they_can_be(mixed: FilesDataset) -> None:
    dataset = ProgramsDataset()
    await measure(dataset, limit=2, workers=1)
    summary = await measure(dataset, limit=2, workers=1, run=True)
    assert (summary.measured, dict(summary.runs)) == (2, {"ok": 2})
    assert (await measure(dataset, limit=2, workers=1, run=True)).measured == 0
    assert (await measure(mixed[:1], workers=1, run=True)).runs == {NOT_RUNNABLE: 1}
    assert (await measure(mixed[:1], workers=1, run=True)).measured == 0


async def test_program_for_another_machine_has_no_object_code(tmp_path: Path) -> None:
    (tmp_path / "kernel.ll").write_text(
        'target triple = "nvptx64-nvidia-nvcl"\ndefine i32 @f(i32 %x) {\n  ret i32 %x\n}\n'
    )
    dataset = FilesDataset("kernels-v0", tmp_path, (".ll",))
    await measure(dataset, workers=1)
    (row,) = DatasetIndex.of(dataset).rows()
    assert (row.status, row.instructions, row.text_size) == ("ok", 1, None)
    assert "nvptx64" in row.detail


@pytest.mark.slow
async def test_view_is_measured_under_the_numbers_of_the_whole() -> None:
    dataset = ProgramsDataset()
    await measure(dataset[5:9][::-2], workers=1)
    assert [row.position for row in DatasetIndex.of(dataset).rows()] == [6, 8]
    assert [str(dataset.uri_at(row.position)) for row in DatasetIndex.of(dataset).rows()] == [
        row.uri for row in DatasetIndex.of(dataset).rows()
    ]


async def test_endless_dataset_needs_a_limit() -> None:
    with pytest.raises(DatasetError, match="has no end"):
        await measure(CsmithDataset())


@pytest.mark.slow
async def test_what_cannot_be_fetched_is_not_recorded(
    monkeypatch: pytest.MonkeyPatch, new_cache: Callable[[], Path]
) -> None:
    from aiocg.datasets.published import published_datasets

    monkeypatch.setenv("AIOCG_OFFLINE", "1")
    monkeypatch.setenv("AIOCG_CACHE", str(new_cache()))
    blas = next(one for one in published_datasets() if one.name == "chstone-v0")
    summary = await measure(blas, workers=1, limit=2)
    assert (summary.measured, summary.unavailable) == (0, 2)
    assert "AIOCG_OFFLINE" in summary.reason
    with pytest.raises(IndexNotFound):
        list(DatasetIndex.of(blas).rows())


class Repeating(ProgramsDataset):
    """A list of names that has one name several times, and takes so many seconds to be counted."""

    patience = 0.0

    @property
    def size(self) -> int:
        time.sleep(self.patience)
        return 4

    def uri_at(self, index: int) -> BenchmarkUri:
        return super().uri_at(index // 3)


@pytest.mark.slow
async def test_a_name_that_is_there_several_times_is_measured_under_each_number() -> None:
    summary = await measure(Repeating(), workers=2)
    rows = list(DatasetIndex.of(Repeating()).rows())
    assert (summary.measured, dict(summary.statuses)) == (4, {"ok": 4})
    assert [row.position for row in rows] == [0, 1, 2, 3]
    assert [row.uri.rpartition("/")[2] for row in rows] == ["adpcm", "adpcm", "adpcm", "aes"]


async def test_nothing_is_recorded_of_programs_for_which_there_is_no_worker() -> None:
    rows = list[IndexRow]()
    async with Runtime(workers=1, policy=Policy(first_delay=0.01, max_delay=0.02)) as runtime:

        def end_worker(row: IndexRow) -> None:
            rows.append(row)
            assert runtime.folder is not None
            if runtime.folder.is_dir():
                shutil.rmtree(runtime.folder, ignore_errors=True)
                runtime.folder.touch()  # in place of the folder, so that no worker can be started
            for process in runtime._supervisors[("llvm",)].processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)

        with pytest.raises(WorkerStartError, match="giving up"):
            await measure(ProgramsDataset(), runtime=runtime, on_row=end_worker)
        assert runtime.folder is not None
        runtime.folder.unlink()
    assert {row.status for row in rows} <= {"ok", "crash"}
    assert list(DatasetIndex.of(ProgramsDataset()).rows()) == sorted(rows, key=lambda row: row.position)


def _keep_writing(index: DatasetIndex) -> Iterator[None]:
    """Be another process that writes to an index until this is gone on with."""
    with contextlib.closing(sqlite3.connect(index.path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        yield


@pytest.mark.slow
async def test_the_loop_goes_on_while_a_dataset_is_measured() -> None:
    dataset, longest = Repeating(), 0.0
    second = dataset[1:2]
    dataset.patience = 3.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.01)
            longest = max(longest, time.monotonic() - before)

    async with Runtime(workers=1) as runtime, await runtime.make("llvm-v0", benchmark="programs-v0/aes"):
        watching = asyncio.create_task(watch())
        await asyncio.sleep(0.1)
        await measure(dataset, runtime=runtime, limit=1)
        writer = _keep_writing(DatasetIndex.of(dataset))
        next(writer)
        asyncio.get_running_loop().call_later(3.0, next, writer, None)
        await measure(second, runtime=runtime)
        watching.cancel()
    assert longest < 2.5  # on a busy machine, and not as long as either of these


@pytest.mark.slow
async def test_cancelling_keeps_what_was_measured() -> None:
    dataset, enough = ProgramsDataset(), asyncio.Event()
    done = list[IndexRow]()

    def note(row: IndexRow) -> None:
        done.append(row)
        if len(done) == 3:
            enough.set()

    task = asyncio.create_task(measure(dataset, workers=1, on_row=note))
    await enough.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    stored = len(list(DatasetIndex.of(dataset).rows()))
    assert stored == len(done)
    assert (await measure(dataset, limit=stored + 1, workers=1)).skipped >= 3


SCRIPT = """
import asyncio, sys
from aiocg.programs.corpus import measure
from aiocg.datasets.programs import ProgramsDataset
asyncio.run(measure(ProgramsDataset(), workers=1, on_row=lambda row: print(row.uri, flush=True)))
"""


@pytest.mark.sampled
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
async def test_signal_leaves_an_index_to_go_on_with(number: signal.Signals, own_site: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-P", "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "AIOCG_SITE_DATA": str(own_site)},
    ) as process:
        assert process.stdout is not None
        for _ in range(3):
            assert process.stdout.readline()
        process.send_signal(number)
        process.stdout.read()
    index = DatasetIndex.of(ProgramsDataset())
    stored = len(index.recorded("LLVM 22.1.8")) if index.exists else 0
    assert number == signal.SIGKILL or stored >= 3
    summary = await measure(ProgramsDataset()[:5], workers=1)
    assert summary.measured + summary.skipped == 5
