"""Fixtures for tests of the client: a runtime of scripted workers."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import aiocg
import aiocg.testing  # registers scripted-v0
from aiocg.fleet.restart_policy import Policy
from aiocg.fleet.slot import WorkerSlot
from aiocg.host.local import LocalLauncher
from aiocg.host.nursery import NurseryGone, Started

from .. import waiting

QUICK = Policy(first_delay=0.01, max_delay=0.1)
SHARED = replace(QUICK, max_death_rate=10_000, max_explained_rate=10_000, max_deaths=10_000)


@contextlib.asynccontextmanager
async def _two_workers(policy: Policy) -> AsyncIterator[aiocg.Runtime]:
    """A runtime with two workers; checks that it leaves nothing behind."""
    async with aiocg.Runtime(workers=2, policy=policy) as runtime:
        runtime.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
        yield runtime
        pids = runtime.worker_pids()
        folder = runtime.folder
    assert not any(map(waiting.is_alive, pids))
    assert folder is None or not folder.exists()


@pytest_asyncio.fixture(scope="session")
async def shared() -> AsyncIterator[aiocg.Runtime]:
    """A runtime without patience that tests share, whatever they do to its workers."""
    async with _two_workers(SHARED) as runtime:
        async with await runtime.make("scripted-v0") as env:  # so that its files are open before any test
            await env.reset()
        yield runtime


@pytest.fixture
def runtime(shared: aiocg.Runtime) -> aiocg.Runtime:
    """That runtime, with nothing in quarantine and the datasets that it should have."""
    shared.quarantine.clear()
    shared.datasets["scripted-v0"] = aiocg.testing.ScriptedDataset()
    return shared


@pytest.fixture
async def fresh() -> AsyncIterator[aiocg.Runtime]:
    """A runtime without patience on which nothing has happened yet."""
    async with _two_workers(QUICK) as runtime:
        yield runtime


@pytest.fixture
async def env(runtime: aiocg.Runtime) -> AsyncIterator[aiocg.Env]:
    """A scripted environment that stands at 5."""
    async with await runtime.make("scripted-v0", benchmark=aiocg.testing.scripted_benchmark(5)) as env:
        await env.reset()
        yield env


@pytest.fixture
def is_alive() -> Callable[[int], bool]:
    """Say whether a process id is that of a live process."""
    return waiting.is_alive


@pytest.fixture
def executing() -> Callable[[aiocg.Runtime], list[int]]:
    """Return the process ids of those workers of a runtime that execute what somebody waits for.

    Right after an answer a worker still says that it executes what it has answered.
    """

    def is_executing(life: Any, slot: WorkerSlot) -> bool:
        execution = life.process.look().execution
        return execution is not None and execution.request in slot.queue.sent

    def find(runtime: aiocg.Runtime) -> list[int]:
        slots = [pair for one in runtime._supervisors.values() for pair in zip(one._lives, one.workers, strict=True)]
        return [life.process.pid for life, slot in slots if life is not None and is_executing(life, slot)]

    return find


@pytest.fixture
def kill_until_done(executing: Callable[[aiocg.Runtime], list[int]]) -> Callable[..., object]:
    """Kill every worker that is at something, again and again, until there is an answer; returns how often."""

    async def kill(runtime: aiocg.Runtime, answer: "asyncio.Future[object]") -> int:
        killed: set[int] = set()
        async with asyncio.timeout(60):
            while not answer.done():
                for pid in set(executing(runtime)) - killed:
                    os.kill(pid, signal.SIGKILL)  # it is no zombie that nobody has waited for, if no more than that
                    killed.add(pid)
                await asyncio.sleep(0.005)
        return len(killed)

    return kill


@pytest.fixture
def stop_workers(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Have workers that are started from now on stop before they are anything, until they get SIGCONT."""
    start, create = LocalLauncher._start, Started.start

    async def start_unforked(launcher: LocalLauncher, *arguments: Any) -> Any:
        launcher._nursery = None  # what it forks would be up before it is stopped
        return await start(launcher, *arguments)

    async def create_stopped(command: Sequence[str], *arguments: Any) -> Started:
        child = await create(["/bin/sh", "-c", 'kill -STOP $$; exec "$@"', "sh", *command], *arguments)
        while b") T " not in Path(f"/proc/{child.pid}/stat").read_bytes():  # noqa: ASYNC110, a process sets no event
            await asyncio.sleep(0.002)  # else it might stop after the SIGCONT
        return child

    def stop() -> None:
        monkeypatch.setattr(LocalLauncher, "_start", start_unforked)
        monkeypatch.setattr(Started, "start", create_stopped)

    return stop


@pytest.fixture(autouse=True)
def open_descriptors() -> object:
    """Check that a test leaves no file descriptor open."""
    before = len(os.listdir("/proc/self/fd"))
    yield
    after = len(os.listdir("/proc/self/fd"))
    assert after <= before + 8, "descriptors leak"  # ZeroMQ's context and the event loop open some once


@pytest.fixture(params=["forked", "started"])
def how_they_start(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have workers forked by a nursery, or each started by itself."""
    if request.param == "started":
        monkeypatch.setattr(LocalLauncher, "use_nursery", _no_nursery)


def _no_nursery(launcher: LocalLauncher) -> object:
    class None_:
        def stop(self) -> None: ...

        async def close(self) -> None: ...

        async def fork(self, *arguments: object) -> None:
            raise NurseryGone

    launcher._nursery = None_()  # type: ignore[assignment]
    return launcher._nursery


@pytest.fixture
def own_folders(
    new_cache: Callable[[], Path], tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder for datasets and a cache that have none and no program."""
    monkeypatch.setenv("AIOCG_SITE_DATA", str(tmp_path_factory.mktemp("site")))
    monkeypatch.setenv("AIOCG_CACHE", str(new_cache()))


@pytest.fixture
def write(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[dict[str, str]], Path]:
    """Write the files of a project, in whose folder everything happens; the module may name it as FOLDER."""
    folder = tmp_path / getattr(request.module, "FOLDER", "")
    folder.mkdir(exist_ok=True)
    monkeypatch.chdir(folder)

    def writing(files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return folder

    return writing
