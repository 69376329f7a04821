"""Measuring whole datasets in parallel, into the index of the dataset; it can be interrupted and continued.

summary = await aiocg.programs.corpus.measure(datasets["sdist-v0"], limit=500)
dataset.select(instructions=(500, 5000), unique=True)
"""

import contextlib
import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from aiocg.datasets._index_views import index_of
from aiocg.datasets._named_set import PROGRAM
from aiocg.datasets.benchmark import Benchmark
from aiocg.datasets.dataset import Dataset, DatasetView
from aiocg.datasets.errors import CacheError, DatasetError, DownloadError, InstallError
from aiocg.datasets.index import DatasetIndex, IndexRow
from aiocg.datasets.progress import Advance, progress
from aiocg.datasets.uri import BenchmarkUri
from aiocg.env.preparation import prepare
from aiocg.errors import DeadlineExceeded, ObservationFailed, ServiceError, WorkerCrashed, WorkerStartError
from aiocg.host.threads import in_thread
from aiocg.programs.prefetching import Prefetch, prefetch
from aiocg.runtime import Runtime
from aiocg.search.lanes import spread
from aiocg.transport.system import processors

if TYPE_CHECKING:
    from aiocg.env.env import Env

__all__ = ["NOT_RUNNABLE", "Summary", "measure"]

ENVIRONMENT = "llvm-v0"
"""The environment in which programs are measured."""

OBSERVED = ("IrSha1", "IrInstructionCount", "IrInstructionCountOz")
SIZES = ("ObjectTextSizeBytes", "ObjectTextSizeOz")
LEVEL = "Oz"  # what is applied before a program is run and compared with itself

NOT_RUNNABLE = "not runnable"
"""`IndexRow.run` of a program without runs."""

TIMEOUT = 120.0  # seconds for measuring one program
IN_FLIGHT = 2  # programs at once for each worker
INTERVAL = 1.0  # seconds after which measurements are recorded at the latest
BATCH = 200  # measurements after which they are

_DONE = "status != 'ok' OR run != ''"  # what is not to be measured again when programs are run, too


@dataclasses.dataclass(slots=True)
class Summary:
    """The result of measuring a dataset.

    Attributes:
        llvm: the version of LLVM.
        skipped: number of programs measured before.
        measured: number of programs measured now.
        statuses: their number by status, see `IndexRow`.
        runs: the number of programs by result of running.
        unavailable: number of programs that could not be fetched; they are not in the index.
        reason: why the first of them could not be fetched.
        seconds: the time it took.
    """

    llvm: str = ""
    skipped: int = 0
    measured: int = 0
    statuses: Counter[str] = dataclasses.field(default_factory=Counter)
    runs: Counter[str] = dataclasses.field(default_factory=Counter)
    unavailable: int = 0
    reason: str = ""
    seconds: float = 0.0


async def measure(
    dataset: Dataset,
    *,
    runtime: Runtime | None = None,
    limit: int | None = None,
    again: bool = False,
    run: bool = False,
    workers: int | None = None,
    on_row: Callable[[IndexRow], None] | None = None,
) -> Summary:
    """Measure the programs of a dataset and record that in its index.

    Each program is compiled if necessary, loaded and verified by a worker, hashed, and its size is measured before and
    after `-Oz`. Failures are recorded as its status: no program, not even one that crashes the compiler, stops the
    others. Programs measured before with the same version of LLVM are skipped, so this can be interrupted at any time
    and called again.

    Args:
        dataset: a dataset or a view of one.
        runtime: by default a temporary one.
        limit: how many programs to look at, from the first; all if None.
        again: retry programs that failed before.
        run: run each runnable program before and after `-Oz`, and compare the results.
        workers: number of processes of a temporary runtime, by default one per core.
        on_row: called with each measurement.

    Raises:
        DatasetError: when the dataset has no programs, or no end and there is no limit, or the index cannot be written.
        WorkerStartError: when no worker can be started, or kept running.
    """
    if dataset.kind != PROGRAM:
        raise DatasetError(f"{dataset.name} has no programs that LLVM could load: its benchmarks are {dataset.kind}s")
    size = await in_thread(lambda: dataset.size)  # the first time, a list of names may have to be fetched
    if limit is None and not size and not isinstance(dataset, DatasetView):
        raise DatasetError(f"{dataset.name} has no end: give a limit, or take a slice of it")
    count = size if limit is None else min(limit, size) if size else limit
    async with contextlib.AsyncExitStack() as stack:
        if runtime is None:
            runtime = await stack.enter_async_context(Runtime(workers=workers or len(processors())))
        env = await stack.enter_async_context(await runtime.make(ENVIRONMENT, action_space="Pipelines"))
        llvm = env.compiler_version
        measuring = await in_thread(lambda: _Measuring(dataset, count, llvm, again, run, on_row))
        measuring.advance = stack.enter_context(progress(f"Measuring {dataset.name}", count, unit="programs"))
        return await measuring.work(runtime)


class _Measuring:
    """One pass over a dataset."""

    def __init__(
        self, dataset: Dataset, count: int, llvm: str, again: bool, run: bool, on_row: Callable[[IndexRow], None] | None
    ) -> None:
        self._dataset = dataset
        self._count = count
        self._run = run
        self._on_row = on_row
        self._index = DatasetIndex.of(dataset)
        conditions = (["status = 'ok'"] if again else []) + ([_DONE] if run else [])
        self._known = self._index.recorded(llvm, " AND ".join(f"({one})" for one in conditions))
        self._under_way: list[tuple[BenchmarkUri, int]] = []  # a list of names may contain duplicates
        self._rows: list[IndexRow] = []
        self._recorded = time.monotonic()
        self.summary = Summary(llvm)
        self.advance: Advance = lambda amount: None

    async def work(self, runtime: Runtime) -> Summary:
        """Measure all selected programs."""
        started = time.monotonic()
        lanes = IN_FLIGHT * runtime.worker_count
        try:
            async with prefetch(self._benchmarks(), ahead=lanes) as benchmarks:
                await spread([functools.partial(self._lane, runtime, benchmarks)] * lanes)
        finally:
            await self._record()
            self.summary.seconds = time.monotonic() - started
        return self.summary

    def _benchmarks(self) -> Iterator[Benchmark]:
        """Yield the selected programs."""
        for place in range(self._count):
            number = self._dataset.number_at(place)
            if index_of(number, self._known) is not None:
                self.summary.skipped += 1
                self.advance(1)
                continue
            benchmark = self._dataset.benchmark_from_parsed_uri(self._dataset.uri_at(place))
            self._under_way.append((benchmark.uri, number))
            yield benchmark

    async def _lane(self, runtime: Runtime, benchmarks: Prefetch) -> None:
        async with await runtime.make(ENVIRONMENT, action_space="Pipelines") as env:
            env.timeout = TIMEOUT
            async for benchmark in benchmarks:
                try:
                    await self._add(await self._row(env, benchmark))
                except (DownloadError, InstallError, CacheError) as error:
                    self.summary.unavailable += 1
                    self.summary.reason = self.summary.reason or str(error)
                self.advance(1)

    async def _row(self, env: "Env", benchmark: Benchmark) -> IndexRow:
        """Measure one program.

        Raises:
            DownloadError, InstallError, CacheError: when it is not available.
            WorkerStartError: when no worker can be started any more.
        """
        uri, number = next(one for one in self._under_way if one[0] == benchmark.uri)
        self._under_way.remove((uri, number))
        row = IndexRow(str(uri), number, self.summary.llvm)
        try:
            await prepare(benchmark)
        except (DownloadError, InstallError, CacheError):
            raise
        except DatasetError as error:
            return dataclasses.replace(row, status="compilation", detail=str(error))
        try:
            await env.reset(benchmark=benchmark)
            measured = await measured_row(env, row)
            return dataclasses.replace(measured, run=await _behaviour(env)) if self._run else measured
        except WorkerStartError:
            raise
        except (DatasetError, ServiceError) as error:
            return dataclasses.replace(row, status=_status(error), detail=str(error))

    async def _add(self, row: IndexRow) -> None:
        self.summary.measured += 1
        self.summary.statuses[row.status] += 1
        if row.run:
            self.summary.runs[row.run] += 1
        self._rows.append(row)
        if self._on_row is not None:
            self._on_row(row)
        if len(self._rows) >= BATCH or time.monotonic() - self._recorded > INTERVAL:
            await self._record()

    async def _record(self) -> None:
        """Write measurements, in a thread, since another process or the disk may delay it."""
        rows, self._rows, self._recorded = self._rows, [], time.monotonic()
        with anyio.CancelScope(shield=True):  # so that an interrupted measurement can be continued
            await anyio.to_thread.run_sync(self._index.record, rows)


async def measured_row(env: "Env", row: IndexRow) -> IndexRow:
    """Measure the program of an environment that was just reset.

    Args:
        env: on the environment `ENVIRONMENT`.

    Raises:
        ServiceError: when that fails.
    """
    digest, instructions, instructions_oz = await env.observe(*OBSERVED)
    row = dataclasses.replace(row, instructions=int(instructions), instructions_oz=int(instructions_oz))
    return dataclasses.replace(row, ir_hash=digest, **await _sizes(env))


async def _sizes(env: "Env") -> dict[str, Any]:
    """Measure the object code; programs for targets that LLVM does not support have none, which is not a failure."""
    try:
        text_size, text_size_oz = await env.observe(*SIZES)
    except ObservationFailed as error:
        return {"detail": str(error)}
    return {"text_size": int(text_size), "text_size_oz": int(text_size_oz)}


async def _behaviour(env: "Env") -> str:
    """Run the program before and after `-Oz` and return how they differ."""
    program = env.benchmark.program
    if program is None or not program.runs:
        return NOT_RUNNABLE
    _, _, terminated, _, info = await env.step(LEVEL)
    if terminated:
        return f"{LEVEL}: {info['error']}"
    result = await env.validate(sanitizers=(), minimize=False, runs=(next(iter(program.runs)),))
    return "ok" if result.okay() else result.error_details


def _status(error: Exception) -> str:
    """Return the kind of an error as one word."""
    if isinstance(error, DatasetError):
        return "loading"
    if isinstance(error, DeadlineExceeded):
        return "timeout"
    if isinstance(error, WorkerCrashed):
        return "crash"
    return str(getattr(error, "code", "error"))
